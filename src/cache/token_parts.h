// Tokens of an unfinished import, in a form that the next import can continue: files beside the cache with
// the ids and lengths of finished rows, and a journal with the valid size and checksums of these files, so
// the cache is never made of damaged parts. At the end the cache file is assembled from them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "cache/cache_file.h"
#include "elmo/context.h"
#include "io/output_file.h"

namespace elmo {

// The statistics that a tokens file of the cache carries, section "stats".
struct TokenStats {
    std::int64_t replaced_utf8 = 0;
    std::int64_t cut_rows = 0;  // longer than max_length
};

struct TokenBlock {
    std::vector<std::int32_t> ids;
    std::vector<std::int64_t> lengths;
    std::int64_t replaced = 0, cut = 0;
};

// One pass over a source that fills one or two tokens files of the cache.
class TokenParts {
  public:
    // Continues an interrupted pass with the same keys, unless another process works on it.
    TokenParts(const Context& context, std::filesystem::path folder, std::vector<CacheKey> keys);
    ~TokenParts();
    TokenParts(const TokenParts&) = delete;
    TokenParts& operator=(const TokenParts&) = delete;

    // Records of the source that are done: the pass starts after them.
    std::int64_t records() const { return state_.records; }
    // Rows of the next `records` records for each file. Updates the journal from time to time.
    void add(std::int64_t records, const std::vector<const TokenBlock*>& blocks);
    // Writes the cache files and removes the parts.
    void finish();
    // Removes the parts of an interrupted pass with these keys, unless another process uses them.
    static void clear(const std::filesystem::path& folder, const std::vector<CacheKey>& keys);

    static constexpr std::int64_t kJournalBytes = std::int64_t{64} << 20;  // of ids between two entries

  private:
    struct File {
        std::int64_t rows = 0, ids = 0, replaced = 0, cut = 0;
        Hash64 ids_hash, lengths_hash;  // of the parts so far
    };
    struct State {
        std::int64_t records = 0;
        std::vector<File> files;
    };
    static std::string name_of_pass(const std::vector<CacheKey>& keys);
    static void remove(const std::filesystem::path& folder, const std::string& name, std::size_t files);
    std::filesystem::path part(std::size_t file, const char* what) const;
    bool read_journal();
    void refuse_links() const;
    void write_journal();

    std::filesystem::path folder_;
    std::vector<CacheKey> keys_;
    std::string name_;  // of the pass: from the keys, sources included
    int lock_ = -1;
    State state_;
    std::vector<OutputFile> ids_, lengths_;
    std::int64_t since_journal_ = 0;
};

}  // namespace elmo
