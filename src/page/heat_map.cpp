#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "page/svg.h"

namespace elmo {

std::string svg(const HeatMap& chart, int width) {
    double low = chart.low, high = chart.high;
    if (!(low < high)) {
        low = std::numeric_limits<double>::infinity();
        high = -low;
        for (const auto& row : chart.values)
            for (const double value : row)
                if (std::isfinite(value)) {
                    low = std::min(low, value);
                    high = std::max(high, value);
                }
    }
    std::size_t longest = 1;
    for (const std::string& name : chart.rows) longest = std::max(longest, name.size());
    const auto columns = static_cast<double>(std::max<std::size_t>(chart.columns.size(), 1));
    const auto rows = static_cast<double>(std::max<std::size_t>(chart.rows.size(), 1));
    Plot plot;
    plot.width = width;
    plot.left = 14 + 6.4 * static_cast<double>(longest);
    plot.right = std::min(width - 4.0, plot.left + 84 * columns);
    const double step = (plot.right - plot.left) / columns;
    const double tall = std::clamp(step * 0.7, 24.0, 44.0);
    const CategoryLabels room(chart.columns, step);
    plot.top = 20;
    plot.bottom = plot.top + rows * tall;
    plot.height = static_cast<int>(plot.bottom + room.height + (chart.x_label.empty() ? 6 : 22));
    // Numbers that do not fit are only in the tooltip and the table.
    int digits = chart.digits;
    const auto fits = [&](int d) {
        const double wide =
            static_cast<double>(fmt::format("{:.{}f}", std::isfinite(high) ? high : 0, d).size());
        return 6.2 * wide + 2 <= step;
    };
    while (digits > 0 && !fits(digits)) --digits;
    const bool numbers = fits(digits);

    std::string out = open_svg(plot, chart.title);
    if (!chart.y_label.empty())
        out += fmt::format("<text class=\"label\" x=\"2\" y=\"12\">{}</text>\n", escaped(chart.y_label));
    for (std::size_t r = 0; r < chart.rows.size(); ++r) {
        const double y = plot.top + static_cast<double>(r) * tall;
        out += fmt::format("<text class=\"tick\" text-anchor=\"end\" x=\"{}\" y=\"{}\">{}</text>\n",
                           px(plot.left - 6), px(y + tall / 2 + 4), escaped(chart.rows[r]));
        for (std::size_t c = 0; c < chart.columns.size(); ++c) {
            const bool known = r < chart.values.size() && c < chart.values[r].size();
            const double value = known ? chart.values[r][c] : std::numeric_limits<double>::quiet_NaN();
            const double x = plot.left + static_cast<double>(c) * step;
            const std::string place =
                fmt::format("{} {}, {} {}", chart.y_label, chart.rows[r], chart.x_label, chart.columns[c]);
            const std::string box = fmt::format("x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\"", px(x + 1),
                                                px(y + 1), px(step - 2), px(tall - 2));
            if (!std::isfinite(value)) {
                out += with_title(fmt::format("<rect class=\"empty\" {}", box), "rect", place + ": not run");
                continue;
            }
            const double share = high > low ? std::clamp((value - low) / (high - low), 0.0, 1.0) : 1.0;
            const double strength = 0.08 + 0.92 * share;
            out += with_title(fmt::format("<rect class=\"cell\" {} fill-opacity=\"{:.2f}\"", box, strength),
                              "rect",
                              fmt::format("{}: {} {:.{}f}", place, chart.value_label, value, chart.digits));
            if (numbers)
                out += fmt::format(
                    "<text class=\"{}\" text-anchor=\"middle\" x=\"{}\" y=\"{}\">{:.{}f}</text>\n",
                    strength > 0.5 ? "in-cell strong" : "in-cell", px(x + step / 2), px(y + tall / 2 + 4),
                    value, digits);
        }
    }
    return out + x_categories(plot, chart.columns, step, chart.x_label) + "</svg>\n";
}

}  // namespace elmo
