#include "config/views.h"

#include <algorithm>

#include "base/text_util.h"
#include "config/option_table.h"
#include "config/resolve.h"
#include "elmo/config.h"
#include "elmo/error.h"

namespace elmo {
namespace {

// The number of the option's name among its choices. `last` is the enumeration's: the two lists are of one
// length.
template <class Enum>
Enum choice(const Config& config, OptionKey key, Enum last) {
    const std::vector<std::string>& names = options()[option_index(key, {})].choices;
    const auto found = std::find(names.begin(), names.end(), get_option(config, key));
    if (found == names.end() || names.size() != static_cast<std::size_t>(last) + 1) {
        validate(config);  // says what is wrong with the name
        throw std::logic_error("an enumeration has other names than its option");
    }
    return static_cast<Enum>(found - names.begin());
}

bool is_left_open(const Config& config, OptionKey key) {
    return !given(config, key) && get_option(config, key) == get_option(Config(), key);
}

// Of a recipe, names that are not the usual ones: a run's recipe has the usual ones where nobody gave any.
bool names_column(const Config& config, OptionKey key) {
    return is_of_call(config, key) ||
           (given(config, key) && get_option(config, key) != get_option(Config(), key));
}

bool is_of_run(const Config& config, OptionKey key) {
    const auto found = config.sources.find(std::string_view(key));
    return found != config.sources.end() && found->second.origin == Origin::kRun &&
           found->second.value == get_option(config, key);
}

bool is_marked_as_named(const Config& config, OptionKey key) {
    const auto found = config.sources.find(std::string_view(key));
    return found != config.sources.end() && found->second.named_by_run &&
           found->second.value == get_option(config, key);
}

std::string original_of(const Config& config, OptionKey key) {
    const std::string original = original_value(config, key);
    return original == get_option(config, key) ? "" : original;
}

std::vector<std::pair<std::string, std::string>> detected_options(const Config& config) {
    std::vector<std::pair<std::string, std::string>> detected;
    for (const OptionKey key :
         {OptionKey("text_column"), OptionKey("label_column"), OptionKey("label_separator")})
        if (reason_of(config, key) == kDetectedReason)
            detected.emplace_back(std::string_view(key), get_option(config, key));
    return detected;
}

}  // namespace

ReadOptions::ReadOptions(const Config& config)
    : data(config.data),
      data_name(reason_of(config, "data") == kStandardInput ? std::string(kStandardInput)
                                                            : original_value(config, "data")),
      format(config.format),
      format_given(config.format != "auto" && given(config, "format")),
      cache(config.cache),
      encoding(choice(config, "encoding", TextEncoding::kLatin1)),
      allow_invalid_utf8(config.allow_invalid_utf8),
      allow_repeated_labels(config.allow_repeated_labels),
      allow_null_labels(config.allow_null_labels),
      allow_stray_quotes(config.allow_stray_quotes),
      text_column(config.text_column),
      label_column(config.label_column),
      label_separator(config.label_separator),
      columns(config.columns),
      detected(detected_options(config)),
      delimiter(config.delimiter),
      quotes(choice(config, "quotes", QuoteChoice::kNone)),
      delimiter_given(config.delimiter != "auto" && is_of_call(config, "delimiter")),
      quotes_given(config.quotes != "auto" && is_of_call(config, "quotes")),
      label_separator_given(config.label_separator != "auto" && is_of_call(config, "label_separator")),
      text_column_open(is_left_open(config, "text_column")),
      label_column_open(is_left_open(config, "label_column")),
      // Earlier versions stored a comma where nobody gave a separator.
      label_separator_open(config.label_separator == "auto" ||
                           (config.label_separator == "," && !given(config, "label_separator"))),
      text_column_of_run(is_of_run(config, "text_column")),
      label_column_of_run(is_of_run(config, "label_column")),
      label_separator_of_run(is_of_run(config, "label_separator")),
      run_has_header(text_column_of_run && text_column != Config().text_column),
      text_column_given(is_of_call(config, "text_column")),
      label_column_given(is_of_call(config, "label_column")),
      needs_header(names_column(config, "text_column") || names_column(config, "label_column")),
      columns_of_run(is_of_run(config, "columns")),
      test_share(config.test_share),
      test_share_given(is_of_call(config, "test_share")),
      equal_texts_together(config.equal_texts == "together"),
      validation(config.validation),
      test(config.test),
      seed(config.seed),
      filter(config.filter),
      data_original(original_of(config, "data")),
      validation_original(original_of(config, "validation")),
      test_original(original_of(config, "test")),
      data_of_run(is_of_run(config, "data")),
      validation_of_run(is_of_run(config, "validation")),
      test_of_run(is_of_run(config, "test")),
      filter_of_run(is_of_run(config, "filter")),
      data_named_by_run(data_of_run || is_marked_as_named(config, "data")),
      split(choice(config, "split", SplitChoice::kAll)),
      augment(choice(config, "augment", AugmentChoice::kCooccurrence)),
      augment_threshold(config.augment_threshold),
      input(choice(config, "input", InputForm::kJsonl)),
      id_column(config.id_column),
      id_column_open(is_left_open(config, "id_column")),
      max_length(config.max_length.value_or(kUsualLength)),
      windows(config.windows),
      tokenizer(config.tokenizer),
      encoder(config.encoder),
      tokenizer_kind(choice(config, "tokenizer_kind", LearntTokenizer::kByteBpe)),
      vocab_size(config.vocab_size) {}

EncoderOptions::EncoderOptions(const Config& config)
    : encoder(config.encoder),
      width(config.width),
      precision(choice(config, "encoder_precision", EncoderPrecision::kFp32)),
      compensated(config.encoder_rounding == "kahan"),
      state_in_bytes(config.encoder_state == "8bit"),
      pooling(choice(config, "pooling", PoolingChoice::kCls)),
      dropout(config.dropout.value_or(kUsualDropout)),
      inner_dropout(config.encoder_dropout),
      frozen(config.freeze_encoder),
      accumulate(config.accumulate),
      windows(config.windows),
      max_length(config.max_length.value_or(kUsualLength)) {}

HeadOptions::HeadOptions(const Config& config)
    : precision(config.precision == "auto" ? "bf16" : config.precision),
      rounding(choice(config, "head_rounding", HeadRounding::kNearest)),
      noise(choice(config, "head_noise", HeadNoise::kSharedSteps)),
      kahan(config.head_kahan),
      weight_dropout(config.weight_dropout),
      loss_scale(config.loss_scale),
      momentum(config.head_momentum) {}

EngineOptions::EngineOptions(const Config& config)
    : device(choice(config, "device", DeviceChoice::kReference)),
      cpu_products(config.cpu_products),
      max_bytes(config.max_memory.empty() ? 0 : parse_bytes(config.max_memory)),
      chunks(config.chunks),
      recompute(choice(config, "recompute", RecomputeChoice::kLayers)),
      batch_shards(config.batch_shards.value_or(1)),
      label_groups(config.label_groups.value_or(1)),
      exchange(choice(config, "exchange", ExchangeChoice::kHost)),
      head_memory(choice(config, "head_memory", HeadMemory::kHost)) {}

SizeOptions::SizeOptions(const Config& config)
    : shape(config.shape),
      labels(config.labels),
      batch_size(config.batch_size.value_or(kUsualBatch)),
      max_length(config.max_length.value_or(kUsualLength)),
      vocab_size(config.vocab_size),
      encoder(config) {}

ScoreOptions::ScoreOptions(const Config& config)
    : data_name(original_value(config, "data")),
      like(config.like),
      propensity_a(config.propensity_a),
      propensity_b(config.propensity_b),
      propensity_counts(config.propensity_counts),
      bootstrap(config.bootstrap) {}

}  // namespace elmo
