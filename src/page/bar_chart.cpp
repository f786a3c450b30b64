#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "page/svg.h"

namespace elmo {
namespace {

constexpr double kBandHeight = 18;

std::string draw_bands(const BarChart& chart, const Plot& plot, double step, double top) {
    std::string out;
    const int most = static_cast<int>(chart.categories.size()) - 1;
    for (std::size_t b = 0; b < chart.bands.size(); ++b) {
        const auto& band = chart.bands[b];
        const int first = std::max(band.first, 0), last = std::min(band.last, most);
        if (first > last) continue;
        const double x = plot.left + first * step, wide = (last - first + 1) * step;
        const double y = top + static_cast<double>(b) * kBandHeight;
        const std::string note =
            fmt::format("{}: {} to {}", band.name, chart.categories[static_cast<std::size_t>(first)],
                        chart.categories[static_cast<std::size_t>(last)]);
        out += with_title(fmt::format("<rect class=\"band\" x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\"",
                                      px(x), px(y), px(wide), px(kBandHeight - 4)),
                          "rect", note);
        // The name is in its band, or at its end inside the plot if the band is too narrow.
        const double name_wide = 6.4 * static_cast<double>(band.name.size());
        const double at = std::clamp(x + 0.5 * (wide - name_wide), plot.left, plot.right - name_wide);
        out += fmt::format("<text class=\"tick\" x=\"{}\" y=\"{}\">{}</text>\n", px(at),
                           px(y + kBandHeight - 7), escaped(band.name));
        // A line from its end down to the axis shows which bars are outside.
        std::vector<double> edges;
        if (first == band.first) edges.push_back(x);
        if (last == band.last) edges.push_back(x + wide);
        for (const double edge : edges)
            out += fmt::format("<line class=\"edge\" x1=\"{0}\" x2=\"{0}\" y1=\"{1}\" y2=\"{2}\"/>\n",
                               px(edge), px(y), px(plot.bottom));
    }
    return out;
}

}  // namespace

namespace {

struct Range {
    double least = 0, most = 0;
};

// What the axis must cover. Bars of an axis that need not start at zero start a little below the smallest, so
// that their differences show; negative or missing ones keep the zero.
Range range_of(const BarChart& chart) {
    double least = std::numeric_limits<double>::infinity(), most = -least, positive = 1;
    for (const auto& series : chart.series)
        for (const double value : series.values) {
            if (!std::isfinite(value)) continue;
            least = std::min(least, value);
            most = std::max(most, value);
            if (value > 0) positive = std::min(positive, value);
        }
    if (least > most) return {0, 0};
    if (chart.y.log) return {positive, std::max(most, positive)};
    if (chart.y.from_zero || least <= 0) return {std::min(least, 0.0), std::max(most, 0.0)};
    const double below = most > least ? 0.2 * (most - least) : 0.1 * most;
    return {std::max(least - below, 0.0), most};
}

// The value above a bar: side by side where there is room, upright in narrow bars, nothing in the narrowest.
std::string value_above(double value, double middle, double top, double room) {
    const std::string text = precise(value);
    if (text_width(text) <= room + 2)
        return fmt::format("<text class=\"value\" text-anchor=\"middle\" x=\"{}\" y=\"{}\">{}</text>\n",
                           px(middle), px(top - 4), text);
    if (room < 11) return "";
    return fmt::format("<text class=\"value\" transform=\"translate({} {}) rotate(-90)\">{}</text>\n",
                       px(middle + 4), px(top - 4), text);
}

}  // namespace

std::string svg(const BarChart& chart, int width) {
    const Range range = range_of(chart);
    const auto count = static_cast<double>(std::max<std::size_t>(chart.categories.size(), 1));
    Plot plot;
    plot.width = width;
    plot.left = 46;
    plot.right = width - 10;
    const double step = (plot.right - plot.left) / count;
    const double bands = kBandHeight * static_cast<double>(chart.bands.size());
    const CategoryLabels room(chart.categories, step);
    plot.top = 24 + bands;
    plot.bottom = plot.top + (width >= 600 ? 250 : 210);
    plot.height = static_cast<int>(plot.bottom + room.height + (chart.x_label.empty() ? 6 : 22));
    const double gap = std::min(step * 0.2, 8.0);
    const double bar = (step - gap) / static_cast<double>(std::max<std::size_t>(chart.series.size(), 1));
    // Upright numbers need room above the highest bar.
    const double headroom = bar >= 11 && bar < text_width("00.00") ? 34 : 8;
    const Scale to_y(chart.y, range.least, range.most, plot.bottom, plot.top + headroom, 5);

    std::string out = open_svg(plot, chart.title);
    out += y_axis(plot, to_y, chart.y.label);
    out += draw_bands(chart, plot, step, 20);
    const double zero = chart.y.log ? plot.bottom : std::min(to_y(0), plot.bottom);
    for (std::size_t s = 0; s < chart.series.size(); ++s) {
        const auto& series = chart.series[s];
        for (std::size_t i = 0; i < std::min(series.values.size(), chart.categories.size()); ++i) {
            const double value = series.values[i];
            if (!std::isfinite(value) || (chart.y.log && value <= 0)) continue;
            const double y = to_y(value);
            const double x =
                plot.left + static_cast<double>(i) * step + gap / 2 + static_cast<double>(s) * bar;
            out += with_title(
                fmt::format("<rect class=\"bar\" x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" fill=\"{}\"",
                            px(x), px(std::min(y, zero)), px(std::max(bar - 0.5, 0.5)),
                            px(std::abs(zero - y)), series_colour(s)),
                "rect", fmt::format("{}, {}: {}", series.name, chart.categories[i], precise(value)));
            if (value > 0 && chart.bands.empty()) out += value_above(value, x + bar / 2, y, bar);
        }
    }
    return out + x_categories(plot, chart.categories, step, chart.x_label) + "</svg>\n";
}

}  // namespace elmo
