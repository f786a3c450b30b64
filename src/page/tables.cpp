// Tables as JSON, CSV and text.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <span>

#include "base/csv_field.h"
#include "base/text_util.h"
#include "page/study.h"

namespace elmo {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kPrintedRows = 40;  // of a table in a terminal: its end, where a run's last step is

Json json_of(const Cell& cell) {
    if (const auto* text = std::get_if<std::string>(&cell)) return *text;
    if (const auto* whole = std::get_if<std::int64_t>(&cell)) return *whole;
    if (const auto* number = std::get_if<double>(&cell); number != nullptr && std::isfinite(*number))
        return *number;
    return nullptr;
}

}  // namespace

std::string exact_text(const Cell& cell) {
    if (const auto* text = std::get_if<std::string>(&cell)) return *text;
    if (const auto* whole = std::get_if<std::int64_t>(&cell)) return std::to_string(*whole);
    if (const auto* number = std::get_if<double>(&cell); number != nullptr && std::isfinite(*number))
        return fmt::format("{}", *number);
    return "";
}

std::string rounded_text(const Cell& cell, int digits) {
    if (const auto* whole = std::get_if<std::int64_t>(&cell)) return with_commas(*whole);
    const auto* number = std::get_if<double>(&cell);
    if (number == nullptr || !std::isfinite(*number)) return exact_text(cell);
    std::string text = fmt::format("{:.{}f}", *number, digits);
    const std::size_t point = std::min(text.find('.'), text.size()), first = text[0] == '-' ? 1 : 0;
    for (std::size_t i = point; i > first + 3;) text.insert(i -= 3, 1, ',');
    return text;
}

std::string study_json(const Study& study, const Provenance& provenance) {
    Json tables = Json::object();
    for (const Table& table : study.tables) {
        Json rows = Json::array();
        for (const auto& row : table.rows) {
            Json object = Json::object();
            for (std::size_t c = 0; c < row.size(); ++c) object[table.columns[c].name] = json_of(row[c]);
            rows.push_back(object);
        }
        tables[table.name] = rows;
    }
    const Json all = {
        {"study", study.name},     {"title", study.title},          {"command", provenance.command},
        {"date", provenance.date}, {"machine", provenance.machine}, {"version", provenance.version},
        {"tables", tables}};
    return all.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string table_csv(const Table& table) {
    std::string out;
    for (std::size_t c = 0; c < table.columns.size(); ++c)
        out += (c > 0 ? "," : "") + csv_field(table.columns[c].name);
    out += "\n";
    for (const auto& row : table.rows) {
        for (std::size_t c = 0; c < row.size(); ++c)
            out += (c > 0 ? "," : "") + csv_field(exact_text(row[c]));
        out += "\n";
    }
    return out;
}

std::string study_text(const Study& study) {
    std::string out;
    for (const Table& table : study.tables) {
        std::vector<std::vector<std::string>> cells(1);
        for (const Column& column : table.columns) cells[0].push_back(column.head);
        const std::size_t rows = table.rows.size(), hidden = rows > kPrintedRows ? rows - kPrintedRows : 0;
        for (const auto& row : std::span(table.rows).subspan(hidden)) {
            cells.emplace_back();
            for (std::size_t c = 0; c < row.size(); ++c)
                cells.back().push_back(rounded_text(row[c], table.columns[c].digits));
        }
        out += (out.empty() ? "" : "\n") + table.caption + "\n";
        for (const auto& row : cells) {
            std::string line;
            for (std::size_t c = 0; c < row.size(); ++c) {
                std::size_t width = 0;
                for (const auto& other : cells) width = std::max(width, other[c].size());
                line +=
                    c == 0 ? fmt::format("{:<{}}", row[c], width) : fmt::format("  {:>{}}", row[c], width);
            }
            line.erase(line.find_last_not_of(' ') + 1);
            out += line + "\n";
        }
        if (hidden > 0)
            out += fmt::format("the last {} of {} rows; the .csv file has all\n", kPrintedRows, rows);
    }
    return out;
}

}  // namespace elmo
