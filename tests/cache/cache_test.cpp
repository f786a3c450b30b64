// The binary cache: reuse, rebuilding when anything changed or is damaged, the same bytes with any number of
// threads, and where it lies.
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <thread>

#include "base/parallel.h"
#include "cache/cache_file.h"
#include "data/test_folder.h"
#include "elmo/error.h"
#include "io/checksum.h"
#include "quiet.h"

namespace elmo {
namespace {

namespace fs = std::filesystem;
using testing_data::contains;
using testing_data::row;

class Cache : public testing_data::TestFolder {
  protected:
    void SetUp() override {
        TestFolder::SetUp();
        std::string texts, matrix = "5000 11\n", names;
        for (int i = 0; i < 5000; ++i) {
            texts += "the quick fox number " + std::to_string(i) + std::string(i % 40, 'x') + "\n";
            matrix += i % 4 == 3 ? "\n" : std::to_string(i % 11) + ":1\n";
        }
        for (int l = 0; l < 11; ++l) names += "label " + std::to_string(l) + "\n";
        write("set/trn_X.txt", texts);
        write("set/trn_X_Y.txt", matrix);
        write("set/tst_X.txt", "a lazy dog\n\nfox\n");
        write("set/tst_X_Y.txt", "3 11\n0:1 10:1\n\n5:1\n");
        write("set/Y.txt", names);
    }
    Config options() const {
        Config result = config("set");
        result.max_length = 12;
        return result;
    }
    DataSummary import(const Config& how, const Tokenizer& tokenizer, int threads = 0) {
        DataSummary summary;
        Dataset::open(quiet().with_threads(threads), how, tokenizer, &summary);
        return summary;
    }
    static std::map<std::string, std::string> files(const fs::path& folder) {
        std::map<std::string, std::string> all;
        for (const auto& entry : fs::directory_iterator(folder))
            all[entry.path().filename()] = read(entry.path());
        return all;
    }
};

TEST_F(Cache, HoldsWhatTheTokenizerGives) {
    const auto tokenizer = testing_data::small_tokenizer();
    DataSummary summary;
    const Dataset data = Dataset::open(quiet(), options(), *tokenizer, &summary);
    ASSERT_EQ(data.train().tokens.rows(), 5000);
    std::vector<std::int32_t> ids;
    std::int64_t cut = 0, total = 0;
    for (int i = 0; i < 5000; ++i) {
        cut += tokenizer->encode("the quick fox number " + std::to_string(i) + std::string(i % 40, 'x'), 12,
                                 ids) > 12;
        const auto tokens = data.train().tokens.row(i);
        ASSERT_EQ(std::vector<std::int32_t>(tokens.begin(), tokens.end()), ids);
        total += static_cast<std::int64_t>(ids.size());
    }
    EXPECT_EQ(summary.cut_rows, cut);
    EXPECT_GT(cut, 0);
    EXPECT_EQ(summary.longest_row_tokens, 12);
    for (const auto& text : {"a lazy dog", "", "fox"}) total += tokenizer->encode(text, 12, ids), (void)ids;
    EXPECT_DOUBLE_EQ(summary.tokens_per_row, static_cast<double>(total) / 5003);
    EXPECT_EQ(row(data.test().labels, 0), (std::vector<std::uint32_t>{0, 10}));
    EXPECT_EQ(summary.rows_without_labels, 1251);
    EXPECT_GT(data.mapped_bytes(), 0);
}

TEST_F(Cache, IsReusedUntilSomethingChanges) {
    const auto tokenizer = testing_data::small_tokenizer();
    EXPECT_FALSE(import(options(), *tokenizer).cache_reused);
    const auto before = files(folder_ / "set/.elmo-cache");
    const DataSummary again = import(options(), *tokenizer);
    EXPECT_TRUE(again.cache_reused);
    EXPECT_EQ(fs::path(again.cache), folder_ / "set/.elmo-cache");
    EXPECT_EQ(files(folder_ / "set/.elmo-cache"), before);

    Config shorter = options();
    shorter.max_length = 5;
    EXPECT_FALSE(import(shorter, *tokenizer).cache_reused);
    EXPECT_TRUE(import(shorter, *tokenizer).cache_reused);
    EXPECT_TRUE(import(options(), *tokenizer).cache_reused);  // both are kept
    const auto other = testing_data::small_tokenizer(100);
    ASSERT_NE(other->fingerprint(), tokenizer->fingerprint());
    EXPECT_FALSE(import(options(), *other).cache_reused);

    write("set/tst_X.txt", "a lazy cat\n\nfox\n");  // same size, another time and content
    fs::last_write_time(folder_ / "set/tst_X.txt",
                        fs::last_write_time(folder_ / "set/tst_X.txt") + std::chrono::nanoseconds(1));
    EXPECT_FALSE(import(options(), *tokenizer).cache_reused);
    std::vector<std::int32_t> ids;
    tokenizer->encode("a lazy cat", 12, ids);
    {
        const Dataset data = Dataset::open(quiet(), options(), *tokenizer);
        const auto tokens = data.test().tokens.row(0);
        EXPECT_EQ(std::vector<std::int32_t>(tokens.begin(), tokens.end()), ids);
    }
    write("set/trn_X_Y.txt", "1 11\n0:1\n");
    EXPECT_TRUE(contains(message([&] { import(options(), *tokenizer); }),
                         "trn_X.txt: expected 1 texts, one a row of"));
}

TEST_F(Cache, DamageOfAnyByteIsNoticed) {
    const auto tokenizer = testing_data::small_tokenizer();
    import(options(), *tokenizer);
    const auto good = files(folder_ / "set/.elmo-cache");
    EXPECT_EQ(good.size(), 7u);  // two marks among them: of the file, and of the path for its user
    for (const auto& [name, bytes] : good) {
        if (name.ends_with(".known")) continue;  // has no bytes
        const auto path = folder_ / "set/.elmo-cache" / name;
        for (const std::size_t at :
             {std::size_t{0}, bytes.size() / 2, bytes.size() - 300, bytes.size() - 40, bytes.size() - 28,
              bytes.size() - 20, bytes.size() - 12, bytes.size() - 1}) {
            std::string bad = bytes;
            bad[at] = static_cast<char>(bad[at] ^ 0x10);
            std::ofstream(path, std::ios::binary) << bad;
            EXPECT_FALSE(import(options(), *tokenizer).cache_reused) << name << " byte " << at;
            EXPECT_EQ(files(folder_ / "set/.elmo-cache"), good) << name << " byte " << at;
        }
        for (const std::size_t length :
             {std::size_t{0}, std::size_t{1}, std::size_t{31}, bytes.size() / 2, bytes.size() - 1}) {
            std::ofstream(path, std::ios::binary) << bytes.substr(0, length);
            EXPECT_FALSE(import(options(), *tokenizer).cache_reused) << name << " cut to " << length;
            EXPECT_EQ(files(folder_ / "set/.elmo-cache"), good);
        }
    }
}

// Checksums right, content not: what a cache that was made to harm would hold.
TEST_F(Cache, WhatCannotBeIsRefused) {
    const auto tokenizer = testing_data::small_tokenizer();
    import(options(), *tokenizer);
    const fs::path folder = folder_ / "set/.elmo-cache";
    const auto forge = [&](const std::string& part, const std::string& section, std::int64_t index, int bytes,
                           std::int64_t value) {
        SCOPED_TRACE(part + " " + section);
        fs::path file;
        for (const auto& entry : fs::directory_iterator(folder))
            if (entry.path().string().ends_with("." + part)) file = entry.path();
        const std::string good = read(file);
        std::int64_t offset = 0, length = 0;
        std::memcpy(&offset, good.data() + good.size() - 24, 8);
        std::memcpy(&length, good.data() + good.size() - 16, 8);
        auto footer = nlohmann::json::parse(good.substr(offset, length));
        std::string bad = good.substr(0, offset);
        for (auto& s : footer["sections"]) {
            const std::int64_t from = s["offset"],
                               size = s["count"].get<std::int64_t>() * s["element_bytes"].get<std::int64_t>();
            if (s["name"] == section && bytes > 0)
                std::memcpy(bad.data() + from + index * bytes, &value, bytes);
            if (s["name"] == section && bytes == 0) s["count"] = value;
            const std::int64_t kept =
                s["name"] == section && bytes == 0 ? value * s["element_bytes"].get<std::int64_t>() : size;
            s["hash"] = hash64(std::string_view(bad).substr(from, kept));
        }
        const std::string text = footer.dump();
        const std::int64_t text_bytes = static_cast<std::int64_t>(text.size());
        const std::uint64_t hash = hash64(text);
        bad += text + "elmo.cac";
        for (const void* number : {static_cast<const void*>(&offset), static_cast<const void*>(&text_bytes),
                                   static_cast<const void*>(&hash)})
            bad.append(static_cast<const char*>(number), 8);
        std::ofstream(file, std::ios::binary) << bad;
        const std::string said = message([&] { import(options(), *tokenizer); });
        EXPECT_TRUE(contains(said, file.string())) << said;
        EXPECT_TRUE(contains(said, "delete")) << said;
        std::ofstream(file, std::ios::binary) << good;
        EXPECT_EQ(message([&] { import(options(), *tokenizer); }), "");
    };
    constexpr auto kLeast = std::numeric_limits<std::int64_t>::min();
    forge("train.labels", "labels.values", 0, 4, 11);       // beyond the labels
    forge("test.labels", "labels.values", 1, 4, 0);         // does not ascend
    forge("train.labels", "labels.offsets", 2, 8, kLeast);  // falls, and a length overflows
    forge("train.labels", "counts", 3, 8, std::int64_t{1} << 62);
    forge("train.labels", "counts", 0, 0, 10);                    // fewer than labels
    forge("train.labels", "stats", 0, 0, 0);                      // none
    forge("train.labels", "stats", 0, 8, std::int64_t{1} << 60);  // labels without end
    forge("train.tokens", "stats", 0, 0, 0);
    forge("train.tokens", "tokens.offsets", 7, 8, -1);
}

// Writing a value to compare it is recursive: such a footer would overflow the stack.
TEST_F(Cache, ADeepFooterIsNotFollowed) {
    const CacheKey key("/data", "train.labels");
    const std::string depth(300'000, '['),
        footer = "{\"key\":" + depth + std::string(depth.size(), ']') + ",\"sections\":[]}";
    const std::uint64_t numbers[] = {0, footer.size(), hash64(footer)};
    write(key.file_name(),
          footer + "elmo.cac" + std::string(reinterpret_cast<const char*>(numbers), sizeof numbers));
    std::string why;
    EXPECT_FALSE(CacheFile::open(folder_, key, &why));
    EXPECT_TRUE(contains(why, "nested")) << why;
}

// Each section is hashed: many that are the same bytes would take any time.
TEST_F(Cache, SectionsOfTheSameBytesAreRefused) {
    const CacheKey key("/data", "train.labels");
    nlohmann::json footer{{"key", key.text()}, {"sections", nlohmann::json::array()}};
    for (const char* name : {"a", "b"})
        footer["sections"].push_back({{"name", name},
                                      {"element_bytes", 1},
                                      {"offset", 0},
                                      {"count", 64},
                                      {"hash", hash64(std::string(64, 'x'))}});
    const std::string text = footer.dump();
    const std::uint64_t numbers[] = {64, text.size(), hash64(text)};
    const auto bytes = [&] {
        return std::string(64, 'x') + text + "elmo.cac" +
               std::string(reinterpret_cast<const char*>(numbers), sizeof numbers);
    };
    write(key.file_name(), bytes());
    std::string why;
    EXPECT_FALSE(CacheFile::open(folder_, key, &why));
    EXPECT_TRUE(contains(why, "damaged")) << why;
}

// A data set from somebody else may bring a cache along, with links in it.
TEST_F(Cache, LinksInItLeadNowhere) {
    const auto tokenizer = testing_data::small_tokenizer();
    const fs::path cache = folder_ / "set/.elmo-cache", outside = folder_ / "outside";
    import(options(), *tokenizer);
    std::vector<fs::path> names;
    for (const auto& entry : fs::directory_iterator(cache))
        if (entry.path().extension() != ".known") names.push_back(entry.path().filename());
    ASSERT_GE(names.size(), 5u);
    for (const fs::path& name : names) {
        fs::remove(cache / name);
        write("outside/" + name.string(), "precious");
        fs::create_symlink("../../outside/" + name.string(), cache / name);
    }
    EXPECT_EQ(message([&] { import(options(), *tokenizer); }), "");
    for (const fs::path& name : names) {
        EXPECT_EQ(read(outside / name), "precious") << name;
        EXPECT_EQ(fs::symlink_status(cache / name).type(), fs::file_type::regular) << name;  // made again
    }
}

TEST_F(Cache, ALinkBesideTheDataIsNotTheCache) {
    const auto tokenizer = testing_data::small_tokenizer();
    fs::create_directories(folder_ / "outside");
    fs::create_directory_symlink("../outside", folder_ / "set/.elmo-cache");
    ::setenv("XDG_CACHE_HOME", (folder_ / "user").c_str(), 1);
    import(options(), *tokenizer);
    EXPECT_TRUE(fs::is_empty(folder_ / "outside"));
    EXPECT_FALSE(fs::is_empty(folder_ / "user/elmo"));
    ::unsetenv("XDG_CACHE_HOME");
}

TEST_F(Cache, BytesDoNotDependOnThreads) {
    const auto tokenizer = testing_data::small_tokenizer();
    std::string body;
    for (int i = 0; i < 60000; ++i)
        body += "the dog " + std::to_string(i) + "\tl" + std::to_string(i % 1009) + "\n";
    write("plain.tsv", body);
    for (const char* name : {"set", "plain.tsv"}) {
        Config how = options();
        how.data = (folder_ / name).string();
        std::map<std::string, std::string> first;
        for (const int threads : {1, 2, 7}) {
            how.cache = (folder_ / ("cache" + std::to_string(threads))).string();
            import(how, *tokenizer, threads);
            const auto all = files(how.cache);
            EXPECT_EQ(all.size(), 7u);
            if (threads == 1) first = all;
            EXPECT_TRUE(all == first) << name << " with " << threads << " threads";
        }
        for (const int threads : {1, 2, 7}) fs::remove_all(folder_ / ("cache" + std::to_string(threads)));
    }
}

TEST_F(Cache, LabelsNeedNoTokensAndLeaveThemAlone) {
    DataSummary summary;
    Dataset::open_labels(quiet(), options(), &summary);
    EXPECT_EQ(files(folder_ / "set/.elmo-cache").size(), 5u);
    fs::remove(folder_ / "set/trn_X.txt");
    const Dataset data = Dataset::open_labels(quiet(), options(), &summary);
    EXPECT_TRUE(summary.cache_reused);
    EXPECT_EQ(data.train().rows(), 5000);
    EXPECT_EQ(data.train().tokens.rows(), 0);
    const auto tokenizer = testing_data::small_tokenizer();
    EXPECT_TRUE(contains(message([&] { Dataset::open(quiet(), options(), *tokenizer); }),
                         "the train texts are missing"));
    EXPECT_EQ(Dataset::open(quiet(), options(), *tokenizer, nullptr, {SplitName::kTest}).test().tokens.rows(),
              3);
}

TEST_F(Cache, LiesInTheUsersFolderWhenTheDataIsReadOnly) {
    const char* old = std::getenv("XDG_CACHE_HOME");
    const std::string saved = old != nullptr ? old : "";
    ::setenv("XDG_CACHE_HOME", (folder_ / "user").c_str(), 1);
    fs::permissions(folder_ / "set", fs::perms::owner_read | fs::perms::owner_exec);
    DataSummary summary;
    Dataset::open_labels(quiet(), options(), &summary);
    fs::permissions(folder_ / "set", fs::perms::owner_all);
    EXPECT_TRUE(contains(summary.cache, (folder_ / "user/elmo").string()));
    EXPECT_FALSE(fs::exists(folder_ / "set/.elmo-cache"));
    old != nullptr ? ::setenv("XDG_CACHE_HOME", saved.c_str(), 1) : ::unsetenv("XDG_CACHE_HOME");

    Config own = options();
    own.cache = (folder_ / "here/deep").string();
    Dataset::open_labels(quiet(), own, &summary);
    EXPECT_EQ(summary.cache, own.cache);
    own.cache = (folder_ / "set/Y.txt").string();
    EXPECT_THROW(Dataset::open_labels(quiet(), own), ConfigError);
}

TEST_F(Cache, SeveralImportsAtOnceAgree) {
    const auto tokenizer = testing_data::small_tokenizer();
    std::vector<std::thread> threads;
    std::atomic<int> right = 0;
    for (int t = 0; t < 4; ++t)
        threads.emplace_back([&] {
            for (int round = 0; round < 3; ++round) {
                const Dataset data = Dataset::open(quiet(), options(), *tokenizer);
                right += data.train().tokens.rows() == 5000 && data.train().labels.row(4)[0] == 4;
            }
        });
    for (auto& thread : threads) thread.join();
    EXPECT_EQ(right, 12);
    EXPECT_TRUE(import(options(), *tokenizer).cache_reused);
    EXPECT_EQ(files(folder_ / "set/.elmo-cache").size(), 7u);  // and no temporaries
}

TEST_F(Cache, InvalidUtf8InTexts) {
    const auto tokenizer = testing_data::small_tokenizer();
    write("set/tst_X.txt", "a lazy dog\nbad \xff\xfe here\nfox\n");
    EXPECT_TRUE(contains(message([&] { import(options(), *tokenizer); }),
                         "tst_X.txt:2: expected UTF-8, found byte 0xff at column 5"));
    Config allowed = options();
    allowed.allow_invalid_utf8 = true;
    EXPECT_EQ(import(allowed, *tokenizer).replaced_utf8, 1);
}

}  // namespace
}  // namespace elmo
