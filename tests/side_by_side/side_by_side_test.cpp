// Two trainings and three predictors with different settings, in one process, on separate threads: each
// gives what it gives by itself, says what it has to say to its own sink, and leaves the OpenMP setting of
// its host.
#include <gtest/gtest.h>
#include <omp.h>

#include <algorithm>
#include <mutex>
#include <thread>

#include "elmo/elmo.h"
#include "train/tiny_data.h"

namespace elmo {
namespace {

using namespace test;

struct Listener {
    std::mutex mutex;
    std::vector<std::string> lines;

    Context context(int threads) {
        Sinks sinks;
        sinks.message = [this](Severity, std::string_view text) {
            const std::lock_guard lock(mutex);
            lines.emplace_back(text);
        };
        return Context({.threads = threads, .sinks = sinks});
    }
    bool heard(const std::string& part) {
        return std::any_of(lines.begin(), lines.end(),
                           [&](const std::string& line) { return line.find(part) != line.npos; });
    }
};

// What a run leaves, without times.
std::string weights_of(const std::string& run) {
    return read_text(run + "/last/model.safetensors") +
           read_text(run + "/last/head-00001-of-00001.safetensors");
}

class SideBySide : public ::testing::Test {
  protected:
    void SetUp() override {
        write_tiny_data(temp / "data");
        base = tiny_config(temp);
        base.steps = 30;
        base.threads = 0;  // those of the context
    }
    Config run_config(const std::string& name, const std::string& precision, std::int64_t batch) {
        Config config = base;
        config.out = temp / name;
        config.precision = precision;
        config.batch_size = batch;
        return config;
    }
    std::vector<std::int64_t> answers(Predictor& predictor) {
        std::vector<std::int64_t> labels;
        for (int row = 0; row < 40; ++row) {
            const std::string text = "the thing " + word_of(row % 37) + " number " + std::to_string(row);
            const auto found = predictor.predict({text});
            for (const Prediction& p : found[0]) labels.push_back(p.label);
        }
        return labels;
    }

    TempFolder temp;
    Config base;
};

TEST_F(SideBySide, TrainingsAndPredictorsDoNotNoticeEachOther) {
    Listener alone;
    const Config a = run_config("a", "bf16", 16), b = run_config("b", "e2m5", 32);
    train(alone.context(1), a);
    train(alone.context(1), b);
    Config three = base;
    three.out.clear();
    Predictor first(alone.context(1), a.out, three);
    const std::vector<std::int64_t> expected = answers(first);

    Listener of_a, of_b;
    Config a2 = a, b2 = b;
    a2.out = temp / "a2";
    b2.out = temp / "b2";
    const int omp_threads = omp_get_max_threads();
    int omp_after = 0;
    std::vector<std::vector<std::int64_t>> found(3);
    std::vector<std::thread> threads;
    threads.emplace_back([&] {
        const int before = omp_get_max_threads();
        train(of_a.context(2), a2);
        omp_after = omp_get_max_threads() - before;
    });
    threads.emplace_back([&] { train(of_b.context(3), b2); });
    for (int i = 0; i < 3; ++i)
        threads.emplace_back([&, i] {
            Listener mine;
            Config config = three;
            config.batch_size = 4 << i;
            Predictor predictor(mine.context(i + 1), a.out, config);
            found[static_cast<std::size_t>(i)] = answers(predictor);
        });
    for (std::thread& thread : threads) thread.join();

    EXPECT_EQ(weights_of(a2.out), weights_of(a.out));
    EXPECT_EQ(weights_of(b2.out), weights_of(b.out));
    for (const auto& labels : found) EXPECT_EQ(labels, expected);
    EXPECT_TRUE(of_a.heard("2 threads"));
    EXPECT_FALSE(of_a.heard("3 threads"));
    EXPECT_TRUE(of_b.heard("3 threads"));
    EXPECT_EQ(omp_after, 0);
    EXPECT_EQ(omp_get_max_threads(), omp_threads);
}

// The first was planned for one thread, the second for three; the first still answers.
TEST_F(SideBySide, PredictorsWithDifferentThreadsLiveSideBySide) {
    Listener listener;
    const Config a = run_config("a", "bf16", 16);
    train(listener.context(1), a);
    Config config = base;
    config.out.clear();
    config.threads = 1;
    Predictor one(listener.context(0), a.out, config);
    config.threads = 3;
    Predictor other(listener.context(0), a.out, config);
    EXPECT_EQ(answers(one), answers(other));
    EXPECT_EQ(answers(one), answers(one));
}

}  // namespace
}  // namespace elmo
