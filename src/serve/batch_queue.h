// Requests wait here for a run and are answered in batches: whatever has come while the last batch ran is the
// next one, so a lone request never waits for company. The queue is bounded.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "elmo/error.h"
#include "elmo/explain.h"
#include "elmo/predictor.h"

namespace elmo {

// A run as one checkpoint has it.
struct LoadedRun {
    Predictor predictor;
    std::string checkpoint;  // its hash
};

struct Outcome {
    std::shared_ptr<const Rankings> rankings;  // of the whole batch
    std::int64_t first = 0;                    // the job's first text among them
    Embeddings vectors;
    Explanation explanation;
    LabelInfo label;  // the first one of the question, and those that are like it
    std::vector<NearLabel> nearest;
    std::exception_ptr error;  // none of these, if set
};

// What a request asks of a run.
struct Job {
    enum class Kind { kPredict, kEmbed, kExplain, kNearest };

    Kind kind = Kind::kPredict;
    std::shared_ptr<LoadedRun> run;  // which answers it, also if a newer one comes meanwhile
    std::vector<std::string> texts;
    TokenizedTexts tokens = {};  // in the place of texts to predict, as vectors are
    Embeddings vectors = {};
    Question question;
    std::chrono::steady_clock::time_point deadline;
    std::function<void(Outcome)> done;  // called once

    std::int64_t size() const {
        return static_cast<std::int64_t>(texts.size()) + tokens.size() + vectors.rows;
    }
    // Whether they can be one batch.
    bool goes_with(const Job& other) const {
        return kind == other.kind && (kind == Kind::kPredict || kind == Kind::kEmbed) && vectors.rows == 0 &&
               other.vectors.rows == 0 && run == other.run && question == other.question;
    }
};

// It waited longer than it may.
class TooLate : public Error {
  public:
    using Error::Error;
};

// Threads that tell jobs their outcomes, so that the queue's own takes the next batch at once.
struct Elsewhere {
    std::function<void(std::function<void()> work)> run = [](const auto& work) { work(); };
    int threads = 1;
};

class BatchQueue {
  public:
    // Up to `most_texts` wait; a batch has up to `batch_size` texts, or is one request. `answer` gives the
    // outcomes of a batch, one per job; what it throws is the outcome of all. `batched` hears how many texts
    // each batch has.
    using Answer = std::function<std::vector<Outcome>(const std::vector<Job>& jobs)>;
    BatchQueue(std::int64_t most_texts, std::int64_t batch_size, Answer answer,
               std::function<void(std::int64_t texts)> batched, Elsewhere elsewhere = {});
    ~BatchQueue();  // answers what is there

    // Whether so many texts would be taken now.
    bool has_room(std::int64_t texts) const;
    // False if there is no room.
    bool add(Job job);
    std::int64_t texts() const;  // that wait

  private:
    void work();
    bool room_for(std::int64_t texts) const;
    void tell(std::vector<Job> jobs, std::vector<Outcome> outcomes) const;
    std::vector<Job> next_batch(std::unique_lock<std::mutex>& lock, std::vector<Job>& late);

    const std::int64_t most_texts_, batch_size_;
    const Answer answer_;
    const std::function<void(std::int64_t)> batched_;
    const Elsewhere elsewhere_;
    mutable std::mutex mutex_;
    std::condition_variable came_;
    std::deque<Job> jobs_;
    std::int64_t texts_ = 0;
    bool stopping_ = false;
    std::thread worker_;
};

// The outcomes of a batch by its run.
std::vector<Outcome> answer_batch(const std::vector<Job>& jobs);

}  // namespace elmo
