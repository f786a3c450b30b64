// JSON, CSV and page hold the same numbers, with every digit.
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <regex>
#include <sstream>

#include "base/text_util.h"
#include "elmo/error.h"
#include "gallery.h"
#include "io/temp_folder.h"
#include "study/study_files.h"

namespace elmo {
namespace {

// RFC 4180.
std::vector<std::vector<std::string>> read_csv(const std::string& text) {
    std::vector<std::vector<std::string>> rows(1, std::vector<std::string>(1));
    bool quoted_field = false;
    for (std::size_t i = 0; i < text.size(); ++i) {
        const char c = text[i];
        if (quoted_field) {
            if (c != '"')
                rows.back().back() += c;
            else if (i + 1 < text.size() && text[i + 1] == '"')
                rows.back().back() += text[++i];
            else
                quoted_field = false;
        } else if (c == '"') {
            quoted_field = true;
        } else if (c == ',') {
            rows.back().emplace_back();
        } else if (c == '\n') {
            rows.emplace_back(1);
        } else {
            rows.back().back() += c;
        }
    }
    rows.pop_back();
    return rows;
}

std::string unescaped(std::string text) {
    for (const auto& [entity, plain] :
         {std::pair("&lt;", "<"), {"&gt;", ">"}, {"&quot;", "\""}, {"&amp;", "&"}})
        for (std::size_t at = 0; (at = text.find(entity, at)) != std::string::npos; ++at)
            text.replace(at, std::string(entity).size(), plain);
    return text;
}

// The data-value attributes of one table of the page, in order.
std::vector<std::string> page_values(const std::string& page, const std::string& table) {
    const std::size_t begin = page.find("<table id=\"" + table + "\"");
    const std::string part = page.substr(begin, page.find("</table>", begin) - begin);
    const std::regex value("data-value=\"([^\"]*)\"");
    std::vector<std::string> values;
    for (std::sregex_iterator at(part.begin(), part.end(), value), end; at != end; ++at)
        values.push_back(unescaped((*at)[1]));
    return values;
}

TEST(StudyFiles, JsonCsvAndPageHoldTheSameNumbers) {
    const TempFolder folder;
    const Study study = gallery();
    const StudyFiles files = write_study(study, {"elmo study 'x'", "today", "a machine", "1"}, folder.path());
    const auto json = nlohmann::json::parse(read_file(files.json));
    const std::string page = read_file(files.html);
    EXPECT_EQ(read_file(files.json), files.content);
    for (std::size_t t = 0; t < study.tables.size(); ++t) {
        const Table& table = study.tables[t];
        const auto csv =
            read_csv(read_file(t == 0 ? std::filesystem::path(files.csv) : folder.path() / "study.wide.csv"));
        const auto shown = page_values(page, table.name);
        ASSERT_EQ(csv.size(), table.rows.size() + 1);
        ASSERT_EQ(shown.size(), table.rows.size() * table.columns.size());
        for (std::size_t r = 0; r < table.rows.size(); ++r)
            for (std::size_t c = 0; c < table.columns.size(); ++c) {
                const auto& value = json["tables"][table.name][r][table.columns[c].name];
                const std::string& field = csv[r + 1][c];
                EXPECT_EQ(csv[0][c], table.columns[c].name);
                EXPECT_EQ(field, shown[r * table.columns.size() + c]);
                if (value.is_null()) {
                    EXPECT_EQ(field, "");
                } else if (value.is_string()) {
                    EXPECT_EQ(field, value.get<std::string>());
                } else if (value.is_number_integer()) {
                    EXPECT_EQ(std::stoll(field), value.get<std::int64_t>());
                } else {
                    EXPECT_EQ(std::stod(field), value.get<double>());  // every digit
                    EXPECT_EQ(std::get<double>(table.rows[r][c]), value.get<double>());
                }
            }
    }
    EXPECT_NE(page.find("elmo study 'x'"), std::string::npos);
    EXPECT_NE(page.find("Charts &lt;of&gt; &quot;every&quot; kind &amp; size"), std::string::npos);
}

TEST(StudyFiles, ATerminalGetsTheEndOfALongTable) {
    Study study;
    study.tables = {{"long", "Steps.", {{"step", "step"}}, {}}};
    for (std::int64_t step = 1; step <= 100; ++step) study.tables[0].rows.push_back({step});
    const std::string text = study_text(study);
    EXPECT_EQ(text.find("\n60\n"), std::string::npos);
    EXPECT_NE(text.find("\n61\n"), std::string::npos);
    EXPECT_NE(text.find("\n100\nthe last 40 of 100 rows; the .csv file has all\n"), std::string::npos)
        << text;
    study.tables[0].rows.resize(40);
    EXPECT_EQ(study_text(study).find("the last"), std::string::npos);
}

TEST(StudyFiles, ThePageIsWholeAndFetchesNothing) {
    const std::string page = study_page(gallery(), {"c", "d", "m", "v"});
    EXPECT_EQ(page.find("http"), std::string::npos);
    EXPECT_EQ(page.find("<script"), std::string::npos);
    EXPECT_EQ(page.find("nan"), std::string::npos);
    for (const char* element : {"svg", "figure", "table", "text", "rect", "path"}) {
        const std::regex open("<" + std::string(element) + "[ >]");
        const auto opened = std::distance(std::sregex_iterator(page.begin(), page.end(), open), {});
        const std::regex close("</" + std::string(element) + ">");
        auto closed = std::distance(std::sregex_iterator(page.begin(), page.end(), close), {});
        const std::regex single("<" + std::string(element) + " [^>]*/>");
        closed += std::distance(std::sregex_iterator(page.begin(), page.end(), single), {});
        EXPECT_EQ(opened, closed) << element;
    }
}

TEST(StudyFiles, WhatStandsBetweenBackquotesIsCode) {
    Study study = gallery();
    study.paragraphs = {"Give `--top <k>` to `predict`.", "A single ` stays."};
    const std::string page = study_page(study, {"c", "d", "m", "v"});
    EXPECT_NE(page.find("Give <code>--top &lt;k&gt;</code> to <code>predict</code>."), std::string::npos);
    EXPECT_NE(page.find("A single ` stays."), std::string::npos);
}

// The height of a bar is its value: the pixels of a chart are part of the result.
TEST(Charts, StackedLayersAreAsHighAsTheirValues) {
    StackedChart chart{"t", "", "", {"GiB"}, {"a", "b"}, {{"x", {1, 3}}, {"y", {2, 0}}}};
    const std::string drawing = svg(chart, 720);
    const std::regex layer(
        "class=\"layer\" x=\"([\\d.]+)\" y=\"([\\d.]+)\" width=\"([\\d.]+)\" height=\"([\\d.]+)\"");
    std::vector<double> heights, tops;
    for (std::sregex_iterator at(drawing.begin(), drawing.end(), layer), end; at != end; ++at) {
        tops.push_back(std::stod((*at)[2]));
        heights.push_back(std::stod((*at)[4]));
    }
    ASSERT_EQ(heights.size(), 3u);  // a layer of nothing is not drawn
    EXPECT_NEAR(heights[1], 3 * heights[0], 0.05);
    EXPECT_NEAR(heights[2], 2 * heights[0], 0.05);
    EXPECT_NEAR(tops[2] + heights[2], tops[0], 0.02);  // y lies on x
}

TEST(Charts, BarsCarryTheirValuesAndTheAxisShowsTheDifference) {
    BarChart chart{"t", "", "", {"percent", false, {}, false}, {"a", "b"}, {{"x", {45.53, 45.41}}}};
    const std::string drawing = svg(chart, 720);
    EXPECT_NE(drawing.find(">45.53</text>"), std::string::npos) << drawing;
    EXPECT_NE(drawing.find(">45.41</text>"), std::string::npos);
    EXPECT_EQ(drawing.find(">0</text>"), std::string::npos);  // the axis starts near the bars
    chart.y.from_zero = true;
    EXPECT_NE(svg(chart, 720).find(">0</text>"), std::string::npos);
}

TEST(Charts, SeriesAreNamedAtTheirLinesWithoutOverlap) {
    LineChart chart{"t", "", {"x"}, {"y"}, {}};
    for (const char* name : {"bf16", "8 bits", "fp32"})
        chart.series.push_back({name, {{0, 1}, {1, 2}}});  // all end in one point
    const std::string drawing = svg(chart, 720);
    const std::regex name("class=\"name\" x=\"([\\d.]+)\" y=\"([\\d.]+)\"");
    std::vector<double> heights;
    for (std::sregex_iterator at(drawing.begin(), drawing.end(), name), end; at != end; ++at)
        heights.push_back(std::stod((*at)[2]));
    ASSERT_EQ(heights.size(), 3u);
    std::sort(heights.begin(), heights.end());
    EXPECT_GE(heights[1] - heights[0], 13.9);
    EXPECT_GE(heights[2] - heights[1], 13.9);
    EXPECT_EQ(svg(chart, 328).find("class=\"name\""), std::string::npos);  // no room: the legend names them
}

TEST(Charts, LogAxesEndNextToTheValues) {
    const std::string drawing = svg(LineChart{"t", "", {"x"}, {"y", true}, {{"s", {{0, 4}, {1, 300}}}}}, 720);
    EXPECT_NE(drawing.find(">500<"), std::string::npos) << drawing;
    EXPECT_NE(drawing.find(">2<"), std::string::npos);
    EXPECT_EQ(drawing.find(">1000<"), std::string::npos);
    EXPECT_EQ(drawing.find(">1K<"), std::string::npos);
}

TEST(Tables, ThousandsAreSeparatedForPeopleOnly) {
    EXPECT_EQ(rounded_text(Cell(std::int64_t{2812281}), 2), "2,812,281");
    EXPECT_EQ(rounded_text(Cell(-1234.567), 1), "-1,234.6");
    EXPECT_EQ(rounded_text(Cell(999.99), 2), "999.99");
    EXPECT_EQ(exact_text(Cell(std::int64_t{2812281})), "2812281");
}

TEST(Charts, TicksAreRoundAndCoverTheValues) {
    const std::string drawing =
        svg(LineChart{"t", "", {"x", true}, {"y"}, {{"s", {{131073, 0.3}, {18e6, 15.2}}}}}, 720);
    for (const char* tick : {">100K<", ">1M<", ">10M<", ">0<", ">10<"})
        EXPECT_NE(drawing.find(tick), std::string::npos) << tick;
}

}  // namespace
}  // namespace elmo
