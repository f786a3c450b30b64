#include "run/choices.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/text_util.h"
#include "config/encoder_folder.h"
#include "config/resolve.h"
#include "config/views.h"
#include "elmo/resolve.h"
#include "engine/device.h"
#include "engine/full_length.h"
#include "formats/safetensors.h"

namespace elmo {
namespace {

// Pretrained weights are lost at the rate that weights from scratch need: MiniLM on WordNet relations came
// to P@1 3.4 with 1e-3, and to 48.3 with 2e-4.
constexpr double kPretrainedLr = 2e-4, kFreshLr = 1e-3, kPretrainedHeadLr = 0.04;

// Epochs of a transformer: as many as show it this many rows, 7,000 steps of 128.
constexpr double kShownRows = 7'000 * 128, kMostEpochs = 100;

// Label texts that are training texts too teach a text to answer itself; names without words teach nothing.
constexpr double kManyRows = 0.01, kEnoughWords = 0.5;

constexpr std::int64_t kPatience = 5;

// As many tell which checkpoint is the best. Of 14 trainings of 83 to 100 epochs none had a lower P@1 on its
// test rows with a quarter to a half of the validations, and small ones took a third of the time
// (docs/defaults.md).
constexpr double kValidations = 25;

const char* words_of(EncoderStart start) {
    switch (start) {
        case EncoderStart::kBag:
            return "the bag encoder starts from scratch";
        case EncoderStart::kScratch:
            return "the encoder starts from scratch";
        case EncoderStart::kPretrained:
            break;
    }
    return "the encoder has pretrained weights";
}

// Sets what is `auto`.
template <class T>
void choose(Config& config, OptionKey key, Auto<T> Config::*member, T value, const std::string& why) {
    if ((config.*member).is_auto())
        choose_option(config, key, member, Auto<T>(value), std::string(kAutoReason) + why);
}

double wanted_epochs(EncoderStart start, std::int64_t rows) {
    if (start == EncoderStart::kBag) return kUsualEpochs;
    return std::clamp(std::round(kShownRows / static_cast<double>(rows)), kUsualEpochs, kMostEpochs);
}

struct Decision {
    const char* value;
    std::string why;
};

Decision choose_augment(const LabelTexts& texts) {
    if (texts.words < kEnoughWords) return {"none", "the labels have no texts of words"};
    if (texts.rows > kManyRows)
        return {"none", fmt::format("{:.0f} % of the label texts are training texts too", 100 * texts.rows)};
    return {"labels", "the labels have texts, other ones than the rows"};
}

// With one rank there is nothing to say about it.
Config with_shards(Config config, const DataFacts& facts) {
    const std::string why =
        facts.ranks == 1 ? std::string("one rank") : fmt::format("{}{} ranks", kAutoReason, facts.ranks);
    if (config.batch_shards.is_auto())
        choose_option(config, "batch_shards", &Config::batch_shards,
                      Auto<std::int64_t>(usual_shards(facts.ranks)), why);
    if (config.label_groups.is_auto())
        choose_option(config, "label_groups", &Config::label_groups,
                      Auto<std::int64_t>(usual_groups(facts.ranks, facts.labels)), why);
    return config;
}

}  // namespace

EncoderStart encoder_start(const Config& config) {
    if (config.encoder == "bag") return EncoderStart::kBag;
    if (config.encoder == "auto") return EncoderStart::kScratch;  // that of a shape
    return has_weights(InputFolder(config.encoder)) ? EncoderStart::kPretrained : EncoderStart::kScratch;
}

Config with_device(const Context& context, Config config) {
    if (config.device != "auto") return config;
    const ChosenDevice chosen = choose_device(context);
    choose_option(config, "device", &Config::device, chosen.name, std::string(kAutoReason) + chosen.why);
    return config;
}

namespace {

// AdamW's state in 8 bits loses 0.3 of P@1 on some data. So it is for encoders where it saves more than 128
// MiB: DistilBERT and larger ones, not MiniLM.
bool saves_much_state(const Config& config) {
    constexpr std::int64_t kSavedPerWeight = 3, kMuch = std::int64_t{128} << 20;
    if (!is_encoder_folder(config.encoder) && config.encoder != "auto") return false;  // auto: of a shape
    const EncoderSpec spec = spec_without_data(config);
    return !spec.is_bag() && kSavedPerWeight * spec.matrix_weights() > kMuch;
}

Config with_encoder_state(Config config) {
    if (config.encoder_state != "auto") return config;
    const bool bytes = config.device == "cuda" && has_compensated_weights(config) && saves_much_state(config);
    choose_option<std::string>(
        config, "encoder_state", &Config::encoder_state, bytes ? "8bit" : "full",
        bytes ? std::string(kAutoReason) + "on a GPU, half the memory of full and about its quality"
              : "8 bits are for large BF16 transformers on a GPU");
    return config;
}

}  // namespace

Config with_encoder_numbers(Config config) {
    if (config.encoder == kLinearEncoder) return config;
    config = with_encoder_state(std::move(config));
    if (!config.encoder_lr.is_auto()) return config;
    const EncoderStart start = encoder_start(config);
    choose(config, "encoder_lr", &Config::encoder_lr,
           start == EncoderStart::kPretrained ? kPretrainedLr : kFreshLr, words_of(start));
    return config;
}

double usual_eval_every(const Config& config, std::int64_t rows) {
    if (config.patience != std::int64_t{0}) return kUsualEvalEvery;
    const double epochs = config.steps > 0 ? static_cast<double>(config.steps * config.batch_size) /
                                                 static_cast<double>(std::max<std::int64_t>(1, rows))
                                           : double(config.epochs);
    return std::max(kUsualEvalEvery, std::round(epochs / kValidations));
}

Config with_data_numbers(Config config, EncoderStart start, const DataFacts& facts) {
    if (config.steps > 0 && config.epochs.is_auto())
        choose_option(config, "epochs", &Config::epochs, Auto<double>(wanted_epochs(start, facts.rows)),
                      "has no effect: the number of steps is given");
    choose(config, "epochs", &Config::epochs, wanted_epochs(start, facts.rows),
           start == EncoderStart::kBag ? "a bag gains nothing from more"
                                       : fmt::format("by {} training rows", with_commas(facts.rows)));
    choose(config, "batch_size", &Config::batch_size, kUsualBatch, "others were no better on any data");
    choose(config, "head_lr", &Config::head_lr,
           start == EncoderStart::kPretrained ? kPretrainedHeadLr : kUsualHeadLr, words_of(start));
    choose(config, "dropout", &Config::dropout, kUsualDropout, "others were no better on most data");
    const bool constant = config.schedule == "constant";
    choose(config, "patience", &Config::patience, constant ? kPatience : 0,
           constant ? "the rates do not fall by themselves" : "scores rise most while the rates fall");
    const double eval_every = usual_eval_every(config, facts.rows);
    choose(config, "eval_every", &Config::eval_every, eval_every,
           eval_every > kUsualEvalEvery
               ? fmt::format("about {:.0f} validations tell which checkpoint is the best", kValidations)
               : "every epoch");
    config = with_shards(std::move(config), facts);
    if (config.augment == "auto") {
        const Decision decision = choose_augment(facts.label_texts);
        choose_option<std::string>(config, "augment", &Config::augment, decision.value,
                                   std::string(kAutoReason) + decision.why);
    }
    return config;
}

}  // namespace elmo
