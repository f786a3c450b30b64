// Tokens on their way into the cache, in a form that an interrupted import continues: the ids and lengths of
// finished rows in files of their own beside the cache, and a journal that says how much of them counts, with
// their checksums: the cache is never made of damaged parts. The cache file is put together from them at the
// end.
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
    // Continues what an interrupted pass with the same keys left, where no other process is at it.
    TokenParts(const Context& context, std::filesystem::path folder, std::vector<CacheKey> keys);
    ~TokenParts();
    TokenParts(const TokenParts&) = delete;
    TokenParts& operator=(const TokenParts&) = delete;

    // Records of the source that are done: the pass begins after them.
    std::int64_t records() const { return state_.records; }
    // Rows of the next `records` records for each file. Every now and then the journal is brought up to date.
    void add(std::int64_t records, const std::vector<const TokenBlock*>& blocks);
    // Writes the cache files and removes the parts.
    void finish();
    // Removes what an interrupted pass with these keys left, where no other process is at it: for a pass that
    // nobody will continue.
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
