#include "cache/token_parts.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/text_util.h"
#include "cache/ragged_writer.h"
#include "elmo/context.h"
#include "formats/json_text.h"
#include "io/atomic_file.h"
#include "io/file_error.h"
#include "io/links.h"
#include "io/mmap_file.h"

namespace elmo {
namespace fs = std::filesystem;
namespace {

std::int64_t count_at(const nlohmann::json& json, const char* key) {
    const nlohmann::json& value = json.at(key);
    if (!value.is_number_integer() || value.get<std::int64_t>() < 0)
        throw DataError(fmt::format("journal: expected a count '{}'", key));
    return value.get<std::int64_t>();
}

// Whether the first `count` elements of a part are those in the journal.
bool hash_part(const fs::path& path, std::int64_t count, std::int64_t element_bytes,
               const std::string& expected, Hash64& hash) {
    const MappedFile file(path);
    if (count > file.size() / element_bytes) return false;
    hash.update(file.bytes().first(static_cast<std::size_t>(count * element_bytes)));
    return hash_text(hash.digest()) == expected;
}

}  // namespace

TokenParts::TokenParts(const Context& context, fs::path folder, std::vector<CacheKey> keys)
    : folder_(std::move(folder)), keys_(std::move(keys)) {
    name_ = name_of_pass(keys_);
    refuse_links();
    lock_ = ::open((folder_ / (name_ + ".lock")).c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (lock_ < 0) throw_file_error(folder_ / (name_ + ".lock"), "open");
    // Another import of the same data is running, or has just removed its lock: use separate files.
    static std::atomic<int> others{0};
    struct stat held {
    }, named{};
    const bool mine = ::flock(lock_, LOCK_EX | LOCK_NB) == 0 && ::fstat(lock_, &held) == 0 &&
                      ::stat((folder_ / (name_ + ".lock")).c_str(), &named) == 0 &&
                      held.st_ino == named.st_ino;
    if (!mine) {
        ::close(std::exchange(lock_, -1));  // it is of no use here
        name_ += fmt::format(".{}.{}", ::getpid(), ++others);
        refuse_links();
    }
    state_.files.resize(keys_.size());
    const bool resumed = read_journal();
    for (std::size_t f = 0; f < keys_.size(); ++f) {
        const File& file = state_.files[f];
        std::error_code ignored;
        if (resumed) {
            fs::resize_file(part(f, "ids"), static_cast<std::uintmax_t>(4 * file.ids));
            fs::resize_file(part(f, "lengths"), static_cast<std::uintmax_t>(8 * file.rows));
        }
        const auto how = resumed ? OutputFile::Open::kAppend : OutputFile::Open::kTruncate;
        ids_.emplace_back(part(f, "ids"), how);
        lengths_.emplace_back(part(f, "lengths"), how);
    }
    if (resumed && state_.records > 0)
        context.info(
            fmt::format("continuing an interrupted import after {} rows", with_commas(state_.records)));
}

TokenParts::~TokenParts() {
    if (lock_ >= 0) ::close(lock_);
}

fs::path TokenParts::part(std::size_t file, const char* what) const {
    return folder_ / fmt::format("{}.{}.{}", name_, file, what);
}

// What is opened to be written would lead to a file that somebody else chose.
void TokenParts::refuse_links() const {
    for (const char* ending : {".lock", ".json"}) refuse_link(folder_ / (name_ + ending));
    for (std::size_t f = 0; f < keys_.size(); ++f)
        for (const char* what : {"ids", "lengths"}) refuse_link(part(f, what));
}

// False, with an empty state, when there is none, or it or the parts are damaged.
bool TokenParts::read_journal() {
    State found;
    try {
        const auto file_json = read_json(folder_ / (name_ + ".json"));
        const auto& json = file_json.at("journal");
        if (file_json.at("xxh64") != hash_text(hash64(json_string(json)))) return false;
        found.records = count_at(json, "records");
        for (std::size_t f = 0; f < keys_.size(); ++f) {
            const auto& entry = json.at("files").at(f);
            File file;
            file.rows = count_at(entry, "rows");
            file.ids = count_at(entry, "ids");
            file.replaced = count_at(entry, "replaced");
            file.cut = count_at(entry, "cut");
            if (json.at("keys").at(f).get<std::string>() != hash_text(hash64(keys_[f].text())) ||
                !hash_part(part(f, "ids"), file.ids, 4, entry.at("ids_xxh64"), file.ids_hash) ||
                !hash_part(part(f, "lengths"), file.rows, 8, entry.at("lengths_xxh64"), file.lengths_hash))
                return false;
            found.files.push_back(file);
        }
    } catch (const std::exception&) {
        return false;
    }
    state_ = std::move(found);
    return true;
}

void TokenParts::write_journal() {
    nlohmann::json json{{"records", state_.records}};
    for (std::size_t f = 0; f < keys_.size(); ++f) {
        ids_[f].sync();
        lengths_[f].sync();
        const File& file = state_.files[f];
        json["keys"].push_back(hash_text(hash64(keys_[f].text())));
        json["files"].push_back({{"rows", file.rows},
                                 {"ids", file.ids},
                                 {"replaced", file.replaced},
                                 {"cut", file.cut},
                                 {"ids_xxh64", hash_text(file.ids_hash.digest())},
                                 {"lengths_xxh64", hash_text(file.lengths_hash.digest())}});
    }
    const nlohmann::json whole{{"xxh64", hash_text(hash64(json_string(json)))}, {"journal", json}};
    write_file_atomically(folder_ / (name_ + ".json"), json_string(whole));
    since_journal_ = 0;
}

void TokenParts::add(std::int64_t records, const std::vector<const TokenBlock*>& blocks) {
    for (std::size_t f = 0; f < blocks.size(); ++f) {
        const TokenBlock& block = *blocks[f];
        ids_[f].write(std::as_bytes(std::span(block.ids)));
        lengths_[f].write(std::as_bytes(std::span(block.lengths)));
        File& file = state_.files[f];
        file.ids_hash.update(std::as_bytes(std::span(block.ids)));
        file.lengths_hash.update(std::as_bytes(std::span(block.lengths)));
        file.rows += static_cast<std::int64_t>(block.lengths.size());
        file.ids += static_cast<std::int64_t>(block.ids.size());
        file.replaced += block.replaced;
        file.cut += block.cut;
        since_journal_ += static_cast<std::int64_t>(4 * block.ids.size());
    }
    state_.records += records;
    if (since_journal_ >= kJournalBytes) write_journal();
}

void TokenParts::finish() {
    constexpr std::size_t kPiece = std::size_t{1} << 22;
    for (std::size_t f = 0; f < keys_.size(); ++f) {
        ids_[f].close();
        lengths_[f].close();
        const File& file = state_.files[f];
        CacheWriter writer(folder_, keys_[f]);
        writer.begin<std::int32_t>("tokens.values");
        {
            const MappedFile mapped(part(f, "ids"));
            const std::span ids(reinterpret_cast<const std::int32_t*>(mapped.bytes().data()),
                                static_cast<std::size_t>(file.ids));
            for (std::size_t at = 0; at < ids.size(); at += kPiece)
                writer.append(ids.subspan(at, std::min(kPiece, ids.size() - at)));
        }
        writer.begin<std::int64_t>("tokens.offsets");
        {
            const MappedFile mapped(part(f, "lengths"));
            const auto* lengths = reinterpret_cast<const std::int64_t*>(mapped.bytes().data());
            std::vector<std::int64_t> offsets = {0};
            std::int64_t last = 0;
            for (std::int64_t row = 0; row < file.rows; ++row) {
                offsets.push_back(last += lengths[row]);
                if (offsets.size() < kPiece) continue;
                writer.append(std::span<const std::int64_t>(offsets));
                offsets.clear();
            }
            writer.append(std::span<const std::int64_t>(offsets));
        }
        writer.section("stats", std::vector<TokenStats>{{file.replaced, file.cut}});
        writer.commit();
    }
    remove(folder_, name_, keys_.size());
}

void TokenParts::clear(const fs::path& folder, const std::vector<CacheKey>& keys) {
    const std::string name = name_of_pass(keys);
    const int lock = ::open((folder / (name + ".lock")).c_str(), O_RDWR | O_CLOEXEC);
    if (lock < 0) return;
    if (::flock(lock, LOCK_EX | LOCK_NB) == 0) remove(folder, name, keys.size());
    ::close(lock);
}

std::string TokenParts::name_of_pass(const std::vector<CacheKey>& keys) {
    std::string all;
    for (const CacheKey& key : keys) all += key.text() + "\n";
    return hash_text(hash64(all)) + ".tokens.part";
}

// The lock last: after an interrupted removal it marks what is left.
void TokenParts::remove(const fs::path& folder, const std::string& name, std::size_t files) {
    std::error_code ignored;
    for (std::size_t f = 0; f < files; ++f)
        for (const char* what : {"ids", "lengths"})
            fs::remove(folder / fmt::format("{}.{}.{}", name, f, what), ignored);
    fs::remove(folder / (name + ".json"), ignored);
    fs::remove(folder / (name + ".lock"), ignored);
}

}  // namespace elmo
