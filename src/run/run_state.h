// Where a run stands: state.json of a checkpoint.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace elmo {

// The state of a run after `step` steps. Noise is addressed and batches depend only on the step, so a resumed
// run needs only this, the weights and the optimiser's state. It holds no times: equal runs give equal files.
struct RunState {
    std::int64_t step = 0;
    std::int64_t total_steps = 0;
    std::int64_t steps_per_epoch = 0;
    std::int64_t updates = 0;      // of the encoder
    std::int64_t saturations = 0;  // of head weights
    double last_loss = 0;          // of the last step that computed it
    double best_score = -1;        // percent, of best/; below 0 where nothing was validated yet
    std::int64_t best_step = 0;
    double top_score = -1;  // the highest of any validation: best/ may be a later one
    // By which a collapse is noticed (train/collapse.h): the last losses, and the smallest median of them; 0
    // where there is none yet.
    std::vector<double> recent_losses;
    double smallest_loss = 0;
    // The data set: what a resumed run and an evaluation compare.
    std::int64_t train_rows = 0;  // rows of the training file: the N of propensities
    std::int64_t labels = 0;
    std::string data_hash;   // of the training tokens and labels
    std::string names_hash;  // of the label names; "" where there are none
};

// The text of state.json.
std::string state_text(const RunState& state);
// DataError names `file`, key, expected and found.
RunState read_state(const nlohmann::json& json, const std::string& file);

}  // namespace elmo
