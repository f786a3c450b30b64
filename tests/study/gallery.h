// A study with a chart of each kind, with awkward numbers and names: what the tests of pages look at.
#pragma once

#include <cmath>
#include <limits>

#include "page/study.h"

namespace elmo {

inline Study gallery() {
    const double none = std::numeric_limits<double>::quiet_NaN();
    Study study;
    study.name = "gallery";
    study.title = "Charts <of> \"every\" kind & size";
    study.paragraphs = {
        "A paragraph with a word that is long enough to break a narrow window: "
        "encoder/layer.11/attention/output/dense/weight/compensation/and/so/on/without/end."};
    LineChart lines{"Lines on two logarithmic axes",
                    "Hollow: planned.",
                    {"labels", true},
                    {"GiB", true},
                    {{"fp32", {{131e3, 3.1}, {2.8e6, 25.4}, {18e6, 157, "", true}}, false},
                     {"8 bits", {{131e3, 1.9}, {670e3, none}, {2.8e6, 4.8}, {18e6, 15.2, "", true}}, true}}};
    LineChart linear{
        "A line on linear axes", "", {"step"}, {"loss"}, {{"loss", {{0, -3}, {50, 12}, {97, 4}}}}};
    BarChart bars{"Bars with bands", "Exponents.", "floor(log2 |w|)", {"share"}, {}, {}, {}};
    for (int e = -24; e <= 4; ++e) bars.categories.push_back(std::to_string(e));
    bars.series = {{"weights", {}}, {"gradients", {}}};
    for (int e = -24; e <= 4; ++e) {
        bars.series[0].values.push_back(std::exp(-0.05 * (e + 6) * (e + 6)));
        bars.series[1].values.push_back(0.7 * std::exp(-0.02 * (e + 13) * (e + 13)));
    }
    bars.bands = {{"E4M3", 15, 32}, {"E3M4", 14, 24}, {"E5M2", 8, 39}, {"BF16", -100, 100}};
    HeatMap heat{"A grid", "Empty cells were not run.", "mantissa bits", "exponent bits", "P@1", {}, {}, {}};
    for (int m = 0; m <= 7; ++m) heat.columns.push_back(std::to_string(m));
    for (int e = 2; e <= 5; ++e) {
        heat.rows.push_back(std::to_string(e));
        heat.values.emplace_back();
        for (int m = 0; m <= 7; ++m)
            heat.values.back().push_back(e == 5 && m > 4 ? none
                                                         : 40 + 5 * (1 - std::exp(-0.7 * m - 0.1 * e)));
    }
    StackedChart stacked{"Layers over phases",
                         "",
                         "phase of the step",
                         {"GiB"},
                         {"start", "encoder forward", "head", "encoder backward", "encoder update"},
                         {}};
    for (int s = 0; s < 9; ++s)
        stacked.series.push_back({"segment " + std::to_string(s), {1.0 + s, 2.0, 0.5 * s, 3, 0}});
    study.charts = {lines, linear, bars, heat, stacked};
    study.tables = {
        {"numbers",
         "Numbers, and what they must survive.",
         {{"name", "name"}, {"count", "count"}, {"value", "value, of something", 3}, {"other", "other"}},
         {{std::string("plain"), std::int64_t{131073}, 0.1, std::monostate{}},
          {std::string("a \"quote\", a comma & <b>"), std::int64_t{-1}, 1e-7 / 3, 2.0},
          {std::string("two\nlines"), std::int64_t{9007199254740993}, none, std::string("x")}}},
        {"wide", "Wide.", {}, {}}};
    study.tables[1].rows.emplace_back();
    for (int c = 0; c < 14; ++c) {
        study.tables[1].columns.push_back({"column_" + std::to_string(c), "column " + std::to_string(c)});
        study.tables[1].rows[0].emplace_back(1000.0 / (c + 1));
    }
    return study;
}

}  // namespace elmo
