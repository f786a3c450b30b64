// Which texts trained a run, so that scores on them are noticed whatever their file is called and however it
// is divided: hashes of the texts as the model reads them (tokens, cut). Of many texts the smallest hashes
// are kept; these are a fair sample, so the share of other texts among them can be estimated.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

#include "io/input_folder.h"
#include "sources/rows.h"

namespace elmo {

inline constexpr const char* kTrainedTextsFile = "trained_texts.safetensors";
// Of texts that are scored: more than this share trained the run are more than happen to occur twice.
inline constexpr double kManyTrained = 0.05;

class TrainedTexts {
  public:
    static constexpr std::size_t kMost = std::size_t{1} << 16;

    // Takes up rows of a split. Texts without a token do not count.
    void add(const TokenRows& texts, std::span<const std::int64_t> rows);
    // Takes up those of another run with the same tokenizer.
    void add(const TrainedTexts& other);

    // How many of the rows are texts that were taken up: exact up to kMost texts, else an estimate.
    std::int64_t count(const TokenRows& texts, std::span<const std::int64_t> rows) const;
    // The others of the rows. Only where is_whole(): of more than kMost texts it is not known.
    std::vector<std::int64_t> others(const TokenRows& texts, std::span<const std::int64_t> rows) const;
    bool is_whole() const { return is_whole_; }
    bool empty() const { return hashes_.empty(); }

    void save(const std::filesystem::path& file) const;
    // Empty where the folder has no such file: earlier versions wrote none. DataError if it is damaged.
    static TrainedTexts load(const InputFolder& folder);

  private:
    void take(std::vector<std::uint64_t> more);

    std::vector<std::uint64_t> hashes_;  // ascending, each once, kMost at most
    bool is_whole_ = true;               // no hash was left out; else those beyond the last are not known
};

}  // namespace elmo
