// Reading with several threads: blocks of records are read in order, parsed in parallel and handed on in
// order, so that what comes out does not depend on the number of threads. While some blocks are parsed the
// next ones are read (and inflated) by a thread of their own. A bounded number of blocks is in memory at any
// time.
#pragma once

#include <algorithm>
#include <cstdint>
#include <exception>
#include <functional>
#include <future>
#include <type_traits>
#include <vector>

#include "base/parallel.h"
#include "elmo/context.h"
#include "sources/records/record_reader.h"

namespace elmo {

// parse(block, result) runs on any thread and must clear what it fills: results are used again and again.
template <class Result>
class BlockPipeline {
  public:
    using Parse = std::function<void(const RecordBlock&, Result&)>;

    BlockPipeline(const Context& context, RecordReader& reader, Parse parse)
        : context_(context), reader_(reader), parse_(std::move(parse)) {
        for (Group& group : groups_) group.slots.resize(std::max(1, 2 * context.num_threads()));
    }
    ~BlockPipeline() {
        if (reading_.valid()) reading_.wait();
    }
    BlockPipeline(const BlockPipeline&) = delete;
    BlockPipeline& operator=(const BlockPipeline&) = delete;

    // Bytes of the file taken when the blocks handed out last were read; the reader itself may be ahead.
    std::int64_t bytes_read() const { return groups_[current_].bytes_read; }

    // The result of the next block in file order, valid until the next call; nullptr at the end. Of several
    // errors the one of the earliest row is thrown.
    Result* next() {
        if (next_ == groups_[current_].filled) refill();
        Group& group = groups_[current_];
        if (next_ == group.filled) {
            if (group.error) std::rethrow_exception(group.error);
            return nullptr;
        }
        Slot& slot = group.slots[next_++];
        if (slot.error) std::rethrow_exception(slot.error);
        return &slot.result;
    }

  private:
    struct Slot {
        RecordBlock block;
        Result result;
        std::exception_ptr error;
    };
    // Blocks that are read together and then parsed together.
    struct Group {
        std::vector<Slot> slots;
        std::int64_t filled = 0;
        std::int64_t bytes_read = 0;
        std::exception_ptr error;  // of reading on; what was read before it comes first
    };

    void read(Group& group) {
        group.filled = 0;
        group.error = nullptr;
        try {
            while (group.filled < static_cast<std::int64_t>(group.slots.size()) &&
                   reader_.next_block(group.slots[group.filled].block))
                ++group.filled;
        } catch (...) {
            group.error = std::current_exception();
        }
        group.bytes_read = reader_.bytes_read();
    }

    void refill() {
        if (ended_) {
            groups_[current_].filled = next_;
            return;
        }
        if (reading_.valid())
            reading_.get();
        else
            read(groups_[1 - current_]);
        current_ = 1 - current_;
        next_ = 0;
        Group& group = groups_[current_];
        ended_ = group.error != nullptr || group.filled < static_cast<std::int64_t>(group.slots.size());
        if (!ended_) reading_ = std::async(std::launch::async, [this] { read(groups_[1 - current_]); });
        context_.threads().parallel_for(group.filled, [&](std::int64_t i) {
            group.slots[i].error = nullptr;
            try {
                parse_(group.slots[i].block, group.slots[i].result);
            } catch (...) {
                group.slots[i].error = std::current_exception();
            }
        });
    }

    Context context_;
    RecordReader& reader_;
    Parse parse_;
    Group groups_[2];
    int current_ = 0;
    bool ended_ = false;  // the current group is the last
    std::int64_t next_ = 0;
    std::future<void> reading_;
};

// take(result), or take(result, bytes of the file read), on this thread for every block, in file order.
template <class Result, class Parse, class Take>
void for_each_block(const Context& context, RecordReader& reader, const Parse& parse, const Take& take) {
    BlockPipeline<Result> pipeline(context, reader, parse);
    while (Result* result = pipeline.next()) {
        context.leave_if_stopped();
        if constexpr (std::is_invocable_v<Take, Result&, std::int64_t>)
            take(*result, pipeline.bytes_read());
        else
            take(*result);
    }
}

}  // namespace elmo
