// Labels of a plain file: named, numbered by the sorted order of the names seen in training, the rows split
// into training and test by a hash of the text.
#pragma once

#include <filesystem>
#include <string_view>

#include "data/label_import.h"

namespace elmo {

// Which split a row of the plain file belongs to.
SplitName split_of_text(std::string_view text, double test_share);

// The options of a plain file that decide about its rows, and the file itself, for a cache key.
void add_plain_options(const Config& config, const Layout& layout, CacheKey& key);

// Fills names and the labels of every split of `cache`, importing where needed.
void open_plain_labels(const Config& config, const Layout& layout, const std::filesystem::path& folder,
                       LabelCache& cache);

}  // namespace elmo
