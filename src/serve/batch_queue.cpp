#include "serve/batch_queue.h"

#include <iterator>

namespace elmo {

BatchQueue::BatchQueue(std::int64_t most_texts, std::int64_t batch_size, Answer answer,
                       std::function<void(std::int64_t)> batched)
    : most_texts_(most_texts),
      batch_size_(batch_size),
      answer_(std::move(answer)),
      batched_(std::move(batched)),
      worker_([this] { work(); }) {}

BatchQueue::~BatchQueue() {
    {
        const std::lock_guard lock(mutex_);
        stopping_ = true;
    }
    came_.notify_one();
    worker_.join();
}

bool BatchQueue::add(Job job) {
    {
        const std::lock_guard lock(mutex_);
        // A request that is larger than the queue is taken when nothing else waits.
        if (texts_ + job.size() > most_texts_ && (texts_ > 0 || most_texts_ == 0)) return false;
        texts_ += job.size();
        jobs_.push_back(std::move(job));
    }
    came_.notify_one();
    return true;
}

std::int64_t BatchQueue::texts() const {
    const std::lock_guard lock(mutex_);
    return texts_;
}

// The oldest job that is not late, and those that go with it, as many as fit.
std::vector<Job> BatchQueue::next_batch(std::unique_lock<std::mutex>& lock, std::vector<Job>& late) {
    came_.wait(lock, [&] { return stopping_ || !jobs_.empty(); });
    const auto now = std::chrono::steady_clock::now();
    std::vector<Job> batch;
    std::int64_t size = 0;
    for (auto job = jobs_.begin(); job != jobs_.end();) {
        const bool is_late = job->deadline <= now;
        const bool fits =
            batch.empty() || (batch.front().goes_with(*job) && size + job->size() <= batch_size_);
        if (!is_late && !fits) {
            ++job;
            continue;
        }
        texts_ -= job->size();
        if (!is_late) size += job->size();
        (is_late ? late : batch).push_back(std::move(*job));
        job = jobs_.erase(job);
        if (size >= batch_size_) break;
    }
    return batch;
}

void BatchQueue::work() {
    for (;;) {
        std::vector<Job> late, batch;
        {
            std::unique_lock lock(mutex_);
            batch = next_batch(lock, late);
            if (batch.empty() && late.empty()) return;  // stopping
        }
        for (Job& job : late) {
            Outcome outcome;
            outcome.error =
                std::make_exception_ptr(TooLate("the request waited longer than it may; try again"));
            job.done(std::move(outcome));
        }
        if (batch.empty()) continue;
        std::int64_t size = 0;
        for (const Job& job : batch) size += job.size();
        if (size > 0) batched_(size);
        std::vector<Outcome> outcomes;
        try {
            outcomes = answer_(batch);
        } catch (...) {
            outcomes.assign(batch.size(), {});
            for (Outcome& outcome : outcomes) outcome.error = std::current_exception();
        }
        for (std::size_t i = 0; i < batch.size(); ++i) batch[i].done(std::move(outcomes[i]));
    }
}

std::vector<Outcome> answer_batch(const std::vector<Job>& jobs) {
    const Job& first = jobs.front();
    Predictor& predictor = first.run->predictor;
    std::vector<Outcome> outcomes(jobs.size());
    if (first.kind == Job::Kind::kExplain) {
        outcomes.front().explanation = explain_answers(predictor, first.texts.front(), first.question);
        return outcomes;
    }
    if (first.kind == Job::Kind::kNearest) {
        const std::int64_t label = first.question.labels.front();
        outcomes.front().label = predictor.label_info(label);
        outcomes.front().nearest = predictor.nearest_labels(label, first.question.top);
        return outcomes;
    }
    if (first.vectors.rows > 0) {
        outcomes.front().answers = predictor.predict_vectors(first.vectors, first.question);
        return outcomes;
    }
    std::vector<std::string> joined;
    if (jobs.size() > 1)
        for (const Job& job : jobs) joined.insert(joined.end(), job.texts.begin(), job.texts.end());
    const std::vector<std::string>& texts = jobs.size() > 1 ? joined : first.texts;
    if (first.kind == Job::Kind::kPredict) {
        auto answers = predictor.predict(texts, first.question);
        auto from = std::make_move_iterator(answers.begin());
        for (std::size_t i = 0; i < jobs.size(); from += jobs[i++].size())
            outcomes[i].answers.assign(from, from + jobs[i].size());
        return outcomes;
    }
    const Embeddings vectors = predictor.embed(texts);
    std::int64_t row = 0;
    for (std::size_t i = 0; i < jobs.size(); row += jobs[i++].size()) {
        Embeddings& part = outcomes[i].vectors;
        part.rows = jobs[i].size();
        part.width = vectors.width;
        part.values.assign(vectors.values.begin() + row * vectors.width,
                           vectors.values.begin() + (row + part.rows) * vectors.width);
    }
    return outcomes;
}

}  // namespace elmo
