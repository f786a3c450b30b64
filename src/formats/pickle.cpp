#include "formats/pickle.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/text_util.h"
#include "elmo/error.h"

namespace elmo {
namespace {

constexpr std::size_t kMostValues = 1'000'000;
constexpr std::size_t kMostDimensions = 8;  // every tensor has a copy of its shape

// Instructions of the pickle machine that torch.save uses.
enum Instruction : unsigned char {
    kProtocol = 0x80,
    kFrame = 0x95,
    kStop = '.',
    kMark = '(',
    kPop = '0',
    kNone = 'N',
    kTrue = 0x88,
    kFalse = 0x89,
    kInt4 = 'J',
    kInt1 = 'K',
    kInt2 = 'M',
    kLong1 = 0x8a,
    kFloat = 'G',
    kText4 = 'X',
    kText1 = 0x8c,
    kGlobal = 'c',
    kStackGlobal = 0x93,
    kEmptyTuple = ')',
    kTuple = 't',
    kTuple1 = 0x85,
    kTuple2 = 0x86,
    kTuple3 = 0x87,
    kEmptyList = ']',
    kAppend = 'a',
    kAppends = 'e',
    kEmptyDict = '}',
    kSetItem = 's',
    kSetItems = 'u',
    kPut1 = 'q',
    kPut4 = 'r',
    kMemoize = 0x94,
    kGet1 = 'h',
    kGet4 = 'j',
    kPersistentId = 'Q',
    kReduce = 'R',
    kBuild = 'b',
};

}  // namespace

void Pickle::fail(std::string_view what) const {
    throw DataError(fmt::format(
        "{}: expected a checkpoint of torch.save, found {}; save it as model.safetensors (save_pretrained of "
        "transformers does)",
        name_, what));
}

std::string_view Pickle::take(std::size_t bytes) {
    if (bytes > bytes_.size() - at_) fail("its end too early");
    const std::string_view result = bytes_.substr(at_, bytes);
    at_ += bytes;
    return result;
}

std::uint64_t Pickle::unsigned_number(std::size_t bytes) {
    std::uint64_t value = 0;
    int shift = 0;
    for (const char c : take(bytes)) {
        value |= static_cast<std::uint64_t>(static_cast<unsigned char>(c)) << shift;
        shift += 8;
    }
    return value;
}

std::string_view Pickle::line() {
    const std::size_t end = bytes_.find('\n', at_);
    if (end == std::string_view::npos) fail("its end too early");
    const std::string_view result = bytes_.substr(at_, end - at_);
    at_ = end + 1;
    return result;
}

std::int32_t Pickle::push(PickleValue value) {
    if (values_.size() >= kMostValues) fail(fmt::format("more than {} values", with_commas(kMostValues)));
    values_.push_back(std::move(value));
    stack_.push_back(static_cast<std::int32_t>(values_.size()) - 1);
    return stack_.back();
}

std::int32_t Pickle::pop() {
    if (stack_.size() <= (marks_.empty() ? 0 : marks_.back())) fail("an instruction without its operands");
    const std::int32_t value = stack_.back();
    stack_.pop_back();
    return value;
}

std::int32_t Pickle::top() {
    const std::int32_t value = pop();
    stack_.push_back(value);
    return value;
}

std::vector<std::int32_t> Pickle::pop_items(std::size_t count) {
    std::vector<std::int32_t> items(count);
    for (auto item = items.rbegin(); item != items.rend(); ++item) *item = pop();
    return items;
}

std::vector<std::int32_t> Pickle::pop_to_mark() {
    if (marks_.empty()) fail("an instruction without its operands");
    const auto from = stack_.begin() + static_cast<std::ptrdiff_t>(marks_.back());
    std::vector<std::int32_t> result(from, stack_.end());
    stack_.erase(from, stack_.end());
    marks_.pop_back();
    return result;
}

void Pickle::push_tuple(std::vector<std::int32_t> items) {
    push({.kind = Kind::kTuple, .items = std::move(items)});
}

void Pickle::remember(std::uint64_t slot) {
    if (stack_.empty() || slot >= kMostValues) fail("a memory slot that cannot be");
    if (memo_.size() <= slot) memo_.resize(static_cast<std::size_t>(slot) + 1, -1);
    memo_[static_cast<std::size_t>(slot)] = stack_.back();
}

void Pickle::recall(std::uint64_t slot) {
    if (slot >= memo_.size() || memo_[static_cast<std::size_t>(slot)] < 0) fail("an empty memory slot");
    if (stack_.size() >= 4 * kMostValues) fail("too many values");
    stack_.push_back(memo_[static_cast<std::size_t>(slot)]);
}

std::int32_t Pickle::of_kind(std::int32_t value, Kind kind, const char* expected) const {
    if ((*this)[value].kind != kind) fail(fmt::format("something else than {}", expected));
    return value;
}

const std::vector<std::int32_t>& Pickle::items(std::int32_t value, std::size_t least,
                                               const char* expected) const {
    const std::vector<std::int32_t>& result = (*this)[of_kind(value, Kind::kTuple, expected)].items;
    if (result.size() < least) fail(fmt::format("too little for {}", expected));
    return result;
}

std::vector<std::int64_t> Pickle::numbers(std::int32_t tuple) const {
    std::vector<std::int64_t> result;
    const std::vector<std::int32_t>& shape = items(tuple, 0, "the shape of a tensor");
    if (shape.size() > kMostDimensions)
        fail(fmt::format("a tensor of {} dimensions (at most {})", shape.size(), kMostDimensions));
    for (const std::int32_t item : shape)
        result.push_back((*this)[of_kind(item, Kind::kNumber, "a number")].number);
    return result;
}

// ("storage", torch.FloatStorage, key, place, elements[, view]).
void Pickle::make_storage(std::int32_t id) {
    const std::vector<std::int32_t>& parts = items(id, 5, "a storage");
    if ((*this)[of_kind(parts[0], Kind::kText, "a storage")].text != "storage") fail("an unknown object");
    if (parts.size() > 5 && (*this)[parts[5]].kind != Kind::kNone) fail("a storage that is part of another");
    push({.kind = Kind::kStorage,
          .number = (*this)[of_kind(parts[4], Kind::kNumber, "a number of elements")].number,
          .text = (*this)[of_kind(parts[1], Kind::kFunction, "the type of a storage")].text,
          .key = (*this)[of_kind(parts[2], Kind::kText, "the key of a storage")].text});
}

void Pickle::call(std::int32_t function, std::int32_t arguments) {
    const PickleValue& called = (*this)[of_kind(function, Kind::kFunction, "a function")];
    const std::string name = fmt::format("{}.{}", called.key, called.text);
    if (name == "collections.OrderedDict") {
        push({.kind = Kind::kDict});
    } else if (name == "torch._utils._rebuild_tensor_v2") {
        const std::vector<std::int32_t>& given = items(arguments, 4, "a tensor");
        push({.kind = Kind::kTensor,
              .number = (*this)[of_kind(given[1], Kind::kNumber, "an offset")].number,
              .storage = of_kind(given[0], Kind::kStorage, "a storage"),
              .shape = numbers(given[2]),
              .strides = numbers(given[3])});
    } else if (name == "torch._utils._rebuild_parameter") {
        stack_.push_back(of_kind(items(arguments, 1, "a parameter")[0], Kind::kTensor, "a tensor"));
    } else {
        fail(fmt::format("a call of '{}', which is not executed", quoted(name)));
    }
}

// To the container on top of the stack.
void Pickle::add_items(const std::vector<std::int32_t>& added) {
    PickleValue& value = values_[static_cast<std::size_t>(top())];
    const bool is_dict = value.kind == Kind::kDict;
    if ((!is_dict && value.kind != Kind::kList) || (is_dict && added.size() % 2 != 0))
        fail("items without their container");
    value.items.insert(value.items.end(), added.begin(), added.end());
}

std::int32_t Pickle::read() {
    stack_.clear();
    marks_.clear();
    memo_.clear();
    while (true) {
        const auto instruction = static_cast<unsigned char>(take(1)[0]);
        switch (instruction) {
            case kProtocol:
                take(1);
                break;
            case kFrame:
                take(8);
                break;
            case kStop:
                return pop();
            case kMark:
                marks_.push_back(stack_.size());
                break;
            case kPop:
                pop();
                break;
            case kNone:
                push({});
                break;
            case kTrue:
            case kFalse:
                push({.kind = Kind::kNumber, .number = instruction == kTrue});
                break;
            case kInt4:
                push({.kind = Kind::kNumber, .number = static_cast<std::int32_t>(unsigned_number(4))});
                break;
            case kInt1:
                push({.kind = Kind::kNumber, .number = static_cast<std::int64_t>(unsigned_number(1))});
                break;
            case kInt2:
                push({.kind = Kind::kNumber, .number = static_cast<std::int64_t>(unsigned_number(2))});
                break;
            case kLong1: {  // the magic number of old files has ten bytes; nothing else is beyond 64 bits
                const auto bytes = static_cast<std::size_t>(unsigned_number(1));
                const std::uint64_t low = unsigned_number(std::min<std::size_t>(bytes, 8));
                const std::string_view high = take(bytes - std::min<std::size_t>(bytes, 8));
                push({.kind = Kind::kNumber, .number = static_cast<std::int64_t>(low), .text = high});
                break;
            }
            case kFloat:
                take(8);
                push({});  // no tensor depends on one
                break;
            case kText4:
                push({.kind = Kind::kText, .text = take(static_cast<std::size_t>(unsigned_number(4)))});
                break;
            case kText1:
                push({.kind = Kind::kText, .text = take(static_cast<std::size_t>(unsigned_number(1)))});
                break;
            case kGlobal: {
                const std::string_view module = line(), name = line();
                push({.kind = Kind::kFunction, .text = name, .key = module});
                break;
            }
            case kStackGlobal: {
                const std::int32_t name = of_kind(pop(), Kind::kText, "the name of a function");
                const std::int32_t module = of_kind(pop(), Kind::kText, "the name of a module");
                push({.kind = Kind::kFunction, .text = (*this)[name].text, .key = (*this)[module].text});
                break;
            }
            case kEmptyTuple:
                push_tuple({});
                break;
            case kTuple:
                push_tuple(pop_to_mark());
                break;
            case kTuple1:
            case kTuple2:
            case kTuple3:
                push_tuple(pop_items(static_cast<std::size_t>(instruction - kTuple1) + 1));
                break;
            case kEmptyList:
                push({.kind = Kind::kList});
                break;
            case kEmptyDict:
                push({.kind = Kind::kDict});
                break;
            case kAppend:
                add_items(pop_items(1));
                break;
            case kSetItem:
                add_items(pop_items(2));
                break;
            case kAppends:
            case kSetItems:
                add_items(pop_to_mark());
                break;
            case kPut1:
                remember(unsigned_number(1));
                break;
            case kPut4:
                remember(unsigned_number(4));
                break;
            case kMemoize:
                remember(memo_.size());
                break;
            case kGet1:
                recall(unsigned_number(1));
                break;
            case kGet4:
                recall(unsigned_number(4));
                break;
            case kPersistentId:
                make_storage(pop());
                break;
            case kReduce: {
                const std::int32_t arguments = pop();
                call(pop(), arguments);
                break;
            }
            case kBuild:  // attributes of a dictionary: torch keeps versions there
                pop();
                of_kind(top(), Kind::kDict, "a dictionary with attributes");
                break;
            default:
                fail(fmt::format("an unknown instruction ({:#04x})", instruction));
        }
    }
}

}  // namespace elmo
