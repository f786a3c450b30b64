// The charts of a study's page. A chart is data; svg() draws it for one width in pixels, with colours as CSS
// variables of the page and a <title> (the browser's tooltip) on every mark. Names of series go to the
// legend, which is HTML so that it wraps: see page.cpp.
#pragma once

#include <string>
#include <variant>
#include <vector>

namespace elmo {

// Colours --s0 ... of the page; further series start again.
inline constexpr int kSeriesColours = 10;

struct Axis {
    std::string label;
    bool log = false;                // values must be positive
    std::vector<double> ticks = {};  // where given: exactly these
    bool from_zero = true;           // of a linear axis
};

// Points joined by lines. A point whose y is NaN breaks the line.
struct LineChart {
    struct Point {
        double x = 0, y = 0;
        std::string note = {};  // tooltip; "" for "name: x, y"
        bool hollow = false;    // for instance planned, not measured
    };
    struct Series {
        std::string name;
        std::vector<Point> points;
        bool dashed = false;
    };
    std::string title, caption;
    Axis x, y;
    std::vector<Series> series;
};

// Groups of bars side by side, one group per category; bands are ranges of categories drawn above them.
struct BarChart {
    struct Series {
        std::string name;
        std::vector<double> values;  // one a category
    };
    struct Band {
        std::string name;
        int first = 0, last = 0;  // categories, inclusive; limited to existing ones
    };
    std::string title, caption;
    std::string x_label;
    Axis y;
    std::vector<std::string> categories;
    std::vector<Series> series;
    std::vector<Band> bands = {};
};

// A value in each cell of a grid: colour and number. NaN is an empty cell.
struct HeatMap {
    std::string title, caption;
    std::string x_label, y_label, value_label;
    std::vector<std::string> columns, rows;
    std::vector<std::vector<double>> values;  // [row][column]
    int digits = 2;
    double low = 0, high = 0;  // of the colours; equal: the smallest and largest value
};

// What adds up over a sequence of phases: each series is a layer, constant within a phase.
struct StackedChart {
    struct Series {
        std::string name;
        std::vector<double> values;  // one per phase, not negative
    };
    std::string title, caption;
    std::string x_label;
    Axis y;
    std::vector<std::string> phases;
    std::vector<Series> series;  // the first lies at the bottom
};

using Chart = std::variant<LineChart, BarChart, HeatMap, StackedChart>;

std::string svg(const LineChart& chart, int width);
std::string svg(const BarChart& chart, int width);
std::string svg(const HeatMap& chart, int width);
std::string svg(const StackedChart& chart, int width);

// Whether a drawing of this width has the name of each series at the end of its line, and needs no legend.
bool names_lines(const LineChart& chart, int width);

// Names of the series in the order of their colours; empty if a single series needs no legend.
std::vector<std::string> legend(const Chart& chart);

}  // namespace elmo
