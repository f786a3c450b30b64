#include "ranks/exchange_thread.h"

namespace elmo {

ExchangeThread::~ExchangeThread() {
    {
        const std::lock_guard lock(mutex_);
        closing_ = true;
    }
    changed_.notify_all();
    thread_.join();
}

void ExchangeThread::start(std::vector<Ranks::Outgoing> send, std::vector<Ranks::Incoming> receive) {
    {
        const std::lock_guard lock(mutex_);
        waiting_.push_back({std::move(send), std::move(receive)});
    }
    changed_.notify_all();
}

void ExchangeThread::finish(std::int64_t number) {
    wait(number);
    const std::lock_guard lock(mutex_);
    if (failed_) std::rethrow_exception(failed_);
}

void ExchangeThread::wait(std::int64_t number) noexcept {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return failed_ || ended_ >= number; });
}

void ExchangeThread::run() {
    std::unique_lock lock(mutex_);
    for (;;) {
        changed_.wait(lock, [&] { return closing_ || !waiting_.empty(); });
        if (waiting_.empty()) return;
        const Messages messages = std::move(waiting_.front());
        waiting_.pop_front();
        lock.unlock();
        std::exception_ptr failed;
        try {
            ranks_.exchange(messages.send, messages.receive);
        } catch (...) {
            failed = std::current_exception();
        }
        lock.lock();
        ++ended_;
        failed_ = failed;
        changed_.notify_all();
        if (failed_) return;
    }
}

}  // namespace elmo
