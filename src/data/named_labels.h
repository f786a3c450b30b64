// Labels by name: numbered by the sorted order of the names seen in training. Rows of one file are split into
// training and test by a hash of the text.
#pragma once

#include <filesystem>
#include <string_view>
#include <vector>

#include "data/label_import.h"
#include "elmo/context.h"

namespace elmo {

// Which split a row of a file that holds both belongs to.
SplitName split_of_text(std::string_view text, const HashedShare& test_share);
// What to say of a file none of whose rows train.
std::string all_rows_are_test(const Layout& layout);
// For a cache key.
std::string describe(const HashedShare& test_share);

// The options that decide how a table is cut into fields, for a cache key.
void add_table_options(const ReadOptions& reading, const Layout& layout, CacheKey& key);
// The options that decide about the rows of a file, for a cache key.
void add_row_options(const ReadOptions& reading, const Layout& layout, CacheKey& key);

// Fills names and the labels of every split of `cache`, importing where needed.
void open_named_label_cache(const Context& context, const ReadOptions& reading, const Layout& layout,
                            const std::filesystem::path& folder, LabelCache& cache);

}  // namespace elmo
