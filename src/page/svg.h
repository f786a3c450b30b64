// The shared parts of charts: escaped text, scales, ticks and the frame of a plot.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "page/chart.h"

namespace elmo {

// For text and attributes of HTML and SVG.
std::string escaped(std::string_view text);
// A coordinate: at most two decimals.
std::string px(double value);
// 131K, 2.8M, 0.25, 12: at most three digits and a letter.
std::string compact(double value);
// The same with four digits below a thousand: a value that is read from a chart.
std::string precise(double value);
// Pixels that a text of an axis takes, about.
double text_width(std::string_view text);

// Values to pixels.
class Scale {
  public:
    // `from` and `to` are the pixels of the ends; the range is widened to whole ticks if the axis has no
    // range itself.
    Scale(const Axis& axis, double least, double most, double from, double to, int num_ticks);
    double operator()(double value) const;
    const std::vector<double>& ticks() const { return ticks_; }

  private:
    bool log_;
    double low_, high_, from_, to_;
    std::vector<double> ticks_;
};

// The area inside the axes, in pixels.
struct Plot {
    double left = 0, top = 0, right = 0, bottom = 0;
    int width = 0, height = 0;
};

// Room for labels of categories below the plot: they are rotated if they are too wide side by side.
struct CategoryLabels {
    CategoryLabels(const std::vector<std::string>& names, double step);
    bool leaning = false;
    double height = 0;     // pixels below the axis
    std::size_t each = 1;  // every how many is written
};

std::string open_svg(const Plot& plot, std::string_view title);
// Lines and numbers of the vertical axis, its label above, and the label of the horizontal one below.
std::string y_axis(const Plot& plot, const Scale& scale, const std::string& label);
std::string x_axis(const Plot& plot, const Scale& scale, const std::string& label);
// Names centred on left + (i + 0.5) * step.
std::string x_categories(const Plot& plot, const std::vector<std::string>& names, double step,
                         const std::string& label);
// fill or stroke of series i: "var(--s3)".
std::string series_colour(std::size_t index);
std::string with_title(std::string_view element_open, std::string_view element_name, std::string_view title);

}  // namespace elmo
