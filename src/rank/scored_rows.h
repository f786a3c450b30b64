// Which rows of a data set a run is judged on.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "data/dataset.h"
#include "elmo/config.h"
#include "sources/layout.h"

namespace elmo {

// Whether the data is what the run names, or a copy for the time of a call of what it names.
bool is_named_by_run(const Config& config, const Config& of_run);

// The files of training and test rows: where there is no test file, all rows are for training.
Layout files_with_nothing_held_out(Config config);

// With the split that `auto` stands for, and the reason for it: the test rows of the run's own data (all rows
// of a copy without them), of data with a test file and where a test share is given; else all rows. If all
// rows are scored, nothing is held out, so that those of one file are in its order. Data is the run's own if
// it has the training file of `of_run` or a copy of it, or the name of it, which may mislead; and whatever
// its name, if its rows are `known` to have trained the run.
Config with_scored_split(Config config, const Config& of_run, bool known = false);

// All rows, of one file in its order, and none to validate.
Config with_nothing_held_out(Config config);
// With that, and the split of all rows for this reason.
Config with_all_rows(Config config, const std::string& reason);
inline constexpr const char* kOwnData = "the run's own data: its other rows trained the run";
inline constexpr const char* kHeldOutOtherwise = "the run's own data, held out by the text of other columns";
inline constexpr const char* kOtherData = "the data is not the run's own, and has no test rows of its own";
inline constexpr const char* kOwnTestRows = "the data has test rows of its own";
inline constexpr const char* kNothingHeldOut = "the run's training rows: nothing of them was held out";

// Whether the data is the run's own, as with_scored_split has it.
bool is_own_data(const Config& config, const Config& of_run);

// Whether the rows are divided as the run divided its own data: then texts on both sides are repeated ones.
bool is_runs_own_split(const Config& config, const Config& of_run);

// Whether the data is the file of test rows that the run's training file had beside it, or a copy of it.
bool is_test_file_of_run(const Config& config, const Config& of_run);

// Whether the rows are held out of the run's own data by a hash of other text columns than the run's: then
// others are than those that it held out.
bool are_held_out_otherwise(const Config& config, const Config& of_run);

// Rows of one split.
struct ScoredRows {
    const Split* split = nullptr;
    SplitName name = SplitName::kTest;
    std::vector<std::int64_t> rows;
};

// The splits that hold the rows to score.
std::vector<SplitName> splits_for(SplitChoice choice);
// The rows that reading.split names: one part, or with `all` one per split that has rows. Validation rows of
// a share are those that training left out. DataError if there are none.
std::vector<ScoredRows> choose_rows(const ReadOptions& reading, const Dataset& dataset);

}  // namespace elmo
