#include "metrics/conventions.h"

#include <gtest/gtest.h>

#include "elmo/error.h"
#include "metrics/frequency_groups.h"
#include "metrics/metrics.h"

namespace elmo {
namespace {

TEST(Conventions, AAndBByNameForEachProject) {
    struct Case {
        const char *name, *like;
        double a, b;
        bool augmented;
    };
    for (const Case& c : std::vector<Case>{{"LF-AmazonTitles-131K", "", 0.6, 2.6, false},
                                           {"LF-AmazonTitles-131K", "pyxclib", 0.6, 2.6, false},
                                           {"LF-AmazonTitles-131K", "renee", 0.6, 2.6, true},
                                           {"amazon670k", "elmo", 0.6, 2.6, false},
                                           {"Wikipedia-500K", "", 0.5, 0.4, false},
                                           {"wiki500k", "", 0.5, 0.4, false},
                                           {"WikiLSHTC-325K", "pyxclib", 0.5, 0.4, false},
                                           {"Wiki10-31K", "", 0.55, 1.5, false},
                                           {"LF-WikiSeeAlso-320K", "", 0.55, 1.5, false},
                                           {"LF-WikiSeeAlso-320K", "pyxclib", 0.55, 1.5, false},
                                           {"LF-WikiSeeAlso-320K", "renee", 0.5, 0.4, true},
                                           {"lf_wikiseealso_320k", "elmo", 0.5, 0.4, true},
                                           {"LF-Paper2Keywords-8.6M", "", 0.55, 1.5, false},
                                           {"LF-Paper2Keywords-8.6M", "elmo", 0.5, 0.4, true},
                                           {"EURLex-4K", "renee", 0.55, 1.5, false},
                                           {"EURLex-4K", "elmo", 0.6, 2.6, false}}) {
        const PropensityRule rule = propensity_rule(c.name, c.like, -1, -1, "auto");
        EXPECT_EQ(rule.a, c.a) << c.name << " " << c.like;
        EXPECT_EQ(rule.b, c.b) << c.name << " " << c.like;
        EXPECT_EQ(rule.augmented, c.augmented) << c.name << " " << c.like;
        EXPECT_NE(rule.source.find(c.name), std::string::npos) << rule.source;
        EXPECT_NE(rule.source.find(c.like), std::string::npos) << rule.source;
    }
}

TEST(Conventions, WhatIsGivenBeatsTheName) {
    const PropensityRule rule = propensity_rule("LF-AmazonTitles-131K", "renee", 0.55, 1.5, "plain");
    EXPECT_EQ(rule.a, 0.55);
    EXPECT_EQ(rule.source, "given");
    EXPECT_FALSE(rule.augmented);
    EXPECT_TRUE(propensity_rule("tickets", "", -1, -1, "augmented").augmented);
    EXPECT_THROW(propensity_rule("x", "xclib", -1, -1, "auto"), ConfigError);
    EXPECT_THROW(propensity_rule("x", "", 0.5, -1, "auto"), ConfigError);
    EXPECT_THROW(propensity_rule("x", "", -1, -1, "all"), ConfigError);
}

TEST(Conventions, ThePapersCodeFiltersLabelFeatureSetsAlone) {
    EXPECT_TRUE(filters("LF-AmazonTitles-131K", "elmo"));
    EXPECT_FALSE(filters("Amazon-670K", "elmo"));
    EXPECT_TRUE(filters("Amazon-670K", "renee"));
    EXPECT_TRUE(filters("Amazon-670K", ""));
}

TEST(FrequencyGroups, CutsByHand) {
    // 30 positives: 12 | 6 6 | 3 2 1 0. A third is 10 (the 12), two thirds are 20 (12 + 6 + 6).
    const std::vector<std::int64_t> counts = {1, 6, 12, 0, 6, 3, 2};
    const FrequencyCuts cuts = frequency_cuts(counts);
    EXPECT_EQ(cuts.head, 12);
    EXPECT_EQ(cuts.torso, 6);
    EXPECT_EQ(frequency_cuts(std::vector<std::int64_t>{4, 4, 4}).head, 4);
    EXPECT_EQ(frequency_cuts(std::vector<std::int64_t>{4, 4, 4}).group_of(4), 0);
    EXPECT_EQ(frequency_cuts(std::vector<std::int64_t>{0, 0}).group_of(0), 0);
    EXPECT_EQ(frequency_cuts({}).head, 0);
    // More than a third of the positives in labels of one row: these are tail, the head is not all.
    const FrequencyCuts rare = frequency_cuts(std::vector<std::int64_t>{4, 2, 1, 1, 1, 1, 1, 0});
    EXPECT_EQ(rare.head, 4);
    EXPECT_EQ(rare.torso, 2);
    EXPECT_EQ(frequency_cuts(std::vector<std::int64_t>{2, 1, 1, 1, 1, 1, 1, 1}).group_of(1), 2);

    GroupMetrics metrics({1, 3}, counts, static_cast<std::int64_t>(counts.size()));
    const std::vector<ScoredLabel> first = {{9, 2}, {8, 1}, {7, 3}, {6, 5}}, second = {{9, 6}, {8, 0}};
    metrics.add_row(first, std::vector<std::int64_t>{1, 2, 4, 5});  // 2 (head) and 1 (torso) hit, 5 is fourth
    metrics.add_row(second, std::vector<std::int64_t>{0});          // 0 (tail) hits second
    const auto groups = metrics.groups();
    EXPECT_EQ(groups[0].name, "head");
    EXPECT_EQ(groups[0].labels, 1);
    EXPECT_EQ(groups[1].labels, 2);
    EXPECT_EQ(groups[2].labels, 4);
    EXPECT_EQ(groups[2].least, 0);
    EXPECT_EQ(groups[2].most, 3);
    EXPECT_EQ(groups[1].positives, 2);
    EXPECT_DOUBLE_EQ(groups[0].precision[0], 0.5);
    EXPECT_DOUBLE_EQ(groups[1].precision[0], 0);
    EXPECT_DOUBLE_EQ(groups[0].precision[1], 1.0 / 6);
    EXPECT_DOUBLE_EQ(groups[1].precision[1], 1.0 / 6);
    EXPECT_DOUBLE_EQ(groups[2].precision[1], 1.0 / 6);
    EXPECT_DOUBLE_EQ(groups[0].recall[1], 1);
    EXPECT_DOUBLE_EQ(groups[1].recall[1], 0.5);
    EXPECT_DOUBLE_EQ(groups[2].recall[1], 0.5);  // 5 and 0 are true, 0 is found
}

}  // namespace
}  // namespace elmo
