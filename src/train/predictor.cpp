// Prediction: a checkpoint mapped, texts in, the best labels out.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/log.h"
#include "base/parallel.h"
#include "base/text_util.h"
#include "elmo/elmo.h"
#include "train/checkpoint.h"
#include "train/run_data.h"
#include "train/session.h"

namespace elmo {
namespace {

float sigmoid(float z) {
    return 1.0f / (1.0f + std::exp(-z));
}

RunShape prediction_shape(const Checkpoint& checkpoint, const Config& config, std::int64_t max_length) {
    RunShape shape;
    shape.batch = config.batch_size;
    shape.tokens = config.batch_size * max_length;
    shape.longest = max_length;
    shape.top_k = std::min(config.top, checkpoint.state().labels);
    shape.training = false;
    shape.head_folder = checkpoint.folder();
    return shape;
}

}  // namespace

struct Predictor::Impl {
    Impl(const std::string& run, const Config& given)
        : config(given),
          checkpoint(run, given.checkpoint),
          spec(read_encoder_spec(checkpoint.folder())),
          tokenizer(load_tokenizer(checkpoint.folder())),
          max_length(cut_length(checkpoint.config(), spec)),
          names(checkpoint.label_names()),
          session(config, spec, prediction_shape(checkpoint, config, max_length)) {
        session.allocate();
        session.encoder().initialise(0);
    }

    Config config;
    Checkpoint checkpoint;
    EncoderSpec spec;
    std::unique_ptr<Tokenizer> tokenizer;
    std::int64_t max_length;
    std::vector<std::string_view> names;
    Session session;
};

Predictor::Predictor(const std::string& run, const Config& config) {
    program_start_bytes();
    validate(config);
    set_num_threads(static_cast<int>(config.threads));
    impl_ = std::make_unique<Impl>(run, config);
}
Predictor::~Predictor() = default;

std::int64_t Predictor::num_labels() const {
    return impl_->checkpoint.state().labels;
}

std::vector<std::vector<Prediction>> Predictor::predict(const std::vector<std::string>& texts) {
    Impl& p = *impl_;
    if (static_cast<std::int64_t>(texts.size()) > p.config.batch_size)
        throw ConfigError(fmt::format("predict: {} texts in one call, but batch_size is {}", texts.size(),
                                      p.config.batch_size));
    std::vector<std::int32_t> tokens, ids, offsets = {0};
    for (const std::string& text : texts) {
        p.tokenizer->encode(text, p.max_length, ids);
        tokens.insert(tokens.end(), ids.begin(), ids.end());
        offsets.push_back(static_cast<std::int32_t>(tokens.size()));
    }
    std::vector<std::vector<Prediction>> result(texts.size());
    if (texts.empty()) return result;
    const View x_BD = p.session.encoder().forward({tokens, offsets}, false, 0, 0);
    const auto best = p.session.head().topk(x_BD, std::min(p.config.top, num_labels()));
    for (std::size_t i = 0; i < texts.size(); ++i)
        for (const ScoredLabel& label : best[i].sorted()) {
            const float probability = sigmoid(label.score);
            if (probability < p.config.threshold) break;
            result[i].push_back({label.label, p.names.empty() ? std::string_view() : p.names[label.label],
                                 label.score, probability});
        }
    return result;
}

}  // namespace elmo
