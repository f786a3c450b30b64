#include "base/nearest_file.h"

#include <algorithm>
#include <vector>

#include "base/text_util.h"

namespace elmo {
namespace fs = std::filesystem;
namespace {

std::string without_ending(const std::string& name) {
    return name.substr(0, name.find('.', 1));
}

}  // namespace

std::string did_you_mean_file(const fs::path& path) {
    constexpr std::size_t kMostEntries = 10000, kFewLetters = 3;
    const std::string name = path.filename().string();
    if (without_ending(name).size() < kFewLetters) return {};  // every other short name is near
    std::vector<std::string> entries;
    std::error_code error;
    for (fs::directory_iterator it(path.has_parent_path() ? path.parent_path() : ".", error), end;
         !error && it != end && entries.size() < kMostEntries; it.increment(error))
        entries.push_back(it->path().filename().string());
    // Of equally near ones the first counts: one with the same ending, then by name.
    std::ranges::sort(entries, {}, [&](const std::string& entry) {
        return std::pair(fs::path(entry).extension() != path.extension(), entry);
    });
    std::vector<std::string> words;
    for (const std::string& entry : entries) words.push_back(without_ending(entry));
    const std::string word = nearest(without_ending(name), words);
    if (word.empty()) return {};
    const auto at = static_cast<std::size_t>(std::ranges::find(words, word) - words.begin());
    return " (did you mean '" + quoted(entries[at]) + "'?)";
}

}  // namespace elmo
