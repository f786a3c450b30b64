// Reading with several threads: blocks of records are read in order, parsed in parallel and handed on in
// order, so that what comes out does not depend on the number of threads. A bounded number of blocks is in
// memory at any time.
#pragma once

#include <algorithm>
#include <cstdint>
#include <exception>
#include <functional>
#include <vector>

#include "base/parallel.h"
#include "data/record_reader.h"

namespace elmo {

// parse(block, result) runs on any thread and must clear what it fills: results are used again and again.
template <class Result>
class BlockPipeline {
  public:
    using Parse = std::function<void(const RecordBlock&, Result&)>;

    BlockPipeline(RecordReader& reader, Parse parse)
        : reader_(reader), parse_(std::move(parse)), slots_(std::max(1, 2 * num_threads())) {}

    // The result of the next block in file order, valid until the next call; nullptr at the end. Of several
    // errors the one of the earliest row is thrown.
    Result* next() {
        if (next_ == filled_) refill();
        if (next_ == filled_) {
            if (read_error_) std::rethrow_exception(read_error_);
            return nullptr;
        }
        Slot& slot = slots_[next_++];
        if (slot.error) std::rethrow_exception(slot.error);
        return &slot.result;
    }

  private:
    struct Slot {
        RecordBlock block;
        Result result;
        std::exception_ptr error;
    };

    void refill() {
        next_ = filled_ = 0;
        if (read_error_) return;
        try {
            while (filled_ < static_cast<std::int64_t>(slots_.size()) &&
                   reader_.next_block(slots_[filled_].block))
                ++filled_;
        } catch (...) {
            read_error_ = std::current_exception();  // what was read before it comes first
        }
        parallel_for(filled_, [&](std::int64_t i) {
            try {
                parse_(slots_[i].block, slots_[i].result);
            } catch (...) {
                slots_[i].error = std::current_exception();
            }
        });
    }

    RecordReader& reader_;
    Parse parse_;
    std::vector<Slot> slots_;
    std::int64_t next_ = 0, filled_ = 0;
    std::exception_ptr read_error_;
};

// take(result) on this thread for every block, in file order.
template <class Result, class Parse, class Take>
void for_each_block(RecordReader& reader, const Parse& parse, const Take& take) {
    BlockPipeline<Result> pipeline(reader, parse);
    while (Result* result = pipeline.next()) take(*result);
}

}  // namespace elmo
