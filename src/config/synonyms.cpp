#include "elmo/synonyms.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>

namespace elmo {
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
         {"bs", "batch", "batchsize", "train-batch-size", "eval-batch-size", "per-device-train-batch-size",
          "per-device-eval-batch-size", "mini-batch-size"}},
        {{"--epochs"}, {"e", "epoch", "n-epochs", "num-epochs", "nepochs", "num-train-epochs", "max-epochs"}},
        {{"--steps"}, {"max-steps", "num-steps", "max-iter", "n-steps", "iterations"}},
        {{"--encoder"},
         {"model", "m", "model-name", "model-name-or-path", "model-type", "base-model", "backbone", "bert",
          "pretrained", "pretrained-model", "pretrainedvectors", "model-shortcut"}},
        {{"--init"},
         {"from", "init-from", "init-model", "start-from", "finetune", "warm-start", "continue-from"}},
        {{"--out"},
         {"o", "output", "output-dir", "output-path", "out-path", "out-dir", "outdir", "output-folder",
          "save", "save-dir", "save-path", "save-to", "run"}},
        {{"--data"},
         {"i", "input", "train-file", "training-data", "train-data", "dataset", "data-dir", "data-path",
          "train-path", "training-path", "inst-path", "label-path"}},
        {{"--validation"},
         {"val", "valid", "dev", "eval-file", "validation-file", "val-share", "val-size", "valid-size",
          "validation-split", "validation-size"}},
        {{"--test-share"}, {"test-size", "test-split", "holdout"}},
        {{"--data", "--text-column"}, {"x"}},
        {{"--data", "--label-column"}, {"y"}},
        {{"--text-column"},
         {"text-col", "text-field", "text-key", "text", "feature", "content-column", "input-column"}},
        {{"--label-column"},
         {"label-col", "label-field", "label-key", "labels-column", "label", "target", "target-column",
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
        {{"--top"}, {"k", "topk", "top-k", "k-top", "only-topk", "num-labels", "n"}},
        {{"--k"}, {"topk", "top-k", "only-topk", "at", "ks"}},
        {{"--threshold"}, {"thresh", "th", "cutoff", "min-score", "min-probability"}},
        {{"--predictions"}, {"p", "pred", "preds", "predicted", "prediction-file"}},
        {{"--save-predictions"}, {"out-path", "save-pred-path", "pred-path", "o", "output"}},
        {{"--labels"}, {"num-labels", "n-labels", "nlabels", "num-classes", "n-classes", "classes"}},
        {{"--checkpoint"}, {"ckpt", "checkpoint-path", "which"}},
        {{"--json"}, {"format-json", "jsonl", "as-json"}},
    };
    return table;
}

// What other programs let people choose and this one does not.
struct Unneeded {
    std::vector<std::string_view> theirs;
    std::string_view answer;
};

const std::vector<Unneeded>& unneeded() {
    static const std::vector<Unneeded> table = {
        {{"wordngrams", "word-ngrams", "ngram", "ngrams", "ngram-range", "minn", "maxn", "analyzer"},
         "the linear model takes words, word pairs and letters by itself"},
        {{"mincount", "min-count", "mincountlabel", "min-df", "max-df"},
         "every word and label of the training rows counts"},
        {{"nr-splits",
          "max-leaf-size",
          "min-codes",
          "n-trees",
          "num-trees",
          "max-depth",
          "min-branch-size",
          "collapse-every-n-layers",
          "cluster.k",
          "cluster.eps",
          "cluster.min-size",
          "imbalanced-depth",
          "imbalanced-ratio",
          "spherical",
          "centroid-threshold",
          "train-trees-1-by-1",
          "indexer",
          "beam-size",
          "b",
          "beam"},
         "the linear model chooses its label trees and beam by the data (docs/linear.md)"},
        {{"c", "cp", "cn", "linear.c", "linear.eps", "linear.loss", "linear.max-iter",
          "linear.weight-threshold", "solver-type", "solver", "bias", "penalty", "tol", "dual",
          "max-nonzeros", "negative-sampling", "post-processor", "pp", "weight-threshold"},
         "the linear model's constants are fixed (docs/linear.md)"},
        {{"loss", "neg", "ova", "softmax", "hs", "multi-label", "multilabel"},
         "every label is a yes or no of its own"},
        {{"ws", "lrupdaterate", "sampling-threshold"}, "no encoder here has it"},
        {{"autotune-validation", "autotune-duration", "autotune-modelsize", "autotune-metric",
          "autotune-predictions", "grid-search"},
         "'elmo tune DATA --out FOLDER --budget 30m' finds better numbers"},
        {{"k", "topk", "top-k", "only-topk", "k-top"},
         "how many labels are answered is asked later: predict --top, eval --k"},
        {{"model-folder", "model-path", "model-dir"},
         "a run is a folder: train writes it with --out, other verbs take it as their first word"},
        {{"label-feat-path", "label-features"}, "labels are texts already where they have names"},
    };
    return table;
}

// The advice for their name of an option, spelled with '-'. `spell` writes one of our flags as the caller
// knows it, or "" where the caller does not have it.
template <class Spell>
std::string advice_for(std::string_view name, const Spell& spell) {
    std::vector<std::string> meant;
    const auto take = [&](std::string_view ours) {
        if (const std::string spelled = spell(ours); !spelled.empty())
            meant.push_back(fmt::format("'{}'", spelled));
    };
    take(fmt::format("--{}", name));  // --batch_size, -batch-size
    for (const Synonyms& entry : synonyms()) {
        if (!meant.empty()) break;
        if (std::find(entry.theirs.begin(), entry.theirs.end(), name) == entry.theirs.end()) continue;
        for (const std::string_view ours : entry.ours) take(ours);
    }
    if (!meant.empty()) return fmt::format(" (did you mean {}?)", fmt::join(meant, " or "));
    for (const Unneeded& entry : unneeded())
        if (std::find(entry.theirs.begin(), entry.theirs.end(), name) != entry.theirs.end())
            return fmt::format(": {}", entry.answer);
    return "";
}

std::string with_dashes(std::string_view word) {
    std::string name(word.substr(std::min(word.find_first_not_of('-'), word.size())));
    for (char& c : name) c = c == '_' ? '-' : static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    return name;
}

}  // namespace

std::string flag_meant_by(std::string_view flag, const std::vector<std::string>& known) {
    return advice_for(with_dashes(flag), [&](std::string_view ours) {
        return std::find(known.begin(), known.end(), ours) != known.end() ? std::string(ours) : "";
    });
}

std::string key_meant_by(std::string_view key, const std::vector<std::string>& known) {
    return advice_for(with_dashes(key), [&](std::string_view ours) {
        std::string name(ours.substr(2));
        std::replace(name.begin(), name.end(), '-', '_');
        return std::find(known.begin(), known.end(), name) != known.end() ? name : "";
    });
}

}  // namespace elmo
