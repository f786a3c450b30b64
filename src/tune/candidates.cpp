#include "tune/candidates.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/text_util.h"
#include "numerics/philox.h"

namespace elmo {
namespace {

constexpr std::uint32_t kStreamCandidates = 0x74756e65;
constexpr std::int64_t kTriesPerCandidate = 32;

// The values of a key that a candidate may have; the first is the default's.
struct Choices {
    OptionKey key;
    std::vector<std::string> values;
};

std::string number(double value) {
    return fmt::format("{:.4g}", value);
}

std::vector<std::string> scaled(double value, std::initializer_list<double> factors) {
    std::vector<std::string> values = {number(value)};
    for (const double factor : factors) values.push_back(number(value * factor));
    return values;
}

std::vector<Choices> choices_of(const Config& asked, const Config& defaults, bool label_texts) {
    std::vector<Choices> all;
    const auto add = [&](OptionKey key, std::vector<std::string> values) {
        if (!given(asked, key)) all.push_back({key, std::move(values)});
    };
    if (!defaults.freeze_encoder) add("encoder_lr", scaled(defaults.encoder_lr, {0.5, 2}));
    add("head_lr", scaled(defaults.head_lr, {0.5, 2, 4}));
    std::vector<std::string> dropouts = {number(defaults.dropout)};
    for (const double change : {-0.2, 0.2})
        if (const double value = defaults.dropout + change; value >= 0 && value < 1)
            dropouts.push_back(number(value));
    add("dropout", std::move(dropouts));
    if (asked.steps == 0) add("epochs", scaled(defaults.epochs, {0.5, 2}));
    const std::int64_t batch = defaults.batch_size;
    std::vector<std::string> batches = {std::to_string(batch), std::to_string(2 * batch)};
    if (batch > 1) batches.push_back(std::to_string(batch / 2));
    add("batch_size", std::move(batches));
    if (label_texts) add("augment", {defaults.augment, defaults.augment == "labels" ? "none" : "labels"});
    return all;
}

Candidate draw(const std::vector<Choices>& choices, std::uint64_t seed, std::int64_t number) {
    Candidate candidate;
    for (std::size_t i = 0; i < choices.size(); ++i) {
        const PhiloxBlock noise =
            noise_block({seed, 0, kStreamCandidates}, number, static_cast<std::int64_t>(i));
        if (noise[1] % 2 == 0) continue;  // half of the keys stay: few changes at once are seldom all bad
        const std::string& value = choices[i].values[noise[0] % choices[i].values.size()];
        if (value != choices[i].values.front())
            candidate.changes.emplace_back(std::string(std::string_view(choices[i].key)), value);
    }
    return candidate;
}

}  // namespace

std::string Candidate::name() const {
    std::string text;
    for (const auto& [key, value] : changes)
        text += fmt::format("{}{} {}", text.empty() ? "" : ", ", key, value);
    return text.empty() ? "the defaults" : text;
}

std::vector<Candidate> make_candidates(const Config& asked, const Config& defaults, bool label_texts,
                                       std::int64_t count) {
    const std::vector<Choices> choices = choices_of(asked, defaults, label_texts);
    std::vector<Candidate> all = {{}};
    for (std::int64_t i = 0; i < kTriesPerCandidate * count; ++i) {
        if (static_cast<std::int64_t>(all.size()) == count) break;
        Candidate candidate = draw(choices, defaults.seed, i);
        const bool known = std::any_of(all.begin(), all.end(), [&](const Candidate& other) {
            return other.changes == candidate.changes;
        });
        if (!known) all.push_back(std::move(candidate));
    }
    return all;
}

Config with_changes(Config defaults, const Candidate& candidate) {
    for (const auto& [key, value] : candidate.changes) set_option(defaults, key, value, "tune");
    return defaults;
}

std::vector<std::size_t> survivors(const std::vector<double>& scores) {
    std::vector<std::size_t> order(scores.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::stable_sort(order.begin(), order.end(),
                     [&](std::size_t a, std::size_t b) { return scores[a] > scores[b]; });
    order.resize((scores.size() + 2) / 3);
    if (std::find(order.begin(), order.end(), std::size_t{0}) == order.end()) order.push_back(0);
    std::sort(order.begin(), order.end());
    return order;
}

}  // namespace elmo
