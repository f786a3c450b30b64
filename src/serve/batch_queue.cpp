#include "serve/batch_queue.h"

#include <algorithm>

namespace elmo {

BatchQueue::BatchQueue(std::int64_t most_texts, std::int64_t batch_size, Answer answer,
                       std::function<void(std::int64_t)> batched, Elsewhere elsewhere)
    : most_texts_(most_texts),
      batch_size_(batch_size),
      answer_(std::move(answer)),
      batched_(std::move(batched)),
      elsewhere_(std::move(elsewhere)),
      worker_([this] { work(); }) {}

BatchQueue::~BatchQueue() {
    {
        const std::lock_guard lock(mutex_);
        stopping_ = true;
    }
    came_.notify_one();
    worker_.join();
}

// A request that is larger than the queue is taken when nothing else waits.
bool BatchQueue::room_for(std::int64_t texts) const {
    return texts_ + texts <= most_texts_ || (texts_ == 0 && most_texts_ > 0);
}

bool BatchQueue::has_room(std::int64_t texts) const {
    const std::lock_guard lock(mutex_);
    return room_for(texts);
}

bool BatchQueue::add(Job job) {
    {
        const std::lock_guard lock(mutex_);
        if (!room_for(job.size())) return false;
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
        if (!late.empty()) {
            Outcome outcome;
            outcome.error =
                std::make_exception_ptr(TooLate("the request waited longer than it may; try again"));
            const std::size_t count = late.size();
            tell(std::move(late), std::vector<Outcome>(count, outcome));
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
        tell(std::move(batch), std::move(outcomes));
    }
}

// A share for each of the other threads. One of them wakes the others: that takes time too.
void BatchQueue::tell(std::vector<Job> jobs, std::vector<Outcome> outcomes) const {
    struct Told {
        std::vector<Job> jobs;
        std::vector<Outcome> outcomes;
        void tell(std::size_t first, std::size_t last) {
            for (std::size_t i = first; i < std::min(last, jobs.size()); ++i)
                jobs[i].done(std::move(outcomes[i]));
        }
    };
    const auto threads = static_cast<std::size_t>(elsewhere_.threads);
    const std::size_t share = (jobs.size() + threads - 1) / threads;
    const auto told = std::make_shared<Told>(Told{std::move(jobs), std::move(outcomes)});
    elsewhere_.run([told, share, run = elsewhere_.run] {
        for (std::size_t first = share; first < told->jobs.size(); first += share)
            run([told, first, share] { told->tell(first, first + share); });
        told->tell(0, share);
    });
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
        outcomes.front().rankings = predictor.rank(first.vectors, first.question);
        return outcomes;
    }
    if (first.kind == Job::Kind::kPredict) {
        TokenizedTexts joined;
        if (jobs.size() > 1 || !first.texts.empty())
            for (const Job& job : jobs) {
                joined.append(job.tokens);
                if (!job.texts.empty()) joined.append(predictor.tokenize(job.texts));
            }
        const auto rankings = predictor.rank(joined.size() > 0 ? joined : first.tokens, first.question);
        std::int64_t text = 0;
        for (std::size_t i = 0; i < jobs.size(); text += jobs[i++].size()) {
            outcomes[i].rankings = rankings;
            outcomes[i].first = text;
        }
        return outcomes;
    }
    std::vector<std::string> joined;
    if (jobs.size() > 1)
        for (const Job& job : jobs) joined.insert(joined.end(), job.texts.begin(), job.texts.end());
    const std::vector<std::string>& texts = jobs.size() > 1 ? joined : first.texts;
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
