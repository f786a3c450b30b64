#include <fmt/format.h>

#include <algorithm>

#include "page/svg.h"

namespace elmo {

std::string svg(const StackedChart& chart, int width) {
    const std::size_t phases = chart.phases.size();
    const auto value_of = [](const StackedChart::Series& series, std::size_t phase) {
        return phase < series.values.size() ? std::max(series.values[phase], 0.0) : 0.0;
    };
    std::vector<double> totals(phases, 0.0);
    for (const auto& series : chart.series)
        for (std::size_t p = 0; p < phases; ++p) totals[p] += value_of(series, p);
    const double most = totals.empty() ? 0 : *std::max_element(totals.begin(), totals.end());

    Plot plot;
    plot.width = width;
    plot.left = 46;
    plot.right = width - 10;
    const double step = (plot.right - plot.left) / static_cast<double>(std::max<std::size_t>(phases, 1));
    const CategoryLabels room(chart.phases, step);
    plot.top = 24;
    plot.bottom = plot.top + (width >= 600 ? 290 : 230);
    plot.height = static_cast<int>(plot.bottom + room.height + (chart.x_label.empty() ? 6 : 22));
    const Scale to_y(chart.y, 0, most, plot.bottom, plot.top, 6);

    std::string out = open_svg(plot, chart.title);
    out += y_axis(plot, to_y, chart.y.label);
    std::vector<double> below(phases, 0.0);
    for (std::size_t s = 0; s < chart.series.size(); ++s)
        for (std::size_t p = 0; p < phases; ++p) {
            const double value = value_of(chart.series[s], p);
            if (value <= 0) continue;
            const double top = to_y(below[p] + value), bottom = to_y(below[p]);
            below[p] += value;
            out += with_title(
                fmt::format("<rect class=\"layer\" x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" fill=\"{}\"",
                            px(plot.left + static_cast<double>(p) * step), px(top), px(step),
                            px(bottom - top), series_colour(s)),
                "rect",
                fmt::format("{}, {}: {} of {}", chart.series[s].name, chart.phases[p], compact(value),
                            compact(totals[p])));
        }
    for (std::size_t p = 0; p < phases; ++p)
        out += fmt::format("<text class=\"total\" text-anchor=\"middle\" x=\"{}\" y=\"{}\">{}</text>\n",
                           px(plot.left + (static_cast<double>(p) + 0.5) * step), px(to_y(totals[p]) - 5),
                           compact(totals[p]));
    return out + x_categories(plot, chart.phases, step, chart.x_label) + "</svg>\n";
}

}  // namespace elmo
