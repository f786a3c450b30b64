// An import that was interrupted continues and ends in the same file.
#include "cache/token_parts.h"

#include <fstream>
#include <nlohmann/json.hpp>

#include "cache/ragged_writer.h"
#include "data/test_folder.h"
#include "data/token_import.h"
#include "quiet.h"

namespace elmo {
namespace {

class TokenPartsTest : public testing_data::TestFolder {
  protected:
    // `rows` rows of three ids that begin at `first`.
    static TokenBlock block(std::int32_t first, std::int64_t rows) {
        TokenBlock made;
        for (std::int64_t row = 0; row < rows; ++row) {
            for (int i = 0; i < 3; ++i) made.ids.push_back(first + static_cast<std::int32_t>(3 * row + i));
            made.lengths.push_back(3);
        }
        made.cut = rows;
        return made;
    }
    std::vector<CacheKey> keys() const {
        return {CacheKey(folder_, "train.tokens"), CacheKey(folder_, "test.tokens")};
    }
    void expect(std::int64_t train_rows, std::int64_t test_rows) {
        const std::int64_t rows[] = {train_rows, test_rows};
        for (int i = 0; i < 2; ++i) {
            const CacheFile file = CacheFile::read_back(folder_, keys()[i]);
            const TokenRows tokens = read_ragged<std::int32_t>(file, "tokens");
            ASSERT_EQ(tokens.rows(), rows[i]);
            for (std::int64_t row = 0; row < tokens.rows(); row += 997)
                ASSERT_EQ(tokens.row(row)[1], 3 * row + 1) << i << " " << row;
            EXPECT_EQ(file.section<TokenStats>("stats")[0].cut_rows, rows[i]);
        }
        for (const auto& entry : std::filesystem::directory_iterator(folder_))
            EXPECT_EQ(entry.path().string().find(".part"), std::string::npos) << entry.path();
    }
};

TEST_F(TokenPartsTest, WhatTheJournalSaysIsKeptAndTheRestDoneAgain) {
    const std::int64_t large = TokenParts::kJournalBytes / 12 + 1;  // rows whose ids make a journal entry
    const TokenBlock first = block(0, large), next = block(static_cast<std::int32_t>(3 * large), 10);
    const TokenBlock test = block(0, 5), none;
    {
        TokenParts parts(quiet(), folder_, keys());
        EXPECT_EQ(parts.records(), 0);
        parts.add(large + 5, {&first, &test});
        parts.add(10, {&next, &none});  // not in the journal: lost with the process
    }
    {
        TokenParts parts(quiet(), folder_, keys());
        EXPECT_EQ(parts.records(), large + 5);
        parts.add(10, {&next, &none});
        parts.finish();
    }
    expect(large + 10, 5);
    TokenParts again(quiet(), folder_, keys());
    EXPECT_EQ(again.records(), 0);
}

// They are opened to be written: a link would lead to a file that somebody else chose.
TEST_F(TokenPartsTest, LinksAreNotFollowed) {
    namespace fs = std::filesystem;
    std::vector<fs::path> names;
    {
        TokenParts parts(quiet(), folder_, keys());
        for (const auto& entry : fs::directory_iterator(folder_)) names.push_back(entry.path());
    }
    ASSERT_EQ(names.size(), 5u);  // the lock, ids and lengths of two files
    write("precious/file", "precious");
    for (const fs::path& name : names) {
        const std::string there = read(name);
        fs::remove(name);
        fs::create_symlink(folder_ / "precious/file", name);
        const std::string said = message([&] { TokenParts(quiet(), folder_, keys()); });
        EXPECT_TRUE(testing_data::contains(said, name.string())) << said;
        EXPECT_EQ(read(folder_ / "precious/file"), "precious") << name;
        fs::remove(name);
    }
    EXPECT_EQ(message([&] { TokenParts(quiet(), folder_, keys()); }), "");
}

// Writing a value to compare it is recursive: such a journal would overflow the stack.
TEST_F(TokenPartsTest, ADeepJournalIsNotFollowed) {
    std::string name;
    { TokenParts parts(quiet(), folder_, keys()); }
    for (const auto& entry : std::filesystem::directory_iterator(folder_))
        if (entry.path().extension() == ".lock") name = entry.path().stem();
    const std::string depth(300'000, '[');
    write(name + ".json", R"({"xxh64":"0","journal":)" + depth + std::string(depth.size(), ']') + "}");
    TokenParts parts(quiet(), folder_, keys());
    EXPECT_EQ(parts.records(), 0);
}

TEST_F(TokenPartsTest, AreClearedWhereNobodyIsAtThem) {
    const TokenBlock rows = block(0, 3), none;
    const auto parts_there = [&] {
        int count = 0;
        for (const auto& entry : std::filesystem::directory_iterator(folder_))
            count += entry.path().string().find(".part") != std::string::npos;
        return count;
    };
    {
        TokenParts holder(quiet(), folder_, keys());
        holder.add(3, {&rows, &none});
        TokenParts::clear(folder_, keys());
        EXPECT_GT(parts_there(), 0);
    }
    std::vector<CacheKey> others = keys();
    others[0].add("max_length", "7");
    TokenParts::clear(folder_, others);
    EXPECT_GT(parts_there(), 0);
    TokenParts::clear(folder_, keys());
    EXPECT_EQ(parts_there(), 0);
}

TEST_F(TokenPartsTest, OtherSourcesAndDamagedPartsBeginAnew) {
    const std::int64_t large = TokenParts::kJournalBytes / 12 + 1;
    const TokenBlock rows = block(0, large), none;
    { TokenParts(quiet(), folder_, keys()).add(large, {&rows, &none}); }
    std::vector<CacheKey> others = keys();
    others[0].add("max_length", "7");
    EXPECT_EQ(TokenParts(quiet(), folder_, others).records(), 0);
    // A second process meanwhile works on separate files.
    {
        const TokenParts holder(quiet(), folder_, keys());
        EXPECT_EQ(holder.records(), large);
        TokenParts beside(quiet(), folder_, keys());
        EXPECT_EQ(beside.records(), 0);
        beside.finish();
    }
    for (const auto& entry : std::filesystem::directory_iterator(folder_))
        if (entry.path().string().ends_with(".0.ids")) std::filesystem::resize_file(entry.path(), 100);
    EXPECT_EQ(TokenParts(quiet(), folder_, keys()).records(), 0);
}

TEST_F(TokenPartsTest, AJournalOfMoreThanAnyFileHoldsBeginsAnew) {
    const std::int64_t large = TokenParts::kJournalBytes / 12 + 1;
    const TokenBlock rows = block(0, large), none;
    for (const char* key : {"ids", "rows"}) {
        { TokenParts(quiet(), folder_, keys()).add(large, {&rows, &none}); }
        for (const auto& entry : std::filesystem::directory_iterator(folder_)) {
            if (entry.path().extension() != ".json") continue;
            nlohmann::json journal = nlohmann::json::parse(std::ifstream(entry.path()));
            journal["journal"]["files"][0][key] = std::int64_t{1}
                                                  << 62;  // four or eight times that is 0 in 64 bits
            journal["xxh64"] = hash_text(hash64(journal["journal"].dump()));
            std::ofstream(entry.path()) << journal;
        }
        TokenParts parts(quiet(), folder_, keys());
        EXPECT_EQ(parts.records(), 0) << key;
        parts.finish();
    }
}

// One bit of any part, or of the journal, and nothing of them goes into a cache.
TEST_F(TokenPartsTest, AFlippedBitBeginsAnew) {
    const std::int64_t large = TokenParts::kJournalBytes / 12 + 1;
    const TokenBlock rows = block(0, large), test = block(0, 5);
    for (const char* which : {".0.ids", ".0.lengths", ".1.ids", ".part.json"}) {
        SCOPED_TRACE(which);
        { TokenParts(quiet(), folder_, keys()).add(large + 5, {&rows, &test}); }
        EXPECT_EQ(TokenParts(quiet(), folder_, keys()).records(), large + 5);
        for (const auto& entry : std::filesystem::directory_iterator(folder_)) {
            if (!entry.path().string().ends_with(which)) continue;
            std::fstream file(entry.path(), std::ios::binary | std::ios::in | std::ios::out);
            const auto middle = static_cast<std::streamoff>(entry.file_size() / 2);
            file.seekg(middle);
            const int byte = file.get();
            file.seekp(middle);
            file.put(static_cast<char>(byte ^ 1));
        }
        EXPECT_EQ(TokenParts(quiet(), folder_, keys()).records(), 0);
    }
}

TEST_F(TokenPartsTest, EmptyPasses) {
    TokenParts(quiet(), folder_, keys()).finish();
    expect(0, 0);
}

}  // namespace
}  // namespace elmo
