#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "page/svg.h"

namespace elmo {

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
    plot.right = width - 14;
    plot.bottom = plot.height - (chart.x.label.empty() ? 24 : 40);
    Axis x = chart.x;
    if (!x.log) x.from_zero = false;
    const Scale to_x(x, x_least, x_most, plot.left + 6, plot.right - 6, width >= 600 ? 8 : 4);
    const Scale to_y(chart.y, y_least, y_most, plot.bottom, plot.top, 6);

    std::string out = open_svg(plot, chart.title);
    out += y_axis(plot, to_y, chart.y.label);
    out += x_axis(plot, to_x, chart.x.label);
    for (std::size_t s = 0; s < chart.series.size(); ++s) {
        const auto& series = chart.series[s];
        const std::string colour = series_colour(s);
        std::string path, marks;
        bool joined = false;
        for (const auto& point : series.points) {
            if (!std::isfinite(point.x) || !std::isfinite(point.y)) {
                joined = false;
                continue;
            }
            const std::string at_x = px(to_x(point.x)), at_y = px(to_y(point.y));
            path += fmt::format("{}{} {}", joined ? "L" : "M", at_x, at_y);
            joined = true;
            const std::string note = point.note.empty() ? fmt::format("{}: {}, {}", series.name,
                                                                      compact(point.x), compact(point.y))
                                                        : point.note;
            marks += with_title(
                fmt::format("<circle class=\"mark\" cx=\"{}\" cy=\"{}\" r=\"4\" stroke=\"{}\" fill=\"{}\"",
                            at_x, at_y, colour, point.hollow ? "var(--back)" : colour),
                "circle", note);
        }
        out += fmt::format("<path class=\"line\" d=\"{}\" stroke=\"{}\"{}/>\n", path, colour,
                           series.dashed ? " stroke-dasharray=\"5 4\"" : "");
        out += marks;
    }
    return out + "</svg>\n";
}

}  // namespace elmo
