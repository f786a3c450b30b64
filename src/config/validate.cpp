// Checks of values that need no data: ranges and names of modes.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "base/text_util.h"
#include "config/option_table.h"
#include "config/resolve.h"
#include "elmo/config.h"
#include "elmo/error.h"
#include "numerics/weight_grid.h"

namespace elmo {
namespace {

constexpr std::int64_t kMaxShares = 1 << 16;
constexpr std::int64_t kMaxSteps = (std::int64_t{1} << 40) - 1;  // addressed noise has 40 bits for the step
constexpr std::int64_t kMaxLabels = (std::int64_t{1} << 31) - 1;

[[noreturn]] void refuse(std::string_view key, std::string_view expected, std::string_view found) {
    throw ConfigError(fmt::format("{}: expected {}, found {}", key, expected, found));
}

// A name that options.def lists.
void choice(const Config& config, OptionKey key) {
    const std::vector<std::string>& names = options()[option_index(key, {})].choices;
    const std::string value = get_option(config, key);
    if (std::find(names.begin(), names.end(), value) != names.end()) return;
    refuse(key, fmt::format("one of {}", fmt::join(names, ", ")),
           fmt::format("'{}'{}", quoted(value), did_you_mean(value, names)));
}

void not_empty(std::string_view key, const std::string& value) {
    if (value.empty()) refuse(key, "a value", "''");
}

void in_range(std::string_view key, std::int64_t value, std::int64_t low, std::int64_t high) {
    if (value < low || value > high)
        refuse(key, fmt::format("an integer from {} to {}", low, high), fmt::format("{}", value));
}

// low <= value <= high.
void within(std::string_view key, double value, double low, double high) {
    if (!(value >= low && value <= high))
        refuse(key, fmt::format("a number from {} to {}", low, high), fmt::format("{}", value));
}
// low <= value < 1.
void share(std::string_view key, double value) {
    if (!(value >= 0 && value < 1)) refuse(key, "a number from 0 to below 1", fmt::format("{}", value));
}
void above_zero(std::string_view key, double value, double high) {
    if (!(value > 0 && value <= high))
        refuse(key, fmt::format("a number above 0, at most {}", high), fmt::format("{}", value));
}

void check_validation(const std::string& value) {
    not_empty("validation", value);
    double number = 0;
    const auto [rest, status] = std::from_chars(value.data(), value.data() + value.size(), number);
    const bool is_number = status == std::errc() && rest == value.data() + value.size();
    if (is_number && !(number >= 0 && number < 1))
        refuse("validation", "a share from 0 to below 1, or a file", fmt::format("'{}'", quoted(value)));
}

void check_k(std::string_view list) {
    constexpr std::string_view expected = "integers from 1 to 1000 separated by commas, for example 1,3,5";
    const auto found = fmt::format("'{}'", quoted(list));
    for (;;) {
        const std::size_t comma = list.find(',');
        const std::string_view item = list.substr(0, comma);
        int k = 0;
        const auto [rest, status] = std::from_chars(item.data(), item.data() + item.size(), k);
        if (status != std::errc() || rest != item.data() + item.size() || k < 1 || k > 1000)
            refuse("k", expected, found);
        if (comma == std::string_view::npos) return;
        list.remove_prefix(comma + 1);
    }
}

void check_max_memory(const std::string& value) {
    if (value.empty()) return;
    std::int64_t bytes = 0;
    try {
        bytes = parse_bytes(value);
    } catch (const ConfigError& error) {
        throw ConfigError(fmt::format("max_memory: {}", error.what()));
    }
    if (bytes <= 0) refuse("max_memory", "a size above 0 such as 8GiB", fmt::format("'{}'", quoted(value)));
}

// Codes with an exponent per row.
bool is_code_name(const std::string& precision) {
    return precision == "e2m5" || precision == "e2m3" || precision == "e2m1";
}

void check_head_kahan(const Config& c) {
    if (c.head_kahan == "auto") return;
    double share_of_labels = 0;
    try {
        share_of_labels = parse_share(c.head_kahan);
    } catch (const ConfigError& error) {
        throw ConfigError(fmt::format("head_kahan: {}; or auto", error.what()));
    }
    if (share_of_labels > 0 && (c.precision == "fp32" || c.precision == "renee"))
        refuse("head_kahan",
               fmt::format("0 or auto with precision {}, whose updates are not rounded to fewer bits",
                           c.precision),
               fmt::format("'{}'", quoted(c.head_kahan)));
}

// The baseline's step has no other modes.
void check_renee(const Config& c) {
    if (c.precision != "renee") return;
    if (c.weight_dropout > 0)
        refuse("weight_dropout", "0 with precision renee, whose step has none",
               fmt::format("{}", c.weight_dropout));
    if (c.head_rounding != "stochastic" || (c.head_noise != "auto" && c.head_noise != "independent"))
        refuse("head_rounding and head_noise", "their defaults with precision renee, which rounds no weights",
               fmt::format("{} and {}", c.head_rounding, c.head_noise));
}

}  // namespace

void refuse_best_of_raw(double threshold, const std::string& probabilities) {
    if (threshold == -1 && probabilities == "raw")
        throw ConfigError(
            "threshold: -1 is the best one of calibrated probabilities, found --probabilities raw; leave it "
            "out, or give another threshold");
}

void validate(const Config& c) {
    choice(c, "format");
    choice(c, "encoding");
    choice(c, "quotes");
    not_empty("text_column", c.text_column);
    not_empty("label_column", c.label_column);
    not_empty("label_separator", c.label_separator);
    if (c.delimiter != "auto" && c.delimiter != "tab" &&
        (c.delimiter.size() != 1 || c.delimiter == "\"" || c.delimiter == "\n"))
        refuse("delimiter", "auto, tab or one character", fmt::format("'{}'", quoted(c.delimiter)));
    share("test_share", c.test_share);
    check_validation(c.validation);
    choice(c, "equal_texts");
    choice(c, "augment");
    within("augment_threshold", c.augment_threshold, 0, 1);
    if (!c.max_length.is_auto()) in_range("max_length", c.max_length, 3, 1 << 16);
    in_range("windows", c.windows, 1, 1 << 10);
    not_empty("filter", c.filter);

    not_empty("tokenizer", c.tokenizer);
    choice(c, "tokenizer_kind");
    in_range("vocab_size", c.vocab_size, 16, 1 << 24);

    not_empty("encoder", c.encoder);
    in_range("width", c.width, 1, 1 << 16);
    choice(c, "encoder_precision");
    choice(c, "encoder_rounding");
    choice(c, "encoder_state");
    if (c.encoder_state == "8bit" && !has_compensated_weights(c))
        refuse("encoder_state",
               "full or auto, since 8bit needs encoder_precision bf16 or fp8 and encoder_rounding kahan",
               fmt::format("8bit with {} and {}", c.encoder_precision, c.encoder_rounding));
    choice(c, "pooling");
    if (!c.dropout.is_auto()) share("dropout", c.dropout);
    choice(c, "keep_vectors");
    choice(c, "recompute");
    if (c.encoder_dropout != -1) share("encoder_dropout", c.encoder_dropout);

    if (is_grid_name(c.precision))
        parse_grid(c.precision);
    else
        choice(c, "precision");
    choice(c, "head_rounding");
    choice(c, "head_noise");
    if (c.head_rounding == "nearest" &&
        (c.precision == "fp8" || c.precision == "e3m4" || is_code_name(c.precision)))
        refuse("head_rounding nearest",
               "precision bf16 or exmy:E,M (e3m4 is exmy:3,4,7, e2m5 is exmy:2,5,row)", c.precision);
    check_head_kahan(c);
    share("weight_dropout", c.weight_dropout);
    if (!c.neighbours.is_auto()) share("neighbours", c.neighbours);
    choice(c, "objective");
    check_renee(c);
    in_range("labels", c.labels, 0, kMaxLabels);
    in_range("chunks", c.chunks, 0, kMaxLabels);

    if (!c.batch_size.is_auto()) in_range("batch_size", c.batch_size, 1, 1 << 20);
    if (!c.epochs.is_auto()) above_zero("epochs", c.epochs, 1e6);
    in_range("steps", c.steps, 0, kMaxSteps);
    if (!c.encoder_lr.is_auto()) within("encoder_lr", c.encoder_lr, 0, 1e6);
    if (!c.head_lr.is_auto()) within("head_lr", c.head_lr, 0, 1e6);
    within("encoder_weight_decay", c.encoder_weight_decay, 0, 1e6);
    within("head_weight_decay", c.head_weight_decay, 0, 1e6);
    share("beta1", c.beta1);
    share("beta2", c.beta2);
    above_zero("epsilon", c.epsilon, 1);
    choice(c, "schedule");
    in_range("warmup_steps", c.warmup_steps, -1, kMaxSteps);
    in_range("accumulate", c.accumulate, 1, 1 << 20);
    if (!c.batch_shards.is_auto()) in_range("batch_shards", c.batch_shards, 1, kMaxShares);
    if (!c.label_groups.is_auto()) in_range("label_groups", c.label_groups, 1, kMaxShares);
    in_range("ranks", c.ranks, 1, 1 << 20);
    choice(c, "exchange");
    choice(c, "head_memory");
    if (c.precision == "renee" && c.head_memory == "host")
        refuse("head_memory", "device with precision renee, which has all labels at once", c.head_memory);
    within("rank_timeout", c.rank_timeout, 0, 1e6);
    share("head_momentum", c.head_momentum);
    within("loss_scale", c.loss_scale, 0x1p-24, 0x1p62);
    if (c.precision == "renee" && (c.chunks > 1 || c.accumulate > 1))
        refuse("chunks and accumulate", "1 (or 0 chunks) with precision renee, which has all labels at once",
               fmt::format("{} and {}", c.chunks, c.accumulate));
    if (c.precision == "renee" && (c.batch_shards.value_or(1) > 1 || c.label_groups.value_or(1) > 1))
        refuse("batch_shards and label_groups", "1 with precision renee, which has all labels at once",
               fmt::format("{} and {}", c.batch_shards.value_or(1), c.label_groups.value_or(1)));

    if (c.resume && c.overwrite)
        throw ConfigError(
            "resume and overwrite: expected one of them, found both: a run is either continued or replaced");
    choice(c, "device");
    in_range("threads", c.threads, 0, 4096);
    choice(c, "cpu_products");
    check_max_memory(c.max_memory);
    in_range("log_every", c.log_every, 1, kMaxSteps);
    if (!c.eval_every.is_auto()) above_zero("eval_every", c.eval_every, 1e6);
    if (!c.patience.is_auto()) in_range("patience", c.patience, 0, 1 << 20);
    in_range("save_every", c.save_every, 0, kMaxSteps);
    within("save_minutes", c.save_minutes, 0, 1e6);
    choice(c, "on_collapse");
    choice(c, "select");

    choice(c, "checkpoint");
    choice(c, "split");
    check_k(c.k);
    if (!c.like.empty()) choice(c, "like");
    if (c.propensity_a != -1) within("propensity_a", c.propensity_a, 0, 100);
    if (c.propensity_b != -1) above_zero("propensity_b", c.propensity_b, 1e6);
    if ((c.propensity_a == -1) != (c.propensity_b == -1))
        refuse("propensity_a and propensity_b", "both or neither",
               fmt::format("{} and {}", c.propensity_a, c.propensity_b));
    choice(c, "propensity_counts");
    in_range("bootstrap", c.bootstrap, 0, 100000);
    not_empty("save_scores", c.save_scores);
    in_range("errors", c.errors, 0, 1000);
    in_range("top", c.top, 1, kMaxLabels);
    if (c.threshold != -1 && !(c.threshold >= 0 && c.threshold <= 1))
        refuse("threshold", "a number from 0 to 1, or -1 for the one of best F1",
               fmt::format("{}", c.threshold));
    choice(c, "probabilities");
    refuse_best_of_raw(c.threshold, c.probabilities);
    choice(c, "input");
    choice(c, "search");
    if (c.out == "-") refuse("out", "a file or folder", "'-'; without --out, answers go to standard output");
    not_empty("id_column", c.id_column);
}

}  // namespace elmo
