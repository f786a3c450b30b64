// Lists of labels by name or number, from a file (one per line) or from memory: labels to predict among, to
// leave out, or to remove.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace elmo {

// The labels that the file names, ascending and distinct. A line that is a label's name means every label of
// that name, and so does a line that begins with one and a tab, as labels are added; otherwise it must be a
// number from 0 to labels - 1. Empty lines are skipped. Memory grows with the file, not with the labels.
// DataError with file and line.
std::vector<std::int64_t> read_label_list(const std::filesystem::path& file,
                                          const std::vector<std::string_view>& names, std::int64_t labels);

// The same of a list in memory; `what` names it in messages, which count from 0.
std::vector<std::int64_t> find_labels(const std::vector<std::string>& list, const std::string& what,
                                      const std::vector<std::string_view>& names, std::int64_t labels);

// What to say of an entry that is no label: what is expected, and the name that may be meant.
std::string no_such_label(std::string_view wanted, const std::vector<std::string_view>& names,
                          std::int64_t labels);

// 0 .. labels - 1 without `left_out` (ascending).
std::vector<std::int64_t> all_labels_but(const std::vector<std::int64_t>& left_out, std::int64_t labels);

}  // namespace elmo
