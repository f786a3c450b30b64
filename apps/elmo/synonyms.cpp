#include "synonyms.h"

#include <fmt/format.h>

#include <algorithm>

namespace elmo::cli {
namespace {

// Ours, and what fastText, scikit-learn, PECOS, omikuji, transformers, Sentence-Transformers and common habit
// call it.
struct Synonyms {
    std::vector<std::string_view> ours, theirs;
};

const std::vector<Synonyms>& synonyms() {
    static const std::vector<Synonyms> table = {
        {{"--encoder-lr", "--head-lr"}, {"lr", "learning-rate", "learningrate", "rate"}},
        {{"--encoder-weight-decay", "--head-weight-decay"}, {"wd", "weight-decay", "l2"}},
        {{"--batch-size"},
         {"bs", "b", "batch", "batchsize", "train-batch-size", "eval-batch-size",
          "per-device-train-batch-size", "per-device-eval-batch-size", "mini-batch-size"}},
        {{"--epochs"}, {"e", "epoch", "n-epochs", "num-epochs", "nepochs", "num-train-epochs", "max-epochs"}},
        {{"--steps"}, {"max-steps", "num-steps", "max-iter", "n-steps", "iterations"}},
        {{"--encoder"},
         {"model", "m", "model-name", "model-name-or-path", "model-type", "base-model", "backbone", "bert",
          "pretrained", "pretrained-model"}},
        {{"--init"},
         {"from", "init-from", "init-model", "start-from", "finetune", "warm-start", "continue-from"}},
        {{"--out"},
         {"o", "output", "output-dir", "output-path", "out-dir", "outdir", "output-folder", "save",
          "save-dir", "save-path", "save-to", "run"}},
        {{"--data"}, {"i", "train-file", "training-data", "train-data", "dataset", "data-dir", "data-path"}},
        {{"--validation"},
         {"val", "valid", "dev", "eval-file", "validation-file", "val-share", "val-size", "valid-size",
          "validation-split", "validation-size"}},
        {{"--test-share"}, {"test-size", "test-split", "holdout"}},
        {{"--text-column"},
         {"text-col", "text-field", "text-key", "text", "x", "feature", "content-column", "input-column"}},
        {{"--label-column"},
         {"label-col", "label-field", "label-key", "labels-column", "label", "y", "target", "target-column",
          "class-column"}},
        {{"--label-separator", "--delimiter"}, {"sep", "separator"}},
        {{"--label-separator"}, {"label-sep", "label-delimiter", "labels-separator"}},
        {{"--max-length"},
         {"max-len", "maxlen", "max-seq-length", "max-seq-len", "seq-length", "sequence-length",
          "max-tokens"}},
        {{"--width"}, {"dim", "d", "embedding-dim", "hidden-size", "hidden-dim", "embedding-size"}},
        {{"--vocab-size"}, {"vocab", "num-words", "max-features", "bucket"}},
        {{"--precision"}, {"dtype", "fp16", "bf16", "fp8", "bits", "quantize", "half"}},
        {{"--device"}, {"gpu", "gpus", "cuda", "cpu", "no-cuda", "use-gpu"}},
        {{"--threads"},
         {"t", "j", "thread", "n-threads", "num-threads", "nthreads", "n-jobs", "jobs", "workers",
          "num-workers"}},
        {{"--max-memory"}, {"memory", "mem", "memory-limit", "max-mem", "gpu-memory"}},
        {{"--seed"}, {"random-state", "random-seed", "rng-seed"}},
        {{"--overwrite"}, {"f", "force", "overwrite-output-dir", "replace"}},
        {{"--resume"}, {"continue", "resume-from-checkpoint", "restart"}},
        {{"--patience"}, {"early-stopping", "early-stopping-patience", "early-stop"}},
        {{"--accumulate"}, {"gradient-accumulation-steps", "grad-accum", "accum", "accumulation-steps"}},
        {{"--warmup-steps"}, {"warmup", "num-warmup-steps", "warmup-ratio"}},
        {{"--schedule"}, {"scheduler", "lr-scheduler", "lr-scheduler-type", "lr-schedule"}},
        {{"--freeze-encoder"}, {"freeze", "frozen", "freeze-backbone", "freeze-embeddings"}},
        {{"--eval-every"}, {"eval-steps", "eval-interval", "evaluation-strategy", "eval-strategy"}},
        {{"--save-every", "--save-minutes"}, {"save-steps", "save-interval", "checkpoint-every"}},
        {{"--log-every"}, {"logging-steps", "log-interval", "log-steps", "print-every"}},
        {{"--select"}, {"metric", "metric-for-best-model", "monitor", "score"}},
        {{"--top"}, {"k", "topk", "top-k", "only-topk", "num-labels", "n"}},
        {{"--k"}, {"topk", "top-k", "at", "ks"}},
        {{"--threshold"}, {"thresh", "th", "cutoff", "min-score", "min-probability"}},
        {{"--predictions"}, {"pred", "preds", "predicted", "prediction-file"}},
        {{"--labels"}, {"num-labels", "n-labels", "nlabels", "num-classes", "n-classes", "classes"}},
        {{"--checkpoint"}, {"ckpt", "checkpoint-path", "which"}},
        {{"--json"}, {"format-json", "jsonl", "as-json"}},
    };
    return table;
}

}  // namespace

std::string meant_by(std::string_view flag, const std::vector<std::string>& known) {
    std::string name(flag.substr(std::min(flag.find_first_not_of('-'), flag.size())));
    for (char& c : name)
        if (c == '_') c = '-';
    std::vector<std::string> meant;
    const auto is_known = [&](std::string_view ours) {
        return std::find(known.begin(), known.end(), ours) != known.end();
    };
    if (is_known("--" + name)) meant.push_back("'--" + name + "'");  // --batch_size, -batch-size
    for (const Synonyms& entry : synonyms()) {
        if (!meant.empty()) break;
        if (std::find(entry.theirs.begin(), entry.theirs.end(), name) == entry.theirs.end()) continue;
        for (const std::string_view ours : entry.ours)
            if (is_known(ours)) meant.push_back(fmt::format("'{}'", ours));
    }
    return meant.empty() ? "" : fmt::format(" (did you mean {}?)", fmt::join(meant, " or "));
}

}  // namespace elmo::cli
