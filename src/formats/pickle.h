// What torch.save writes with Python's pickle, read without executing anything (formats/torch_file.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace elmo {

// A value of a pickle. Values refer to one another by their place in Pickle::values, so that no nesting is
// too deep.
struct PickleValue {
    enum class Kind { kNone, kNumber, kText, kFunction, kTuple, kList, kDict, kStorage, kTensor };
    Kind kind = Kind::kNone;
    std::int64_t number = 0;               // kNumber; kStorage: its elements; kTensor: the first element
    std::string_view text = {};            // kText; the name of a kFunction; the type of a kStorage
    std::string_view key = {};             // of a kStorage; the module of a kFunction
    std::int32_t storage = -1;             // kTensor
    std::vector<std::int32_t> items = {};  // kTuple, kList; kDict: key, value, key, value ...
    std::vector<std::int64_t> shape = {}, strides = {};  // kTensor
};

class Pickle {
  public:
    // `bytes` must outlive it. Messages start with `name`.
    Pickle(std::string_view bytes, std::string name) : bytes_(bytes), name_(std::move(name)) {}

    // Reads up to the end of one pickle; further calls read the next. DataError for damage, an unknown
    // instruction, more than a million values, or a call that would execute something.
    std::int32_t read();
    const PickleValue& operator[](std::int32_t value) const {
        return values_[static_cast<std::size_t>(value)];
    }
    std::size_t position() const { return at_; }  // after the last one read
    [[noreturn]] void fail(std::string_view what) const;

  private:
    using Kind = PickleValue::Kind;

    std::string_view take(std::size_t bytes);
    std::uint64_t unsigned_number(std::size_t bytes);
    std::string_view line();
    std::int32_t push(PickleValue value);
    std::int32_t pop();
    std::int32_t top();
    std::vector<std::int32_t> pop_items(std::size_t count);  // in the order they were pushed
    std::vector<std::int32_t> pop_to_mark();
    void push_tuple(std::vector<std::int32_t> items);
    void remember(std::uint64_t slot);
    void recall(std::uint64_t slot);
    std::int32_t of_kind(std::int32_t value, Kind kind, const char* expected) const;
    const std::vector<std::int32_t>& items(std::int32_t value, std::size_t least, const char* expected) const;
    std::vector<std::int64_t> numbers(std::int32_t tuple) const;
    void call(std::int32_t function, std::int32_t arguments);
    void make_storage(std::int32_t id);
    void add_items(const std::vector<std::int32_t>& added);

    std::string_view bytes_;
    std::string name_;
    std::size_t at_ = 0;
    std::vector<PickleValue> values_;
    std::vector<std::int32_t> stack_;
    std::vector<std::size_t> marks_;
    std::vector<std::int32_t> memo_;  // by slot; -1: empty
};

}  // namespace elmo
