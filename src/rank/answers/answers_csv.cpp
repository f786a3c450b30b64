#include "rank/answers/answers_csv.h"

#include <fmt/format.h>

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
    std::string separator;
};

Shape look_at(const std::filesystem::path& file, const std::string& wanted) {
    Shape shape;
    std::vector<std::string> candidates = {";", "|", "\t"};
    const bool is_separator = !wanted.empty() && wanted != "auto" && wanted != "list" && wanted != "none";
    candidates.insert(candidates.begin(), is_separator ? wanted : ",");
    std::vector<bool> used(candidates.size());
    for_each_answer(file, [&](const Json& answer) {
        shape.id = shape.id || answer.contains("id");
        shape.text = shape.text || answer.contains("text");
        shape.file = shape.file || answer.contains("file");
        for (const Json& label : answer["labels"])
            for (std::size_t i = 0; i < candidates.size(); ++i)
                used[i] = used[i] || name_of(label).find(candidates[i]) != std::string::npos;
    });
    for (std::size_t i = 0; i < candidates.size(); ++i)
        if (!used[i]) {
            shape.separator = candidates[i];
            return shape;
        }
    throw DataError(
        fmt::format("{}: label names hold every separator that a CSV list could have; write the "
                    "answers as JSON lines, to a file that is not named .csv",
                    file.string()));
}

}  // namespace

bool is_csv(const std::filesystem::path& file) {
    return file.extension() == ".csv";
}

void write_csv_answers(const std::filesystem::path& json_lines, const std::filesystem::path& csv,
                       const std::string& separator) {
    const Shape shape = look_at(json_lines, separator);
    AtomicFile out(csv);
    out.write(fmt::format("{}line{}{},labels,probabilities\n", shape.file ? "file," : "",
                          shape.id ? ",id" : "", shape.text ? ",text" : ""));
    for_each_answer(json_lines, [&](const Json& answer) {
        std::string row, names, probabilities;
        if (shape.file) row += field_of(answer["file"]) + ",";
        row += json_string(answer["line"]);
        if (shape.id) row += "," + (answer.contains("id") ? field_of(answer["id"]) : std::string());
        if (shape.text) row += "," + field_of(answer["text"]);
        for (const Json& label : answer["labels"]) {
            const std::string between = &label == &answer["labels"].front() ? "" : shape.separator;
            names += between + name_of(label);
            probabilities += between + fmt::format("{:.6g}", label["probability"].get<double>());
        }
        out.write(row + "," + csv_field(names) + "," + csv_field(probabilities) + "\n");
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
