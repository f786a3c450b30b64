#include "rank/answers/answers_csv.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <functional>
#include <nlohmann/json.hpp>
#include <vector>

#include "base/csv_field.h"
#include "elmo/error.h"
#include "formats/json_text.h"
#include "io/atomic_file.h"
#include "io/line_reader.h"
#include "sources/records/record_reader.h"

namespace elmo {
namespace {

using Json = nlohmann::json;

void for_each_answer(const std::filesystem::path& file, const std::function<void(const Json&)>& use) {
    LineReader lines(file.string());
    while (const auto line = lines.next_line()) use(own_json(*line));
}

std::string name_of(const Json& label) {
    const std::string& name = label["name"].get_ref<const std::string&>();
    return name.empty() ? std::to_string(label["label"].get<std::int64_t>()) : name;
}

std::string field_of(const Json& value) {
    return csv_field(value.is_string() ? value.get_ref<const std::string&>() : json_string(value));
}

// What the table needs to know of all answers before its first line.
struct Shape {
    bool id = false, text = false, file = false;
};

Shape look_at(const std::filesystem::path& file) {
    Shape shape;
    for_each_answer(file, [&](const Json& answer) {
        shape.id = shape.id || answer.contains("id");
        shape.text = shape.text || answer.contains("text");
        shape.file = shape.file || answer.contains("file");
    });
    return shape;
}

std::string lower_ending(const std::filesystem::path& file) {
    std::string ending = file.extension().string();
    for (char& c : ending) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    return ending;
}

}  // namespace

bool is_csv(const std::filesystem::path& file) {
    return lower_ending(file) == ".csv";
}

void refuse_other_format(const std::filesystem::path& file) {
    static constexpr std::string_view kOthers[] = {".tsv",  ".parquet", ".pq",  ".arrow", ".feather",
                                                   ".xlsx", ".xls",     ".npz", ".gz",    ".zst",
                                                   ".xz",   ".bz2",     ".zip"};
    if (std::ranges::find(kOthers, lower_ending(file)) != std::end(kOthers))
        throw ConfigError(fmt::format(
            "out: {}: answers are JSON lines (.jsonl) or CSV (.csv); give such a name", file.string()));
}

void write_csv_answers(const std::filesystem::path& json_lines, const std::filesystem::path& csv) {
    const Shape shape = look_at(json_lines);
    AtomicFile out(csv);
    out.write(fmt::format("{}line{}{},labels,probabilities\n", shape.file ? "file," : "",
                          shape.id ? ",id" : "", shape.text ? ",text" : ""));
    for_each_answer(json_lines, [&](const Json& answer) {
        std::string row;
        Json names = Json::array();
        std::vector<std::string> probabilities;
        if (shape.file) row += field_of(answer["file"]) + ",";
        row += json_string(answer["line"]);
        if (shape.id) row += "," + (answer.contains("id") ? field_of(answer["id"]) : std::string());
        if (shape.text) row += "," + field_of(answer["text"]);
        for (const Json& label : answer["labels"]) {
            names.push_back(name_of(label));
            probabilities.push_back(fmt::format("{:.6g}", label["probability"].get<double>()));
        }
        out.write(fmt::format("{},{},{}\n", row, csv_field(json_string(names)),
                              csv_field(fmt::format("[{}]", fmt::join(probabilities, ",")))));
    });
    out.commit();
}

std::int64_t count_csv_answers(const std::filesystem::path& csv) {
    RecordReader reader(csv, Framing::kCsv);
    std::int64_t rows = -1;
    while (reader.next()) ++rows;
    return rows < 0 ? 0 : rows;
}

}  // namespace elmo
