#include "page/svg.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace elmo {
namespace {

constexpr double kCharacter = 6.4;  // width of a character of axis text, about

// 1, 2 or 5 times a power of ten, at least `step`.
double round_step(double step) {
    const double power = std::pow(10, std::floor(std::log10(step)));
    for (const double factor : {1.0, 2.0, 5.0})
        if (factor * power >= step * (1 - 1e-9)) return factor * power;
    return 10 * power;
}

// The numbers 1, 2 and 5 times a power of ten around the values, whose logarithms are given: the axis ends
// next to the values, so that lines are not flattened. Where they are too many, only powers of ten in
// between.
std::vector<double> log_ticks(double low, double high, int num_ticks) {
    std::vector<double> all;
    for (double decade = std::floor(low); decade <= std::ceil(high); ++decade)
        for (const double factor : {1.0, 2.0, 5.0}) all.push_back(factor * std::pow(10, decade));
    while (all.size() > 2 && std::log10(all[1]) <= low + 1e-9) all.erase(all.begin());
    while (all.size() > 2 && std::log10(all[all.size() - 2]) >= high - 1e-9) all.pop_back();
    if (static_cast<int>(all.size()) <= num_ticks + 2) return all;
    const double each =
        std::max(1.0, std::ceil((std::log10(all.back()) - std::log10(all.front())) / num_ticks));
    std::vector<double> ticks = {all.front()};
    for (double decade = std::ceil(std::log10(all.front()) + 0.3); decade < std::log10(all.back()) - 0.3;
         decade += each)
        ticks.push_back(std::pow(10, decade));
    ticks.push_back(all.back());
    return ticks;
}

}  // namespace

std::string escaped(std::string_view text) {
    std::string out;
    for (const char c : text) {
        if (c == '&')
            out += "&amp;";
        else if (c == '<')
            out += "&lt;";
        else if (c == '>')
            out += "&gt;";
        else if (c == '"')
            out += "&quot;";
        else if (static_cast<unsigned char>(c) < 0x20 && c != '\n' && c != '\t')
            out += ' ';
        else
            out += c;
    }
    return out;
}

std::string px(double value) {
    std::string text = fmt::format("{:.2f}", value);
    text.erase(text.find_last_not_of('0') + 1);
    if (text.back() == '.') text.pop_back();
    return text == "-0" ? "0" : text;
}

std::string compact(double value) {
    const double size = std::abs(value);
    if (size >= 999.5e6) return fmt::format("{:.3g}G", value / 1e9);
    if (size >= 999.5e3) return fmt::format("{:.3g}M", value / 1e6);
    if (size >= 9999.5) return fmt::format("{:.3g}K", value / 1e3);
    if (size >= 999.5) return fmt::format("{:.0f}", value);
    return fmt::format("{:.3g}", value);
}

std::string precise(double value) {
    return std::abs(value) >= 999.5 ? compact(value) : fmt::format("{:.4g}", value);
}

double text_width(std::string_view text) {
    return kCharacter * static_cast<double>(text.size());
}

Scale::Scale(const Axis& axis, double least, double most, double from, double to, int num_ticks)
    : log_(axis.log), low_(least), high_(most), from_(from), to_(to), ticks_(axis.ticks) {
    num_ticks = std::max(num_ticks, 2);
    if (log_) {
        low_ = std::log10(std::max(least, 1e-300));
        high_ = std::log10(std::max(most, 1e-300));
        if (ticks_.empty()) ticks_ = log_ticks(low_, high_, num_ticks);
        low_ = std::min(low_, std::log10(ticks_.front()));
        high_ = std::max(high_, std::log10(ticks_.back()));
    } else {
        if (axis.from_zero) {
            low_ = std::min(low_, 0.0);
            high_ = std::max(high_, 0.0);
        }
        if (!(high_ > low_)) {
            high_ += high_ == 0 ? 1 : std::abs(high_) * 0.1;
            low_ -= axis.from_zero ? 0 : std::abs(low_) * 0.1;
        }
        if (ticks_.empty()) {
            const double step = round_step((high_ - low_) / num_ticks);
            const double first = std::floor(low_ / step + 1e-9), last = std::ceil(high_ / step - 1e-9);
            for (double i = first; i <= last; ++i) ticks_.push_back(i * step);
        }
        low_ = std::min(low_, ticks_.front());
        high_ = std::max(high_, ticks_.back());
    }
    if (!(high_ > low_)) high_ = low_ + 1;
}

double Scale::operator()(double value) const {
    const double position = log_ ? std::log10(std::max(value, 1e-300)) : value;
    return from_ + (position - low_) / (high_ - low_) * (to_ - from_);
}

CategoryLabels::CategoryLabels(const std::vector<std::string>& names, double step) {
    std::size_t longest = 0;
    for (const std::string& name : names) longest = std::max(longest, name.size());
    const double wide = static_cast<double>(longest) * kCharacter;
    if (wide + 4 <= step) {
        height = 18;
        return;
    }
    if (longest <= 4) {  // short ones, such as numbers: fewer of them
        each = static_cast<std::size_t>(std::ceil((wide + 6) / step));
        height = 18;
        return;
    }
    leaning = true;
    each = static_cast<std::size_t>(std::max(1.0, std::ceil(14 / step)));
    height = 14 + 0.66 * wide;
}

std::string open_svg(const Plot& plot, std::string_view title) {
    return fmt::format(
        "<svg viewBox=\"0 0 {0} {1}\" width=\"{0}\" height=\"{1}\" role=\"img\" aria-label=\"{2}\">\n",
        plot.width, plot.height, escaped(title));
}

std::string y_axis(const Plot& plot, const Scale& scale, const std::string& label) {
    std::string out;
    for (const double tick : scale.ticks()) {
        const std::string y = px(scale(tick));
        out += fmt::format("<line class=\"grid\" x1=\"{}\" x2=\"{}\" y1=\"{}\" y2=\"{}\"/>", px(plot.left),
                           px(plot.right), y, y);
        out += fmt::format("<text class=\"tick\" text-anchor=\"end\" x=\"{}\" y=\"{}\">{}</text>\n",
                           px(plot.left - 6), px(scale(tick) + 4), compact(tick));
    }
    if (!label.empty())
        out += fmt::format("<text class=\"label\" x=\"2\" y=\"12\">{}</text>\n", escaped(label));
    return out;
}

namespace {

std::string x_label(const Plot& plot, const std::string& label) {
    if (label.empty()) return "";
    return fmt::format("<text class=\"label\" text-anchor=\"end\" x=\"{}\" y=\"{}\">{}</text>\n",
                       px(plot.right), px(plot.height - 4), escaped(label));
}

std::string base_line(const Plot& plot) {
    return fmt::format("<line class=\"axis\" x1=\"{}\" x2=\"{}\" y1=\"{}\" y2=\"{}\"/>\n", px(plot.left),
                       px(plot.right), px(plot.bottom), px(plot.bottom));
}

}  // namespace

std::string x_axis(const Plot& plot, const Scale& scale, const std::string& label) {
    std::string out = base_line(plot);
    double free_from = -1e9;
    for (const double tick : scale.ticks()) {
        const double x = scale(tick);
        out += fmt::format("<line class=\"axis\" x1=\"{0}\" x2=\"{0}\" y1=\"{1}\" y2=\"{2}\"/>", px(x),
                           px(plot.bottom), px(plot.bottom + 4));
        const std::string text = compact(tick);
        const double half = 0.5 * kCharacter * static_cast<double>(text.size());
        if (x - half < free_from) continue;
        free_from = x + half + 4;
        out += fmt::format("<text class=\"tick\" text-anchor=\"middle\" x=\"{}\" y=\"{}\">{}</text>\n", px(x),
                           px(plot.bottom + 17), text);
    }
    return out + x_label(plot, label);
}

std::string x_categories(const Plot& plot, const std::vector<std::string>& names, double step,
                         const std::string& label) {
    const CategoryLabels room(names, step);
    std::string out = base_line(plot);
    for (std::size_t i = 0; i < names.size(); i += room.each) {
        const double x = plot.left + (static_cast<double>(i) + 0.5) * step;
        if (room.leaning)
            out += fmt::format(
                "<text class=\"tick\" text-anchor=\"end\" transform=\"translate({} {}) "
                "rotate(-40)\">{}</text>\n",
                px(x + 4), px(plot.bottom + 13), escaped(names[i]));
        else
            out += fmt::format("<text class=\"tick\" text-anchor=\"middle\" x=\"{}\" y=\"{}\">{}</text>\n",
                               px(x), px(plot.bottom + 15), escaped(names[i]));
    }
    return out + x_label(plot, label);
}

std::string series_colour(std::size_t index) {
    return fmt::format("var(--s{})", index % kSeriesColours);
}

std::string with_title(std::string_view element_open, std::string_view element_name, std::string_view title) {
    return fmt::format("{}><title>{}</title></{}>\n", element_open, escaped(title), element_name);
}

}  // namespace elmo
