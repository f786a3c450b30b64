// elmo labels list: the labels of a run, in the order of their numbers.
#include "elmo/labels.h"
#include "run/checkpoint.h"

namespace elmo {

LabelList list_labels(const std::string& run, const Config& config) {
    Checkpoint checkpoint(run, config.checkpoint, Checkpoint::Check::kAllButHead);
    const std::vector<std::string_view> names = checkpoint.label_names();
    const std::vector<std::int64_t> counts = checkpoint.read_label_counts();
    LabelList list;
    for (std::int64_t label = 0; label < checkpoint.state().labels; ++label) {
        const auto at = static_cast<std::size_t>(label);
        list.labels.push_back({label, at < names.size() ? std::string(names[at]) : std::string(),
                               at < counts.size() ? counts[at] : 0});
    }
    return list;
}

}  // namespace elmo
