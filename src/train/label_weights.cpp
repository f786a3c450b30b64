#include "train/label_weights.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <string_view>
#include <unordered_map>

#include "base/text_util.h"
#include "elmo/error.h"
#include "io/line_reader.h"
#include "rank/label_list.h"
#include "rank/scoring.h"
#include "run/choices.h"
#include "sources/records/record.h"

namespace elmo {
namespace {

constexpr double kLargestWeight = 1e6;

template <class Number>
bool parse(std::string_view text, Number& number) {
    const auto [rest, status] = std::from_chars(text.data(), text.data() + text.size(), number);
    return !text.empty() && status == std::errc() && rest == text.data() + text.size();
}

// Lines label<TAB>weight; the label by its name, which may be that of several, or by its number.
void multiply_by_file(const std::string& file, const LabelTable& labels, std::vector<float>& weights) {
    std::unordered_multimap<std::string_view, std::size_t> named;
    for (std::size_t l = 0; l < labels.names.size(); ++l) named.emplace(labels.names[l], l);
    std::unordered_map<std::size_t, std::int64_t> line_of;  // of a label
    LineReader reader(file);
    const auto multiply = [&](std::size_t place, std::string_view label, double weight) {
        const auto [first, is_new] = line_of.try_emplace(place, reader.line_number());
        if (!is_new)
            reader.fail(
                fmt::format("expected each label once, found '{}' again, after line {}; leave one of "
                            "the two lines out",
                            quoted(label), first->second));
        weights[place] *= static_cast<float>(weight);
    };
    while (const auto line = reader.next_line()) {
        if (line->empty()) continue;
        const std::size_t tab = line->rfind('\t');
        const std::string label = utf8_of_latin1(line->substr(0, tab));  // those of UTF-8 stay
        const std::string_view number = tab == line->npos ? std::string_view() : line->substr(tab + 1);
        double weight = 0;
        if (!parse(number, weight) || !(weight > 0 && weight <= kLargestWeight))
            reader.fail(fmt::format("expected label<TAB>weight with a weight above 0, at most {}, found '{}'",
                                    kLargestWeight, quoted(*line)));
        const auto [begin, end] = named.equal_range(label);
        for (auto at = begin; at != end; ++at) multiply(at->second, label, weight);
        std::size_t place = 0;
        if (begin != end) continue;
        if (!parse(label, place) || place >= weights.size())
            reader.fail(no_such_label(label, labels.names, static_cast<std::int64_t>(weights.size())));
        multiply(place, label, weight);
    }
}

// In proportion to 1 / the root of a label's rows, and once on average over all positives.
void multiply_by_root(const LabelTable& labels, std::vector<float>& weights) {
    double rows = 0, roots = 0;
    for (const std::int64_t count : labels.counts) {
        rows += static_cast<double>(count);
        roots += std::sqrt(static_cast<double>(count));
    }
    for (std::size_t l = 0; l < weights.size(); ++l)
        if (const auto count = static_cast<double>(labels.counts[l]); count > 0)
            weights[l] *= static_cast<float>(rows / (roots * std::sqrt(count)));
}

}  // namespace

std::vector<float> label_weights(const Config& config, const LabelTable& labels, std::int64_t train_rows) {
    if (!weighs_positives(config)) return {};
    std::vector<float> weights(labels.counts.size(), 1);
    if (config.objective == "psp") {
        // The loss of a positive without bias of missing labels is bounded by 2 q - 1 times its plain loss
        // (Qaraei et al., WWW 2021), with q the inverse propensity.
        const std::vector<double> inverse =
            propensities_of(propensity_rule(config), labels.counts, train_rows);
        for (std::size_t l = 0; l < weights.size(); ++l) weights[l] = static_cast<float>(2 * inverse[l] - 1);
    }
    if (config.label_weights == "root")
        multiply_by_root(labels, weights);
    else if (!config.label_weights.empty())
        multiply_by_file(config.label_weights, labels, weights);
    return weights;
}

}  // namespace elmo
