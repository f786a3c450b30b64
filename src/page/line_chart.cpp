#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "page/svg.h"

namespace elmo {
namespace {

constexpr double kNameHeight = 14, kMostNameWidth = 170;

// The name of a series and the height of its last point.
struct EndName {
    std::size_t series = 0;
    double y = 0;
};

// Names one below another, each as near to its line as the others allow.
std::string names_at_lines(const LineChart& chart, std::vector<EndName> names, const Plot& plot) {
    std::sort(names.begin(), names.end(), [](const EndName& a, const EndName& b) {
        return a.y < b.y || (a.y == b.y && a.series < b.series);
    });
    double free_from = plot.top;
    for (EndName& name : names) {
        name.y = std::max(name.y, free_from);
        free_from = name.y + kNameHeight;
    }
    double free_to = plot.bottom;
    for (auto name = names.rbegin(); name != names.rend(); ++name) {
        name->y = std::min(name->y, free_to);
        free_to = name->y - kNameHeight;
    }
    std::string out;
    for (const EndName& name : names)
        out +=
            fmt::format("<text class=\"name\" x=\"{}\" y=\"{}\" fill=\"{}\">{}</text>\n", px(plot.right + 8),
                        px(name.y + 4), series_colour(name.series), escaped(chart.series[name.series].name));
    return out;
}

}  // namespace

bool names_lines(const LineChart& chart, int width) {
    if (width < 600 || chart.series.size() < 2 || chart.series.size() > 12) return false;
    return std::all_of(chart.series.begin(), chart.series.end(),
                       [](const auto& series) { return text_width(series.name) <= kMostNameWidth; });
}

std::string svg(const LineChart& chart, int width) {
    double x_least = std::numeric_limits<double>::infinity(), x_most = -x_least;
    double y_least = x_least, y_most = x_most;
    for (const auto& series : chart.series)
        for (const auto& point : series.points) {
            if (!std::isfinite(point.x) || !std::isfinite(point.y)) continue;
            x_least = std::min(x_least, point.x);
            x_most = std::max(x_most, point.x);
            y_least = std::min(y_least, point.y);
            y_most = std::max(y_most, point.y);
        }
    if (x_least > x_most) x_least = y_least = x_most = y_most = 1;  // no points

    Plot plot;
    plot.width = width;
    plot.height = width >= 600 ? 340 : 280;
    plot.left = 46;
    plot.top = 24;
    const bool named = names_lines(chart, width);
    double names_wide = 0;
    if (named)
        for (const auto& series : chart.series)
            names_wide = std::max(names_wide, text_width(series.name) + 8);
    plot.right = width - 14 - names_wide;
    plot.bottom = plot.height - (chart.x.label.empty() ? 24 : 40);
    Axis x = chart.x;
    if (!x.log) x.from_zero = false;
    const Scale to_x(x, x_least, x_most, plot.left + 6, plot.right - 6, width >= 600 ? 7 : 4);
    const Scale to_y(chart.y, y_least, y_most, plot.bottom, plot.top, 6);

    std::string out = open_svg(plot, chart.title);
    out += y_axis(plot, to_y, chart.y.label);
    out += x_axis(plot, to_x, chart.x.label);
    std::vector<EndName> ends;
    for (std::size_t s = 0; s < chart.series.size(); ++s) {
        const auto& series = chart.series[s];
        const std::string colour = series_colour(s);
        std::string path, marks;
        bool joined = false;
        double end_y = std::numeric_limits<double>::quiet_NaN();
        for (const auto& point : series.points) {
            if (!std::isfinite(point.x) || !std::isfinite(point.y)) {
                joined = false;
                continue;
            }
            const std::string at_x = px(to_x(point.x)), at_y = px(to_y(point.y));
            path += fmt::format("{}{} {}", joined ? "L" : "M", at_x, at_y);
            joined = true;
            end_y = to_y(point.y);
            const std::string note = point.note.empty() ? fmt::format("{}: {}, {}", series.name,
                                                                      compact(point.x), precise(point.y))
                                                        : point.note;
            marks += with_title(
                fmt::format("<circle class=\"mark\" cx=\"{}\" cy=\"{}\" r=\"4\" stroke=\"{}\" fill=\"{}\"",
                            at_x, at_y, colour, point.hollow ? "var(--back)" : colour),
                "circle", note);
        }
        out += fmt::format("<path class=\"line\" d=\"{}\" stroke=\"{}\"{}/>\n", path, colour,
                           series.dashed ? " stroke-dasharray=\"5 4\"" : "");
        out += marks;
        if (std::isfinite(end_y)) ends.push_back({s, end_y});
    }
    if (named) out += names_at_lines(chart, std::move(ends), plot);
    return out + "</svg>\n";
}

}  // namespace elmo
