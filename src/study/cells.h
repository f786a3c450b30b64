// The cells of a study that trains. Each keeps its numbers in OUT/cells/NAME.json, with the recipe that made
// them, and trains in OUT/runs/NAME, where it continues after an interruption; OUT/runs/NAME.toml is the
// recipe that it was begun with. A finished cell is not run again.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "elmo/context.h"
#include "elmo/train.h"

namespace elmo {

class StudyCell {
  public:
    // `config`: what the cell trains with, its folder left out.
    StudyCell(const std::filesystem::path& out, std::string name, const Config& config);

    const std::string& name() const { return name_; }
    std::string run() const { return run_.string(); }
    bool finished() const { return std::filesystem::exists(file_); }
    // Its numbers. ConfigError if it was made with other options, DataError if one of these keys is missing.
    std::map<std::string, double> numbers(const std::vector<std::string>& keys) const;
    // Trains it, or goes on where it stopped. ConfigError if it was begun with other options.
    TrainResult train(const Context& context) const;
    void keep(const std::map<std::string, double>& numbers) const;
    void remove_run() const;

  private:
    // ConfigError if `recipe`, which made `what`, has other options.
    void require_same(const std::filesystem::path& what, const std::string& recipe) const;

    std::string name_;
    Config config_;
    std::filesystem::path file_, run_, begun_;
};

// Before all cells of a study are run again.
void remove_cells(const std::filesystem::path& out);

}  // namespace elmo
