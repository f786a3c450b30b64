// Which requests make a batch, and what happens to those that do not fit or are late.
#include "serve/batch_queue.h"

#include <gtest/gtest.h>

#include <deque>
#include <future>

namespace elmo {
namespace {

using Clock = std::chrono::steady_clock;

// A queue whose batches wait until they are let go.
class Batches : public ::testing::Test {
  protected:
    std::vector<Outcome> answer(const std::vector<Job>& jobs) {
        std::unique_lock lock(mutex);
        std::vector<std::string> texts;
        for (const Job& job : jobs) texts.insert(texts.end(), job.texts.begin(), job.texts.end());
        batches.push_back(texts);
        changed.notify_all();
        changed.wait(lock, [&] { return open; });
        return std::vector<Outcome>(jobs.size());
    }
    Job job(std::vector<std::string> texts, std::int64_t top = 5) {
        Job job;
        job.texts = std::move(texts);
        job.question.top = top;
        job.deadline = Clock::now() + std::chrono::hours(1);
        job.done = [](Outcome) {};
        return job;
    }
    void wait_for_batches(std::size_t count) {
        std::unique_lock lock(mutex);
        changed.wait(lock, [&] { return batches.size() >= count; });
    }
    void let_go() {
        const std::lock_guard lock(mutex);
        open = true;
        changed.notify_all();
    }
    std::unique_ptr<BatchQueue> make(std::int64_t most) {
        return std::make_unique<BatchQueue>(
            most, 4, [this](const std::vector<Job>& jobs) { return answer(jobs); }, [](std::int64_t) {});
    }

    std::mutex mutex;
    std::condition_variable changed;
    bool open = false;
    using Texts = std::vector<std::string>;
    std::vector<Texts> batches;
};

TEST_F(Batches, HoldWhatCameMeanwhileAndGoesTogether) {
    auto queue = make(100);
    queue->add(job({"a"}));
    wait_for_batches(1);
    queue->add(job({"b"}));
    queue->add(job({"c", "d", "e", "f", "g", "h"}));  // more than a batch: by itself
    queue->add(job({"i"}, 7));                        // another question
    queue->add(job({"j", "k"}));
    queue->add(job({"l", "m"}));  // does not fit beside b, j and k
    EXPECT_EQ(queue->texts(), 12);
    let_go();
    queue.reset();  // answers all of them
    EXPECT_EQ(batches, (std::vector<Texts>{
                           {"a"}, {"b", "j", "k"}, {"c", "d", "e", "f", "g", "h"}, {"i"}, {"l", "m"}}));
}

TEST_F(Batches, AFullQueueTakesNoMore) {
    auto queue = make(2);
    EXPECT_TRUE(queue->add(job({"a", "b", "c"})));  // larger than the queue, and alone
    wait_for_batches(1);
    EXPECT_TRUE(queue->add(job({"d"})));
    EXPECT_TRUE(queue->add(job({"e"})));
    EXPECT_FALSE(queue->add(job({"f"})));
    EXPECT_EQ(queue->texts(), 2);
    let_go();
}

TEST_F(Batches, LateOnesAreToldSoAndFailuresAreThatOfAll) {
    auto queue = make(100);
    queue->add(job({"a"}));
    wait_for_batches(1);
    std::promise<Outcome> late;
    Job second = job({"b"});
    second.deadline = Clock::now();
    second.done = [&](Outcome outcome) { late.set_value(std::move(outcome)); };
    queue->add(std::move(second));
    let_go();
    EXPECT_THROW(std::rethrow_exception(late.get_future().get().error), TooLate);
    queue.reset();
    EXPECT_EQ(batches.size(), 1u);

    BatchQueue failing(
        100, 4, [](const std::vector<Job>&) -> std::vector<Outcome> { throw DeviceError("broken"); },
        [](std::int64_t) {});
    std::promise<Outcome> failed;
    Job third = job({"c"});
    third.done = [&](Outcome outcome) { failed.set_value(std::move(outcome)); };
    failing.add(std::move(third));
    EXPECT_THROW(std::rethrow_exception(failed.get_future().get().error), DeviceError);
}

// The thread of the batches hands over each batch once; who takes it divides it among the others.
TEST_F(Batches, OutcomesAreToldElsewhere) {
    std::mutex of_works;
    std::condition_variable came;
    std::deque<std::function<void()>> works;
    Elsewhere elsewhere;
    elsewhere.threads = 2;
    elsewhere.run = [&](std::function<void()> work) {
        const std::lock_guard lock(of_works);
        works.push_back(std::move(work));
        came.notify_all();
    };
    const auto take = [&] {
        std::unique_lock lock(of_works);
        came.wait(lock, [&] { return !works.empty(); });
        const auto work = std::move(works.front());
        works.pop_front();
        return work;
    };
    std::int64_t texts = 0;
    BatchQueue queue(
        100, 4,
        [&](const std::vector<Job>& jobs) {
            answer(jobs);
            std::vector<Outcome> outcomes(jobs.size());
            for (Outcome& outcome : outcomes) outcome.first = texts++;
            return outcomes;
        },
        [](std::int64_t) {}, elsewhere);
    std::vector<std::int64_t> told;
    const auto add = [&] {
        Job next = job({"a"});
        next.done = [&](Outcome outcome) { told.push_back(outcome.first); };
        queue.add(std::move(next));
    };
    add();
    wait_for_batches(1);
    for (int i = 0; i < 3; ++i) add();
    let_go();
    wait_for_batches(2);  // nobody was told yet
    take()();
    EXPECT_EQ(told, (std::vector<std::int64_t>{0}));
    take()();  // two of three, and the third for another thread
    EXPECT_EQ(told, (std::vector<std::int64_t>{0, 1, 2}));
    take()();
    EXPECT_EQ(told, (std::vector<std::int64_t>{0, 1, 2, 3}));
}

}  // namespace
}  // namespace elmo
