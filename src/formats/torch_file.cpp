#include "formats/torch_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>

#include "base/text_util.h"
#include "elmo/error.h"
#include "formats/pickle.h"
#include "formats/zip_file.h"

namespace elmo {
namespace {

using Kind = PickleValue::Kind;
using Storages = std::map<std::string_view, std::span<const std::byte>, std::less<>>;

std::string_view as_text(std::span<const std::byte> bytes) {
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// The dtype of a torch storage by the name that safetensors has for it; empty for an unknown one.
std::string_view dtype_of(std::string_view storage) {
    static constexpr std::pair<std::string_view, std::string_view> kNames[] = {
        {"FloatStorage", "F32"},  {"HalfStorage", "F16"}, {"BFloat16Storage", "BF16"},
        {"DoubleStorage", "F64"}, {"LongStorage", "I64"}, {"IntStorage", "I32"},
        {"ShortStorage", "I16"},  {"CharStorage", "I8"},  {"ByteStorage", "U8"},
        {"BoolStorage", "BOOL"},
    };
    for (const auto& [torch, dtype] : kNames)
        if (torch == storage) return dtype;
    return {};
}

class StateDict {
  public:
    StateDict(const Pickle& pickle, const Storages& storages, std::string file)
        : pickle_(pickle), storages_(storages), file_(std::move(file)) {}

    std::vector<TensorInfo> tensors(std::int32_t top) const {
        const std::int32_t dict = find_dict(top);
        std::vector<TensorInfo> result;
        std::set<std::string_view> names;
        for_each_tensor(dict, [&](std::string_view name, std::int32_t value) {
            if (!names.insert(name).second)  // a name of the file may be used again for two bytes
                throw DataError(fmt::format("{}: tensor '{}' is there twice", file_, quoted(name)));
            result.push_back(tensor(name, pickle_[value]));
        });
        const auto wrapped = [](const TensorInfo& t) { return t.name.starts_with("module."); };
        if (std::all_of(result.begin(), result.end(), wrapped))
            for (TensorInfo& t : result) t.name.erase(0, 7);
        return result;
    }

  private:
    template <class Use>
    void for_each_tensor(std::int32_t dict, const Use& use) const {
        const std::vector<std::int32_t>& items = pickle_[dict].items;
        for (std::size_t i = 0; i + 1 < items.size(); i += 2)
            if (pickle_[items[i]].kind == Kind::kText && pickle_[items[i + 1]].kind == Kind::kTensor)
                use(pickle_[items[i]].text, items[i + 1]);
    }
    bool has_tensors(std::int32_t value) const {
        bool any = false;
        if (pickle_[value].kind == Kind::kDict) for_each_tensor(value, [&](auto, auto) { any = true; });
        return any;
    }

    // The dictionary that holds tensors: the whole file, or the only value of that kind in it.
    std::int32_t find_dict(std::int32_t top) const {
        if (has_tensors(top)) return top;
        std::optional<std::int32_t> found;
        std::string_view first;
        if (pickle_[top].kind == Kind::kDict) {
            const std::vector<std::int32_t>& items = pickle_[top].items;
            for (std::size_t i = 0; i + 1 < items.size(); i += 2) {
                if (!has_tensors(items[i + 1])) continue;
                if (found)
                    throw DataError(
                        fmt::format("{}: expected the weights of one model, found those of '{}' and '{}': "
                                    "save one of them",
                                    file_, quoted(first), quoted(pickle_[items[i]].text)));
                found = items[i + 1];
                first = pickle_[items[i]].text;
            }
        }
        if (!found) pickle_.fail("no tensors by name (a state_dict)");
        return *found;
    }

    TensorInfo tensor(std::string_view name, const PickleValue& value) const {
        const PickleValue& storage = pickle_[value.storage];
        const auto fail = [&](const std::string& message) {
            throw DataError(fmt::format("{}: tensor '{}': {}", file_, quoted(name), message));
        };
        const std::string_view dtype = dtype_of(storage.text);
        if (dtype.empty()) fail(fmt::format("expected a torch storage, found '{}'", quoted(storage.text)));
        const auto bytes = storages_.find(storage.key);
        if (bytes == storages_.end()) fail(fmt::format("its storage '{}' is not there", quoted(storage.key)));
        const std::int64_t size = safetensors_element_bytes(dtype);
        const auto room = static_cast<std::int64_t>(bytes->second.size()) / size;
        std::int64_t count = 1, largest = 1;  // a shape without elements has to be a number too
        for (const std::int64_t n : value.shape) {
            if (n < 0 || __builtin_mul_overflow(largest, std::max<std::int64_t>(n, 1), &largest))
                fail("its shape does not fit its storage");
            count *= n;
        }
        if (count > room) fail("its shape does not fit its storage");
        if (value.number < 0 || value.number > room - count) fail("its place does not fit its storage");
        if (value.strides.size() != value.shape.size()) fail("its strides do not fit its shape");
        std::int64_t stride = 1;
        for (std::size_t i = value.shape.size(); i-- > 0;) {
            if (value.shape[i] != 1 && count > 0 && value.strides[i] != stride)
                fail("it is not stored row by row: save it after .contiguous()");
            stride *= value.shape[i];
        }
        return {std::string(name), std::string(dtype), value.shape,
                bytes->second.subspan(static_cast<std::size_t>(value.number * size),
                                      static_cast<std::size_t>(count * size))};
    }

    const Pickle& pickle_;
    const Storages& storages_;
    std::string file_;
};

// torch 1.6 and newer: NAME/data.pkl, and a member NAME/data/KEY per storage, all stored.
SafeTensors open_zip(MappedFile file) {
    const std::string name = file.path().string();
    ZipFile zip(std::move(file));
    const ZipMember* program = nullptr;
    for (const ZipMember& member : zip.members())
        if (member.name == "data.pkl" || member.name.ends_with("/data.pkl")) program = &member;
    if (program == nullptr)
        throw DataError(fmt::format(
            "{}: expected a checkpoint of torch.save, found a zip archive without data.pkl", name));
    const std::string prefix = program->name.substr(0, program->name.size() - 8);
    if (const ZipMember* order = zip.find(prefix + "byteorder");
        order != nullptr && as_text(zip.stored(*order)) != "little")
        throw DataError(fmt::format("{}: expected little-endian numbers, found '{}'", name,
                                    quoted(as_text(zip.stored(*order)))));
    Storages storages;
    const std::string folder = prefix + "data/";
    for (const ZipMember& member : zip.members())
        if (member.name.starts_with(folder))
            storages.emplace(std::string_view(member.name).substr(folder.size()), zip.stored(member));
    Pickle pickle(as_text(zip.stored(*program)), name);
    const std::int32_t top = pickle.read();
    std::vector<TensorInfo> tensors = StateDict(pickle, storages, name).tensors(top);
    return SafeTensors::of(std::move(zip).take_file(), std::move(tensors));
}

// Older ones: pickles of a magic number, a version, facts about the system, the object and the keys of its
// storages; then per key the number of elements and the elements.
SafeTensors open_old(MappedFile file) {
    const std::string name = file.path().string();
    const std::string_view bytes = as_text(file.bytes());
    Pickle pickle(bytes, name);
    constexpr std::string_view kMagic = "\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.";
    if (!bytes.starts_with(kMagic)) pickle.fail("a file that starts in another way");
    for (int i = 0; i < 3; ++i) pickle.read();
    const std::int32_t top = pickle.read(), keys = pickle.read();
    std::map<std::string_view, const PickleValue*, std::less<>> by_key;
    for (std::int32_t i = 0; i <= keys; ++i)
        if (pickle[i].kind == Kind::kStorage) by_key.emplace(pickle[i].key, &pickle[i]);
    Storages storages;
    std::span<const std::byte> rest = file.bytes().subspan(pickle.position());
    for (const std::int32_t item : pickle[keys].items) {
        const PickleValue& key = pickle[item];
        const auto storage = by_key.find(key.text);
        if (key.kind != Kind::kText || storage == by_key.end()) pickle.fail("a storage that no tensor has");
        const std::int64_t size = safetensors_element_bytes(dtype_of(storage->second->text));
        const std::int64_t count = storage->second->number;
        std::int64_t stored = 0;
        if (rest.size() < sizeof stored) pickle.fail("its end too early");
        std::copy_n(rest.data(), sizeof stored, reinterpret_cast<std::byte*>(&stored));
        rest = rest.subspan(sizeof stored);
        if (size == 0 || stored != count || count < 0 ||
            count > static_cast<std::int64_t>(rest.size()) / size)
            pickle.fail("a storage that is cut off");
        storages.emplace(key.text, rest.first(static_cast<std::size_t>(count * size)));
        rest = rest.subspan(static_cast<std::size_t>(count * size));
    }
    std::vector<TensorInfo> tensors = StateDict(pickle, storages, name).tensors(top);
    return SafeTensors::of(std::move(file), std::move(tensors));
}

}  // namespace

SafeTensors open_torch_file(MappedFile file) {
    return as_text(file.bytes()).starts_with("PK\x03\x04") ? open_zip(std::move(file))
                                                           : open_old(std::move(file));
}

}  // namespace elmo
