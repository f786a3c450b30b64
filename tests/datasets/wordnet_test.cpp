// A small dictionary with every trait of WordNet's files that matters: hypernym instances, two parents, a
// cycle, examples in the gloss, other pointers.
#include "datasets/wordnet.h"

#include <gtest/gtest.h>

#include "data/test_folder.h"
#include "elmo/error.h"
#include "quiet.h"

namespace elmo {
namespace {

class Wordnet : public testing_data::TestFolder {};

TEST_F(Wordnet, AncestorsAreLabels) {
    write("dict/data.noun",
          "  1 This software and database is being provided\n"
          "00000001 03 n 01 animal 0 000 | a living thing  \n"
          "00000002 03 n 02 dog 0 house_dog 0 002 @ 00000001 n 0000 ~ 00000003 n 0000 | it barks; it bites; "
          "\"the "
          "dog barked; loudly\"  \n"
          "00000003 03 n 01 Rex 0 003 @i 00000002 n 0000 @ 00000004 n 0000 + 00000001 v 0101 | a dog  \n"
          "00000004 03 n 01 pet 0 000 | kept at home\n");
    write("dict/data.verb",
          "00000001 29 v 01 bark 0 001 @ 00000002 v 0000 01 + 02 00 | make a noise\n"
          "00000002 29 v 01 sound 0 001 @ 00000001 v 0000 01 + 02 00 | be heard\n");
    WordnetOptions options;
    options.test_share = 0;
    options.widest_label = 1;
    const DataSummary summary = write_wordnet(quiet(), folder_ / "dict", folder_ / "out", options);
    EXPECT_EQ(summary.train_rows, 4);
    EXPECT_EQ(summary.labels, 5);
    EXPECT_EQ(summary.rows_without_labels, 2);
    EXPECT_EQ(read(folder_ / "out/Y.txt"), "animal\ndog, house dog\npet\nbark\nsound\n");
    EXPECT_EQ(read(folder_ / "out/trn_X.txt"),
              "dog, house dog: it barks; it bites\nRex: a dog\nbark: make a noise\nsound: be heard\n");
    EXPECT_EQ(read(folder_ / "out/trn_X_Y.txt"), "4 5\n0:1\n0:1 1:1 2:1\n4:1\n3:1\n");
    EXPECT_EQ(read(folder_ / "out/trn_ids.txt"), "n00000002\nn00000003\nv00000001\nv00000002\n");
    EXPECT_EQ(read(folder_ / "out/tst_X_Y.txt"), "0 5\n");

    options.overwrite = true;
    options.widest_label = 0.2;  // of six texts: labels of two or more go
    EXPECT_EQ(write_wordnet(quiet(), folder_ / "dict", folder_ / "out", options).labels, 4);
    EXPECT_EQ(read(folder_ / "out/trn_X_Y.txt"), "3 4\n0:1 1:1\n3:1\n2:1\n");
}

TEST_F(Wordnet, BadDictionaries) {
    const auto import = [&] { write_wordnet(quiet(), folder_ / "dict", folder_ / "out"); };
    EXPECT_THROW(import(), DataError);
    write("dict/data.verb", "");
    for (const char* bad :
         {"00000001 03 n 01 animal 0 000\n", "00000001 03 n 05 animal 0 000 | x\n",
          "00000001 03 n zz animal 0 000 | x\n", "00000001 03 n 01 a 0 001 @ 00000009 n 0000 | x\n",
          "00000001 03 n 01 a 0 000 | x\n00000001 03 n 01 a 0 000 | x\n"}) {
        write("dict/data.noun", bad);
        EXPECT_THROW(import(), DataError) << bad;
    }
    EXPECT_FALSE(std::filesystem::exists(folder_ / "out"));
}

}  // namespace
}  // namespace elmo
