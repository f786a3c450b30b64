// Finds labels by name: exactly, in the time of a binary search, or by a part of the name.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace elmo {

class LabelIndex {
  public:
    // The names stay where they are; none where labels have only numbers.
    LabelIndex(std::vector<std::string_view> names, std::int64_t labels);

    // The labels of a list by name or number, ascending and distinct, with the rules and messages of
    // find_labels (rank/label_list.h).
    std::vector<std::int64_t> find(const std::vector<std::string>& list, const std::string& what) const;
    // The same of one entry.
    std::vector<std::int64_t> find(const std::string& wanted, const std::string& what) const;

    // The labels whose name holds `part` (letters of ASCII in either case), or whose number it is, in order
    // of number: those from `first` on, `limit` of them at most. `found` counts all of them.
    std::vector<std::int64_t> search(std::string_view part, std::int64_t first, std::int64_t limit,
                                     std::int64_t& found) const;

  private:
    std::vector<std::string_view> names_;
    std::int64_t labels_;
    std::vector<std::int64_t> order_;  // by name, then by number
};

}  // namespace elmo
