// Formats of the field: detection by content, awkward files, and what each error says.
#include <gtest/gtest.h>
#include <zstd.h>

#include "data/test_folder.h"
#include "data/test_zip.h"
#include "data/token_import.h"
#include "elmo/error.h"
#include "quiet.h"
#include "sources/detect.h"
#include "sources/matrices/npz_matrix.h"
#include "sources/matrices/sparse_source.h"

namespace elmo {
namespace {

using testing_data::contains;
using testing_data::row;
using testing_data::TestZip;
using Ids = std::vector<std::uint32_t>;
using Strings = std::vector<std::string>;

class Formats : public testing_data::TestFolder {
  protected:
    Dataset open(const std::string& name, DataSummary* summary = nullptr) {
        Config options = config(name);
        options.test_share = 0;
        return Dataset::open_labels(quiet(), options, summary);
    }
    template <class E = DataError>
    std::string error(const std::string& name) {
        return message<E>([&] { open(name); });
    }
    Strings texts(const std::string& name) {
        Config options = config(name);
        options.test_share = 0;
        SplitTexts stream(quiet(), options);
        Strings all;
        for (std::string_view text; stream.next(text);) all.emplace_back(text);
        return all;
    }
    void write_zst(const std::string& name, const std::string& bytes) {
        std::string packed(ZSTD_compressBound(bytes.size()), '\0');
        ZSTD_CCtx* context = ZSTD_createCCtx();
        ZSTD_CCtx_setParameter(context, ZSTD_c_checksumFlag, 1);
        packed.resize(ZSTD_compress2(context, packed.data(), packed.size(), bytes.data(), bytes.size()));
        ZSTD_freeCCtx(context);
        write(name, packed);
    }
};

TEST_F(Formats, ToldByContent) {
    const std::pair<const char*, DataFormat> cases[] = {
        {"2 3 4\n0,1 2:1\n\n", DataFormat::kSparse},
        {"0,1 2:1 5:0.25\n 3:1\n4 1:1e-3\n", DataFormat::kSparse},
        {"__label__a some text\n", DataFormat::kFastText},
        {"{\"text\":\"x\",\"labels\":[]}\n", DataFormat::kJsonl},
        {"some text\ta,b\n", DataFormat::kTsv},
        {"text,labels\nx,y\n", DataFormat::kCsv},
        {"\xef\xbb\xbf__label__a some text\r\n", DataFormat::kFastText},
        {"\n\n{\"text\":1}\n", DataFormat::kJsonl},
    };
    for (const auto& [bytes, format] : cases) EXPECT_EQ(detect_format(write("any", bytes)), format) << bytes;
    EXPECT_EQ(detect_format(write("a.csv", "text\tlabels\nx\ty\n")), DataFormat::kTsv);
    EXPECT_EQ(detect_format(write("a.csv", "text;x\nx\n")), DataFormat::kCsv)
        << "the reader says what is wrong";
    EXPECT_TRUE(contains(message<ConfigError>([&] { detect_format(write("any", "words alone\n")); }),
                         "cannot be told from the content"));
    EXPECT_THROW(detect_format(write("any", "")), DataError);
    EXPECT_FALSE(is_sparse_header("1 2"));
    EXPECT_FALSE(is_sparse_header("1 2 3 4"));
    EXPECT_TRUE(is_sparse_header("1 2\t3 "));
    EXPECT_FALSE(is_sparse_row("1,2"));
    EXPECT_FALSE(is_sparse_row("a 1:1"));
    EXPECT_TRUE(is_sparse_row("1:1"));
}

TEST_F(Formats, FastText) {
    write("a.txt",
          "\xef\xbb\xbf__label__b __label__a  some  text\r\n"
          "no labels here\n"
          "\n"
          "__label__a\n"
          "text __label__c between\n"
          "__label__ odd");
    DataSummary summary;
    const Dataset data = open("a.txt", &summary);
    EXPECT_EQ(summary.format, "plain file, fastText");
    ASSERT_EQ(data.num_labels(), 3);
    EXPECT_EQ(data.label_name(2), "c");
    ASSERT_EQ(data.train().rows(), 6);
    EXPECT_EQ(row(data.train().labels, 0), (Ids{0, 1}));
    EXPECT_EQ(row(data.train().labels, 1), Ids{});
    EXPECT_EQ(row(data.train().labels, 4), Ids{2});
    EXPECT_EQ(texts("a.txt"), (Strings{"some text", "no labels here", "", "", "text between", "odd"}));
    write("a.txt", "__label__a x __label__a\n");
    EXPECT_TRUE(contains(error("a.txt"), "a.txt:1: expected every label once, found 'a' twice"));
}

TEST_F(Formats, RawPairs) {
    write("set/train_raw_texts.txt", "first /SEP/ body\r\n\r\nthird");
    write("set/train_labels.txt", "books toys\n\nbooks");
    write_gz("set/test_raw_texts.txt.gz", "fourth\n");
    write_zst("set/test_labels.txt.zst", "toys cars\n");
    DataSummary summary;
    const Dataset data = open("set", &summary);
    ASSERT_EQ(data.num_labels(), 2);
    EXPECT_EQ(data.label_name(0), "books");
    ASSERT_EQ(data.train().rows(), 3);
    EXPECT_EQ(row(data.train().labels, 0), (Ids{0, 1}));
    EXPECT_EQ(row(data.train().labels, 1), Ids{});
    EXPECT_EQ(row(data.test().labels, 0), Ids{1});
    EXPECT_EQ(summary.labels_unseen_in_train, 1) << "cars";
    EXPECT_EQ(texts("set"), (Strings{"first   body", "", "third"}));
    const auto tokenizer = testing_data::small_tokenizer();
    write("set/train_labels.txt", "books toys\n\n");
    EXPECT_TRUE(contains(message([&] { Dataset::open(quiet(), config("set"), *tokenizer); }),
                         "train_raw_texts.txt: expected 2 texts, one a row of"));
    std::filesystem::remove(folder_ / "set/train_labels.txt");
    EXPECT_TRUE(contains(error("set"), "train_labels.txt: not found"));
}

TEST_F(Formats, SparseOneFile) {
    write("x_train.txt", "4 10 5\r\n0,3 1:1 9:0.5\r\n 2:1\r\n\r\n4");
    write("x_test.txt", "1 10 5\n1 0:1\n");
    DataSummary summary;
    const Dataset data = open("x_train.txt", &summary);
    EXPECT_EQ(summary.format, "sparse bag-of-words file, test rows in x_test.txt");
    EXPECT_EQ(data.num_labels(), 5);
    ASSERT_EQ(data.train().rows(), 4);
    EXPECT_EQ(row(data.train().labels, 0), (Ids{0, 3}));
    EXPECT_EQ(row(data.train().labels, 1), Ids{});
    EXPECT_EQ(row(data.train().labels, 2), Ids{});
    EXPECT_EQ(row(data.train().labels, 3), Ids{4});
    EXPECT_EQ(row(data.test().labels, 0), Ids{1});
    const Dataset bag = Dataset::open(quiet(), config("x_train.txt"), *number_tokenizer(10));
    const auto tokens = bag.train().tokens.row(0);
    // 1 against 0.5: twice against once.
    EXPECT_EQ(std::vector<std::int32_t>(tokens.begin(), tokens.end()),
              (std::vector<std::int32_t>{11, 1, 1, 9, 12}));
    EXPECT_EQ(bag.train().tokens.length(1), 3);
    EXPECT_EQ(bag.train().tokens.length(2), 2);
    std::vector<std::int32_t> ids;
    number_tokenizer(10)->encode("1 1 9", 0, ids);
    EXPECT_EQ(ids, (std::vector<std::int32_t>{11, 1, 1, 9, 12})) << "a text of feature numbers";

    write("x_test.txt", "1 10 6\n1 0:1\n");
    EXPECT_TRUE(contains(error("x_train.txt"), "x_test.txt:1: expected 10 features and 5 labels, as"));
    std::filesystem::remove(folder_ / "x_test.txt");
    const std::pair<const char*, const char*> bad[] = {
        {"2 3 4\n1 0:1\n", "x_train.txt:1: expected 2 rows, as the header says, found 1"},
        {"1 3 4\n5 0:1\n", "x_train.txt:2: expected an index below the header's 4 columns, found '5'"},
        {"1 3 4\nx 0:1\n", "x_train.txt:2: expected entries"},
        {"1 3 4\n2,2 0:1\n", "x_train.txt:2: expected every index once"},
        {"1 3 4\n2,1 0:1\n", "x_train.txt:2: expected ascending indices"},
    };
    for (const auto& [bytes, says] : bad) {
        write("x_train.txt", bytes);
        EXPECT_TRUE(contains(error("x_train.txt"), says)) << error("x_train.txt");
    }
    write("x_train.txt", "1 3 4\n1 7:1\n");
    EXPECT_TRUE(
        contains(message([&] { Dataset::open(quiet(), config("x_train.txt"), *number_tokenizer(3)); }),
                 "x_train.txt:2: expected"));
}

TEST_F(Formats, SparseWithoutHeaderIsCounted) {
    write("train.txt", "6,7 1:0.5 3:-0.25\n2 103:1\n");
    write("test.txt", "8 104:1\n");
    const SparseFileShape shape =
        join_sparse_shapes(quiet(), {folder_ / "train.txt", folder_ / "test.txt", ""});
    EXPECT_FALSE(shape.has_header);
    EXPECT_EQ(shape.labels, 9);
    EXPECT_EQ(shape.features, 105);
    const Dataset data = open("");
    EXPECT_EQ(data.num_labels(), 9);
    EXPECT_EQ(data.train().rows(), 2);
    EXPECT_EQ(row(data.test().labels, 0), Ids{8});
    write("other_train.txt", "1 2:1\n");
    EXPECT_TRUE(
        contains(error<ConfigError>(""), "found several training files (other_train.txt, train.txt)"));
}

TEST_F(Formats, FeatureValuesSayHowOften) {
    std::vector<std::int32_t> tokens;
    append_feature_tokens({{4, 7, 9}, {1.0f, 0.25f, 0.01f}}, tokens);
    EXPECT_EQ(tokens, (std::vector<std::int32_t>{4, 4, 4, 4, 4, 4, 4, 4, 7, 7, 9}));
    tokens.clear();
    append_feature_tokens({{4, 7}, {3.0f, 3.0f}}, tokens);
    EXPECT_EQ(tokens, (std::vector<std::int32_t>{4, 7}));
    tokens.clear();
    append_feature_tokens({}, tokens);
    EXPECT_TRUE(tokens.empty());
}

TEST_F(Formats, TwoFilesSideBySide) {
    write("set/train.csv", "text,labels\nx,\"a,b\"\ny,b\n");
    write("set/test.csv", "text,labels\nz,\"b,c\"\n");
    for (const char* name : {"set", "set/train.csv"}) {
        DataSummary summary;
        const Dataset data = Dataset::open_labels(quiet(), config(name), &summary);
        EXPECT_EQ(data.train().rows(), 2);
        ASSERT_EQ(data.test().rows(), 1);
        EXPECT_EQ(row(data.test().labels, 0), Ids{1});
        EXPECT_EQ(summary.labels_unseen_in_train, 1);
        EXPECT_TRUE(contains(summary.format, "test rows in test.csv"));
    }
    const auto tokenizer = testing_data::small_tokenizer();
    EXPECT_EQ(Dataset::open(quiet(), config("set"), *tokenizer).test().tokens.rows(), 1);
}

// What train and test rows are usually called.
TEST_F(Formats, PairsByTheirNames) {
    int number = 0;
    const auto rows_of = [&](const Strings& names, const char* named) {
        const std::string set = fmt::format("set{}", number++);
        for (const std::string& name : names)
            write(set + "/" + name,
                  name.find('r') == name.npos ? "text,labels\nz,b\n" : "text,labels\nx,\"a,b\"\ny,b\n");
        Config options = config(set + "/" + named);
        options.test_share = 0;
        return Dataset::open_labels(quiet(), options).test().rows();
    };
    for (const auto& [train, test] :
         std::vector<std::pair<const char*, const char*>>{{"training.csv", "testing.csv"},
                                                          {"training.csv", "test.csv"},
                                                          {"train.csv", "testing.csv"},
                                                          {"TRAINING.csv", "TESTING.csv"},
                                                          {"Training_Set.csv", "Test_Set.csv"},
                                                          {"train1.csv", "test1.csv"},
                                                          {"mytrain.csv", "mytest.csv"},
                                                          {"2024train.csv", "2024test.csv"},
                                                          {"wiki10TrainData2.csv", "wiki10TestData2.csv"},
                                                          {"trainset.csv", "testset.csv"},
                                                          {"trainingset.csv", "testset.csv"},
                                                          {"a-traindata.csv", "a-testdata.csv"},
                                                          {"trn2.csv", "tst2.csv"}}) {
        EXPECT_EQ(rows_of({train, test}, train), 1) << train;
        EXPECT_EQ(rows_of({train, test}, ""), 1) << train;
    }
    // Other words.
    for (const auto& [train, test] :
         std::vector<std::pair<const char*, const char*>>{{"strain.csv", "test.csv"},
                                                          {"trains.csv", "tests.csv"},
                                                          {"trainer.csv", "tester.csv"},
                                                          {"constraint.csv", "constestt.csv"},
                                                          {"pretrain.csv", "pretest.csv"},
                                                          {"train1.csv", "test2.csv"},
                                                          {"training.csv", "latest.csv"},
                                                          {"mytrain.csv", "contest.csv"}}) {
        EXPECT_EQ(rows_of({train, test}, train), 0) << train;
        EXPECT_TRUE(contains(message([&, train = train, test = test] {
                                 rows_of({train, test}, "");
                             }),
                             "expected a file named like"));
    }
    // A test file is taken for the half of one pair only, and a word of its own goes first.
    EXPECT_EQ(rows_of({"train.csv", "training.csv", "test.csv"}, "training.csv"), 0);
    EXPECT_EQ(rows_of({"train.csv", "training.csv", "test.csv"}, "train.csv"), 1);
    EXPECT_EQ(rows_of({"train.csv", "training_log.csv", "test.csv"}, ""), 1);
    EXPECT_TRUE(contains(message<ConfigError>([&] {
                             rows_of({"train1.csv", "train2.csv", "test1.csv", "test2.csv"}, "");
                         }),
                         "found several training files (train1.csv, train2.csv)"));
    // A pair is more than a lone file, but its names are less.
    EXPECT_TRUE(contains(message<ConfigError>([&] {
                             rows_of({"words_train.csv", "mytrain.csv", "mytest.csv"}, "");
                         }),
                         "found several training files (mytrain.csv, words_train.csv)"));
    EXPECT_EQ(rows_of({"train.parquet", "mytrain.csv", "mytest.csv"}, ""), 1);
}

TEST_F(Formats, ZstdIsReadInPlace) {
    write_zst("a.tsv.zst", "one\ta\ntwo\tb\n");
    EXPECT_EQ(open("a.tsv.zst").train().rows(), 2);
    EXPECT_EQ(texts("a.tsv.zst"), (Strings{"one", "two"}));
    const std::string whole = read(folder_ / "a.tsv.zst");
    write("cut.tsv.zst", whole.substr(0, whole.size() - 4));
    EXPECT_TRUE(contains(error("cut.tsv.zst"), "the zstd data ends too early"));
    std::string bad = whole;
    bad[bad.size() / 2] ^= 0x55;
    write("bad.tsv.zst", bad);
    EXPECT_NE(error("bad.tsv.zst"), "");
    write("two.tsv.zst", whole + whole);
    EXPECT_EQ(open("two.tsv.zst").train().rows(), 4);
}

TEST_F(Formats, Latin1IsSaidAndRead) {
    write("a.tsv", "caf\xe9\ta\nna\xefve \x93quoted\x94\tb\n");
    EXPECT_TRUE(contains(error("a.tsv"),
                         "a.tsv:1: expected UTF-8, found byte 0xe9 at column 4; it looks like Latin-1: read "
                         "it with --encoding latin-1"));
    Config options = config("a.tsv");
    options.test_share = 0;
    options.encoding = "latin-1";
    EXPECT_EQ(Dataset::open_labels(quiet(), options).train().rows(), 2);
    SplitTexts stream(quiet(), options);
    std::string_view text;
    ASSERT_TRUE(stream.next(text));
    EXPECT_EQ(text, "caf\u00e9");
    ASSERT_TRUE(stream.next(text));
    EXPECT_EQ(text, "na\u00efve \u201cquoted\u201d");
    write("b.tsv", "caf\u00e9 \xe9\ta\n");
    EXPECT_TRUE(contains(error("b.tsv"), "--allow-invalid-utf8")) << "UTF-8 with a flaw is not Latin-1";
}

// ---- scipy matrices
struct Csr {
    std::string indices = TestZip::array<std::int32_t>("<i4", {0, 2, 1});
    std::string indptr = TestZip::array<std::int32_t>("<i4", {0, 2, 2, 3});
    std::string format = TestZip::npy("|S3", "()", "csr");
    std::string shape = TestZip::array<std::int64_t>("<i8", {3, 4});
    std::string data = TestZip::array<float>("<f4", {1, 1, 1});

    std::string zip(bool deflate = false) const {
        TestZip out;
        out.add("indices.npy", indices, deflate);
        out.add("indptr.npy", indptr, deflate);
        out.add("format.npy", format, deflate);
        out.add("shape.npy", shape, deflate);
        out.add("data.npy", data, deflate);
        return out.finish();
    }
};

TEST_F(Formats, NpzOfEveryDtype) {
    Csr csr;
    write("Y.txt", "a\nb\nc\nd\n");
    const auto expect = [&] {
        for (const bool deflate : {false, true}) {
            write("trn_X_Y.npz", csr.zip(deflate));
            const Dataset data = open("");
            EXPECT_EQ(data.num_labels(), 4);
            ASSERT_EQ(data.train().rows(), 3);
            EXPECT_EQ(row(data.train().labels, 0), (Ids{0, 2}));
            EXPECT_EQ(row(data.train().labels, 1), Ids{});
            EXPECT_EQ(row(data.train().labels, 2), Ids{1});
        }
    };
    expect();
    csr.indices = TestZip::array<std::int64_t>("<i8", {0, 2, 1});
    csr.indptr = TestZip::array<std::int64_t>("<i8", {0, 2, 2, 3});
    csr.data = TestZip::array<double>("<f8", {1, 0.5, 1});
    csr.format = TestZip::npy("<U3", "()", std::string("c\0\0\0s\0\0\0r\0\0\0", 12));
    expect();
    csr.data = TestZip::npy("|b1", "(3,)", "\x01\x01\x01");
    csr.indices = TestZip::array<std::uint16_t>("<u2", {0, 2, 1});
    expect();
}

TEST_F(Formats, NpzErrors) {
    const auto says = [&](const Csr& csr) {
        write("trn_X_Y.npz", csr.zip());
        return error("");
    };
    Csr csr;
    csr.format = TestZip::npy("|S3", "()", "csc");
    EXPECT_TRUE(contains(says(csr), "expected a CSR matrix, found format 'csc'"));
    csr = {};
    csr.indices = TestZip::array<std::int32_t>("<i4", {0, 4, 1});
    EXPECT_TRUE(contains(says(csr), "trn_X_Y.npz:0: expected an index below 4 columns, found 4"));
    csr = {};
    csr.indices = TestZip::array<std::int32_t>("<i4", {0, -1, 1});
    EXPECT_TRUE(contains(says(csr), "found -1"));
    csr = {};
    csr.indices = TestZip::array<std::int32_t>("<i4", {2, 0, 1});
    EXPECT_TRUE(contains(says(csr), "trn_X_Y.npz:0: expected ascending indices"));
    csr = {};
    csr.indptr = TestZip::array<std::int32_t>("<i4", {0, 2, 1, 3});
    EXPECT_TRUE(contains(says(csr), "bounds from 0 that never fall"));
    csr = {};
    csr.indptr = TestZip::array<std::int32_t>("<i4", {0, 2, 3});
    EXPECT_TRUE(contains(says(csr), "expected 4 row bounds"));
    csr = {};
    csr.indptr = TestZip::array<std::int32_t>("<i4", {0, 2, 2, 9});
    EXPECT_TRUE(contains(says(csr), "expected 9 indices"));
    csr = {};
    csr.data = TestZip::array<float>("<f4", {1, 1});
    EXPECT_TRUE(contains(says(csr), "expected 3 values"));
    csr = {};
    csr.data = csr.data.substr(0, csr.data.size() - 2);
    EXPECT_TRUE(contains(says(csr), "expected more numbers"));
    csr = {};
    csr.data = TestZip::array<float>(">f4", {1, 1, 1});
    EXPECT_TRUE(contains(says(csr), "little-endian"));
    const std::string whole = Csr().zip();
    for (std::size_t cut = 0; cut < whole.size(); cut += 7) {
        write("trn_X_Y.npz", whole.substr(0, cut));
        EXPECT_NE(message<Error>([&] { open(""); }), "") << cut;
    }
    std::string damaged = Csr().zip(true);
    damaged[60] ^= 0x10;
    write("trn_X_Y.npz", damaged);
    EXPECT_NE(message<Error>([&] { open(""); }), "");
}

TEST_F(Formats, PecosFolder) {
    write("set/X.trn.txt", "one\ntwo\nthree\n");
    write("set/Y.trn.npz", Csr().zip());
    write("set/output-items.txt", "a\nb\nc\nd\n");
    DataSummary summary;
    const Dataset data = open("set", &summary);
    EXPECT_EQ(summary.format, "PECOS layout (texts and scipy matrices)");
    EXPECT_EQ(data.label_name(3), "d");
    EXPECT_EQ(row(data.train().labels, 0), (Ids{0, 2}));
    EXPECT_EQ(texts("set"), (Strings{"one", "two", "three"}));
}

}  // namespace
}  // namespace elmo
