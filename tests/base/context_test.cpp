// A context: its sinks, its stop flag, its threads; and that two of them do not affect each other.
#include "elmo/context.h"

#include <gtest/gtest.h>

#include <stdexcept>
#include <string>
#include <vector>

#include "base/progress.h"

namespace elmo {
namespace {

struct Heard {
    std::vector<std::string> messages;
    std::vector<std::int64_t> done;
    ProgressReport::State last = ProgressReport::State::kRunning;

    Context context() {
        Sinks sinks;
        sinks.message = [this](Severity severity, std::string_view text) {
            messages.push_back((severity == Severity::kWarning ? "warning " : "") + std::string(text));
        };
        sinks.progress = [this](const ProgressReport& report) {
            done.push_back(report.done);
            last = report.state;
        };
        sinks.progress_every = std::chrono::milliseconds(0);
        return Context({.threads = 1, .sinks = sinks});
    }
};

TEST(Context, MessagesReachTheirOwnSinkOnly) {
    Heard a, b;
    a.context().info("one");
    b.context().warning("two");
    EXPECT_EQ(a.messages, std::vector<std::string>{"one"});
    EXPECT_EQ(b.messages, std::vector<std::string>{"warning two"});
}

TEST(Context, ProgressIsReportedUntilItEnds) {
    Heard heard;
    {
        Progress progress(heard.context(), "counting", 10, "things");
        progress.update(3);
        progress.finish();
    }
    EXPECT_EQ(heard.done, (std::vector<std::int64_t>{3, 10}));
    EXPECT_EQ(heard.last, ProgressReport::State::kEnded);
}

TEST(Context, ProgressThatAnExceptionEndsIsAbandoned) {
    Heard heard;
    EXPECT_THROW(
        {
            const Progress progress(heard.context(), "counting", 10, "things");
            throw std::runtime_error("no");
        },
        std::runtime_error);
    EXPECT_EQ(heard.last, ProgressReport::State::kAbandoned);
}

TEST(Context, StopIsAskedForByTheFlagItWasGiven) {
    std::atomic<bool> stop{false};
    const Context context = Context({.sinks = silent()}).with_stop(stop);
    EXPECT_FALSE(context.stop_requested());
    stop = true;
    EXPECT_TRUE(context.stop_requested());
    EXPECT_FALSE(Context({.sinks = silent()}).stop_requested());
}

TEST(Context, ThreadsBelongToIt) {
    const Context three({.threads = 3, .sinks = silent()});
    const Context five = three.with_threads(5);
    EXPECT_EQ(three.num_threads(), 3);
    EXPECT_EQ(five.num_threads(), 5);
    EXPECT_EQ(three.with_threads(0).num_threads(), 3);
    EXPECT_EQ(&three.threads(), &three.with_threads(3).threads());
}

}  // namespace
}  // namespace elmo
