#include "backend/cuda/head/stream.h"

#include <algorithm>

#include "backend/cuda/head/shape.h"
#include "elmo/error.h"

namespace elmo::cuda {
namespace {

// Of a slot: a millisecond of a fast link, so that its launches and the first rows of a step cost little.
constexpr std::int64_t kSlotBytes = std::int64_t{64} << 20;

std::int64_t aligned(std::int64_t bytes) {
    return (bytes + Arena::kAlignment - 1) / Arena::kAlignment * Arena::kAlignment;
}

bool overlap(const View& a, const View& b) {
    const char *begin = static_cast<const char*>(a.data), *other = static_cast<const char*>(b.data);
    return a.bytes() > 0 && b.bytes() > 0 && begin < other + b.bytes() && other < begin + a.bytes();
}

void copy(const View& to, const View& from, cudaMemcpyKind kind, cudaStream_t stream) {
    if (from.bytes() > 0)
        check(cudaMemcpyAsync(to.data, from.data, static_cast<std::size_t>(from.bytes()), kind, stream),
              "moving rows of the head");
}

}  // namespace

HeadStream::~HeadStream() {
    if (to_device_ == nullptr) return;
    (void)cudaStreamSynchronize(to_device_);
    (void)cudaStreamSynchronize(to_host_);
    for (Slot& slot : slots_)
        for (cudaEvent_t event : {slot.fetched, slot.used, slot.free}) (void)cudaEventDestroy(event);
    (void)cudaEventDestroy(settled_);
    (void)cudaStreamDestroy(to_device_);
    (void)cudaStreamDestroy(to_host_);
}

std::int64_t HeadStream::slot_rows(const Workload& w, std::int64_t chunk_rows) {
    const std::int64_t bytes = w.head_row_bytes + (w.compensated > 0 ? 2 * w.width : 0);
    const std::int64_t tiles = kSlotBytes / (bytes * kLabelTile);
    return std::min(std::max<std::int64_t>(tiles, 1) * kLabelTile, chunk_rows);
}

void HeadStream::reserve(Arena& arena, const Workload& w) {
    rows_ = 0;
    if (w.head_row_bytes == 0 || w.labels == 0) return;
    const std::int64_t tiles = tiles_of(w.labels), chunks = std::clamp<std::int64_t>(w.chunks, 1, tiles);
    rows_ = slot_rows(w, (tiles + chunks - 1) / chunks * kLabelTile);
    compensation_rows_ = w.training ? std::min(w.compensated, rows_) : 0;
    memory_ = arena.allocate("scratch/head_rows_on_their_way", DType::kU8, kSlots,
                             aligned(rows_ * w.head_row_bytes) + aligned(compensation_rows_ * 2 * w.width));
    touched_ = true;
    if (arena.dry() || to_device_ != nullptr) return;
    check(cudaStreamCreateWithFlags(&to_device_, cudaStreamNonBlocking), "making a stream");
    check(cudaStreamCreateWithFlags(&to_host_, cudaStreamNonBlocking), "making a stream");
    check(cudaEventCreateWithFlags(&settled_, cudaEventDisableTiming), "making an event");
    for (Slot& slot : slots_)
        for (cudaEvent_t* event : {&slot.fetched, &slot.used, &slot.free})
            check(cudaEventCreateWithFlags(event, cudaEventDisableTiming), "making an event");
}

HeadStream::Rows HeadStream::fetch(const View& weights, const View& compensation) {
    if (weights.rows > rows_ || compensation.rows > compensation_rows_)
        throw DeviceError("head: more rows in the host's memory than were planned for");
    const int number = next_;
    next_ = (next_ + 1) % kSlots;
    Slot& slot = slots_[number];
    // What was here before has gone back, and so has everything before it.
    check(cudaStreamWaitEvent(to_device_, slot.free), "moving rows of the head");
    for (const Slot& other : slots_)  // later rows may be the same ones
        if (overlap(weights, other.on_host.weights) || overlap(compensation, other.on_host.compensation))
            check(cudaStreamWaitEvent(to_device_, other.free), "moving rows of the head");
    if (touched_) {
        check(cudaEventRecord(settled_, context_.stream()), "moving rows of the head");
        check(cudaStreamWaitEvent(to_device_, settled_), "moving rows of the head");
        touched_ = false;
    }
    slot.on_host = {weights, compensation};
    slot.here = slot.on_host;
    slot.here.weights.data = static_cast<char*>(memory_.data) + number * memory_.cols;
    slot.here.compensation.data =
        static_cast<char*>(slot.here.weights.data) +
        (memory_.cols - aligned(compensation_rows_ * compensation.cols * size_of(compensation.dtype)));
    copy(slot.here.weights, weights, cudaMemcpyHostToDevice, to_device_);
    copy(slot.here.compensation, compensation, cudaMemcpyHostToDevice, to_device_);
    check(cudaEventRecord(slot.fetched, to_device_), "moving rows of the head");
    check(cudaStreamWaitEvent(context_.stream(), slot.fetched), "moving rows of the head");
    return slot.here;
}

void HeadStream::store() {
    Slot& slot = current();
    check(cudaEventRecord(slot.used, context_.stream()), "moving rows of the head");
    check(cudaStreamWaitEvent(to_host_, slot.used), "moving rows of the head");
    copy(slot.on_host.weights, slot.here.weights, cudaMemcpyDeviceToHost, to_host_);
    copy(slot.on_host.compensation, slot.here.compensation, cudaMemcpyDeviceToHost, to_host_);
    check(cudaEventRecord(slot.free, to_host_), "moving rows of the head");
}

void HeadStream::release() {
    check(cudaEventRecord(current().free, context_.stream()), "moving rows of the head");
}

void HeadStream::settle() {
    touched_ = true;
    if (to_host_ == nullptr) return;
    check(cudaEventRecord(settled_, to_host_), "moving rows of the head");
    check(cudaStreamWaitEvent(context_.stream(), settled_), "moving rows of the head");
}

}  // namespace elmo::cuda
