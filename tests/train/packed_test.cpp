// A run with weights of 6 or 4 bits is the run that simulates them: the same encoder, the same weights, the
// same answers, in a head of the size that was promised.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <tuple>

#include "elmo/elmo.h"
#include "elmo/messages.h"
#include "formats/safetensors.h"
#include "model/head/head.h"
#include "quiet.h"
#include "tested_device.h"
#include "train/tiny_data.h"

namespace elmo {
namespace {

using namespace test;

TEST(Packed, ARunEqualsTheSimulatedOne) {
    TempFolder temp;
    write_tiny_data(temp / "data");
    const std::atomic<bool> stop{false};
    for (const auto& [precision, simulated, bits] :
         {std::tuple("e2m3", "exmy:2,3,row", 6), std::tuple("e2m1", "exmy:2,1,row", 4)}) {
        SCOPED_TRACE(precision);
        Config config = tiny_config(temp);
        config.device = kTestedDevice;
        config.head_noise = "steps";
        // Hopper's kernels take packed weights and no simulated ones, and add in another order; compensated
        // rows with this noise they do not take either.
        if (kTestsGpu) config.head_kahan = "20%";
        config.steps = 140;  // rows may go down at step 128
        config.out = temp / precision;
        config.precision = precision;
        const TrainResult packed = train(quiet().with_stop(stop), config);
        Config wide = config;
        wide.out = temp / (std::string(precision) + "-simulated");
        wide.precision = simulated;
        wide.chunks = 1;
        const TrainResult expected = train(quiet().with_stop(stop), wide);
        EXPECT_EQ(packed.saturations, expected.saturations);
        EXPECT_GT(packed.saturations, 0) << "no exponent moved";
        EXPECT_EQ(packed.best_score, expected.best_score);

        const std::string head = "/last/head-00001-of-00001.safetensors";
        const SafeTensors a = SafeTensors::open(config.out + head), b = SafeTensors::open(wide.out + head);
        const std::int64_t labels = b.at("weight").shape[0];
        EXPECT_EQ(static_cast<std::int64_t>(a.at("weight").data.size()), labels * config.width * bits / 8);
        EXPECT_TRUE(std::ranges::equal(a.at("row_exponents").data, b.at("row_exponents").data));
        std::vector<std::int64_t> rows(static_cast<std::size_t>(labels));
        std::iota(rows.begin(), rows.end(), 0);
        const auto w = read_head_rows(std::filesystem::path(config.out + "/last"), rows),
                   v = read_head_rows(std::filesystem::path(wide.out + "/last"), rows);
        ASSERT_EQ(w.size(), v.size());
        EXPECT_EQ(std::memcmp(w.data(), v.data(), w.size() * sizeof(float)), 0);
        for (const char* name : {"/last/model.safetensors", "/last/optimizer.safetensors"})
            EXPECT_TRUE(read_text(config.out + name) == read_text(wide.out + name)) << name;
        const Evaluation scores = evaluate(quiet(), config.out, config),
                         others = evaluate(quiet(), wide.out, wide);
        for (const char* score : {"P@1", "P@3", "P@5"}) EXPECT_EQ(scores.get(score), others.get(score));
    }
}

}  // namespace
}  // namespace elmo
