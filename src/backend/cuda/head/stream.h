// A head in the host's memory: its rows pass through three slots of the device. While kernels work on one,
// the next rows are on their way into another, and those before go back from the third. Two streams carry the
// bytes beside the context's, and events order all three; the host waits for nothing.
#pragma once

#include "backend/cuda/device/context.h"

namespace elmo::cuda {

class HeadStream {
  public:
    explicit HeadStream(CudaContext& context) : context_(context) {}
    ~HeadStream();
    HeadStream(const HeadStream&) = delete;
    HeadStream& operator=(const HeadStream&) = delete;

    // Rows that a slot has room for, whole tiles of labels, where chunks have at most `chunk_rows`.
    static std::int64_t slot_rows(const Workload& workload, std::int64_t chunk_rows);
    // The slots, which live as long as the head: rows are on their way while other phases work.
    void reserve(Arena& arena, const Workload& workload);
    std::int64_t rows() const { return rows_; }

    // Rows of W and of its compensation, which may be empty, on the device; what is enqueued after this finds
    // them there.
    struct Rows {
        View weights, compensation;
    };
    Rows fetch(const View& weights, const View& compensation);
    // After the kernels that use what was fetched last: it goes back, or its slot is free.
    void store();
    void release();

    // Before others use host memory that rows go to and come from: the context's stream waits for what goes
    // back, and what comes next waits for that stream.
    void settle();

  private:
    struct Slot {
        Rows on_host, here;
        cudaEvent_t fetched = nullptr, used = nullptr, free = nullptr;
    };
    static constexpr int kSlots = 3;

    Slot& current() { return slots_[next_ == 0 ? kSlots - 1 : next_ - 1]; }

    CudaContext& context_;
    cudaStream_t to_device_ = nullptr, to_host_ = nullptr;
    cudaEvent_t settled_ = nullptr;
    bool touched_ = true;  // others have used the host's memory since rows were fetched last
    View memory_;
    std::int64_t rows_ = 0, compensation_rows_ = 0;
    Slot slots_[kSlots];
    int next_ = 0;
};

}  // namespace elmo::cuda
