#include "formats/safetensors.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <numeric>
#include <set>

#include "base/text_util.h"
#include "formats/json_text.h"
#include "formats/safetensors_header.h"
#include "formats/torch_file.h"
#include "io/file_error.h"

namespace elmo {
namespace {

static_assert(std::endian::native == std::endian::little);

struct NamedDType {
    std::string_view name;
    std::int64_t bytes;
};
constexpr NamedDType kDTypes[] = {
    {"BOOL", 1}, {"U8", 1},  {"I8", 1},  {"F8_E4M3", 1}, {"F8_E5M2", 1}, {"F8_E8M0", 1},
    {"I16", 2},  {"U16", 2}, {"F16", 2}, {"BF16", 2},    {"I32", 4},     {"U32", 4},
    {"F32", 4},  {"I64", 8}, {"U64", 8}, {"F64", 8},
};

// Bytes of a tensor, or nothing when the product overflows.
std::optional<std::int64_t> checked_bytes(const std::vector<std::int64_t>& shape,
                                          std::int64_t element_bytes) {
    std::int64_t product = element_bytes;
    for (const std::int64_t n : shape)
        if (__builtin_mul_overflow(product, n, &product)) return std::nullopt;
    return product;
}

[[noreturn]] void throw_absent(const std::string& file, std::string_view name,
                               std::vector<std::string> names) {
    // A suggestion costs the product of the lengths: only among names of plausible length.
    std::erase_if(names, [](const std::string& candidate) { return candidate.size() > 200; });
    if (names.size() > 10000 || name.size() > 200) names.clear();
    throw DataError(fmt::format("{}: expected a tensor '{}', found none of that name{}", file, quoted(name),
                                did_you_mean(name, names)));
}

template <class Out, class Convert>
void convert_all(const TensorInfo& tensor, std::span<Out> out, std::int64_t element_bytes,
                 const Convert& convert) {
    const std::byte* data = tensor.data.data();
    for (std::size_t i = 0; i < out.size(); ++i)
        out[i] = convert(data + static_cast<std::int64_t>(i) * element_bytes);
}

template <class T>
T load(const std::byte* at) {
    T value;
    std::memcpy(&value, at, sizeof value);
    return value;
}

template <class Out, class Narrow>
void read_converted(const TensorInfo& tensor, std::span<Out> out, const Narrow& narrow) {
    if (static_cast<std::int64_t>(out.size()) != tensor.num_elements())
        throw DataError(fmt::format("tensor '{}': expected {} elements, found shape {}", quoted(tensor.name),
                                    out.size(), tensor.shape_text()));
    if (out.empty()) return;
    if (tensor.dtype == safetensors_dtype(dtype_of<Out>::value)) {
        std::memcpy(out.data(), tensor.data.data(), out.size_bytes());
    } else if (tensor.dtype == "F32") {
        convert_all(tensor, out, 4, [&](const std::byte* at) { return narrow(load<float>(at)); });
    } else if (tensor.dtype == "F16") {
        convert_all(tensor, out, 2,
                    [&](const std::byte* at) { return narrow(half_to_float(load<std::uint16_t>(at))); });
    } else if (tensor.dtype == "BF16") {
        convert_all(tensor, out, 2, [&](const std::byte* at) { return narrow(to_float(load<Bf16>(at))); });
    } else if (tensor.dtype == "F64") {
        convert_all(tensor, out, 8,
                    [&](const std::byte* at) { return narrow(static_cast<float>(load<double>(at))); });
    } else {
        throw DataError(fmt::format("tensor '{}': expected F32, F16, BF16 or F64, found {}",
                                    quoted(tensor.name), quoted(tensor.dtype)));
    }
}

}  // namespace

std::int64_t safetensors_element_bytes(std::string_view dtype) {
    for (const auto& known : kDTypes)
        if (known.name == dtype) return known.bytes;
    return 0;
}

std::string_view safetensors_dtype(DType dtype) {
    switch (dtype) {
        case DType::kF64:
            return "F64";
        case DType::kF32:
            return "F32";
        case DType::kBf16:
            return "BF16";
        case DType::kE4M3:
            return "F8_E4M3";
        case DType::kE3M4:
            return "U8";
        case DType::kE5M2:
            return "F8_E5M2";
        case DType::kU8:
            return "U8";
        case DType::kI32:
            return "I32";
        case DType::kI64:
            return "I64";
        case DType::kF16:
            return "F16";
    }
    return "U8";
}

std::optional<DType> dtype_from_safetensors(std::string_view dtype) {
    for (const DType known :
         {DType::kF64, DType::kF32, DType::kBf16, DType::kE4M3, DType::kU8, DType::kI32, DType::kI64})
        if (safetensors_dtype(known) == dtype) return known;
    return std::nullopt;
}

std::int64_t TensorInfo::num_elements() const {
    return std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>());
}

std::string TensorInfo::shape_text() const {
    return fmt::format("[{}]", fmt::join(shape, ", "));
}

SafeTensors SafeTensors::open(const std::filesystem::path& path) {
    return open(MappedFile(path));
}

SafeTensors SafeTensors::open(MappedFile file) {
    SafeTensors result;
    result.file_ = file.path().string();
    result.mapping_ = std::move(file);
    result.read_header(result.mapping_.bytes());
    return result;
}

SafeTensors SafeTensors::parse(std::span<const std::byte> bytes, std::string name) {
    SafeTensors result;
    result.file_ = std::move(name);
    result.read_header(bytes);
    return result;
}

void SafeTensors::read_header(std::span<const std::byte> bytes) {
    if (bytes.size() < 8)
        throw DataError(fmt::format("{}: expected a safetensors file of at least 8 bytes, found {}", file_,
                                    bytes.size()));
    const auto header_bytes = load<std::uint64_t>(bytes.data());
    if (header_bytes > static_cast<std::uint64_t>(kMaxSafeTensorsHeader))
        throw DataError(
            fmt::format("{}: expected a header of at most {} bytes, found {}: not a safetensors file?", file_,
                        kMaxSafeTensorsHeader, header_bytes));
    if (header_bytes > bytes.size() - 8)
        throw DataError(fmt::format("{}: expected a header of {} bytes, found {}: the file is truncated",
                                    file_, header_bytes, bytes.size() - 8));
    const auto header_text = std::string_view(reinterpret_cast<const char*>(bytes.data()) + 8,
                                              static_cast<std::size_t>(header_bytes));
    const auto data = bytes.subspan(8 + static_cast<std::size_t>(header_bytes));
    const auto data_bytes = static_cast<std::int64_t>(data.size());

    SafeTensorsHeader header = parse_safetensors_header(header_text, file_);
    metadata_ = std::move(header.metadata);
    auto& entries = header.entries;
    std::stable_sort(entries.begin(), entries.end(), [](const HeaderEntry& a, const HeaderEntry& b) {
        return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
    });
    std::int64_t next = 0;  // the format: tensors follow one another without gap or overlap and fill the file
    tensors_.reserve(entries.size());
    for (auto& entry : entries) {
        const auto fail = [&](const std::string& message) {
            throw DataError(fmt::format("{}: tensor '{}': {}", file_, quoted(entry.name), message));
        };
        const std::int64_t element_bytes = safetensors_element_bytes(entry.dtype);
        if (element_bytes == 0) fail(fmt::format("unknown dtype '{}'", quoted(entry.dtype)));
        if (entry.end < entry.begin)
            fail(fmt::format("data_offsets [{}, {}] run backwards", entry.begin, entry.end));
        if (entry.end > data_bytes)
            fail(fmt::format("data_offsets end at {}, the file has {} bytes of data: truncated?", entry.end,
                             data_bytes));
        if (entry.begin != next)
            fail(fmt::format("expected data_offsets that start at {}, found {}: a gap or an overlap", next,
                             entry.begin));
        const auto expected = checked_bytes(entry.shape, element_bytes);
        if (!expected || *expected != entry.end - entry.begin)
            fail(fmt::format("shape [{}] of {} does not fill its {} bytes",
                             quoted(fmt::format("{}", fmt::join(entry.shape, ", "))), entry.dtype,
                             entry.end - entry.begin));
        next = entry.end;
        tensors_.push_back(
            {std::move(entry.name), std::move(entry.dtype), std::move(entry.shape),
             data.subspan(static_cast<std::size_t>(entry.begin), static_cast<std::size_t>(*expected))});
    }
    if (next != data_bytes)
        throw DataError(fmt::format("{}: expected {} bytes of tensors, found {}", file_, next, data_bytes));
    sort_names();
}

SafeTensors SafeTensors::of(MappedFile file, std::vector<TensorInfo> tensors) {
    SafeTensors result;
    result.file_ = file.path().string();
    result.mapping_ = std::move(file);
    result.tensors_ = std::move(tensors);
    result.sort_names();
    return result;
}

void SafeTensors::sort_names() {
    by_name_.resize(tensors_.size());
    std::iota(by_name_.begin(), by_name_.end(), 0u);
    std::sort(by_name_.begin(), by_name_.end(),
              [&](auto a, auto b) { return tensors_[a].name < tensors_[b].name; });
    const auto twice = std::adjacent_find(by_name_.begin(), by_name_.end(), [&](auto a, auto b) {
        return tensors_[a].name == tensors_[b].name;
    });
    if (twice != by_name_.end())
        throw DataError(fmt::format("{}: tensor '{}' is there twice", file_, quoted(tensors_[*twice].name)));
}

std::vector<std::string> SafeTensors::names() const {
    std::vector<std::string> result;
    for (const auto i : by_name_) result.push_back(tensors_[i].name);
    return result;
}

const TensorInfo* SafeTensors::find(std::string_view name) const {
    const auto it =
        std::lower_bound(by_name_.begin(), by_name_.end(), name,
                         [&](auto i, std::string_view wanted) { return tensors_[i].name < wanted; });
    return it != by_name_.end() && tensors_[*it].name == name ? &tensors_[*it] : nullptr;
}

const TensorInfo& SafeTensors::at(std::string_view name) const {
    if (const TensorInfo* tensor = find(name)) return *tensor;
    throw_absent(file_, name, names());
}

SafeTensorsFolder::SafeTensorsFolder(std::vector<SafeTensors> files, std::string name)
    : name_(std::move(name)), files_(std::move(files)) {
    const auto all = names();
    const auto twice = std::adjacent_find(all.begin(), all.end());
    if (twice != all.end())
        throw DataError(fmt::format("{}: tensor '{}' is in two files", name_, quoted(*twice)));
}

std::vector<std::string> SafeTensorsFolder::names() const {
    std::vector<std::string> result;
    for (const auto& file : files_)
        for (const auto& tensor : file.tensors()) result.push_back(tensor.name);
    std::sort(result.begin(), result.end());
    return result;
}

const TensorInfo* SafeTensorsFolder::find(std::string_view name) const {
    for (const auto& file : files_)
        if (const TensorInfo* tensor = file.find(name)) return tensor;
    return nullptr;
}

const TensorInfo& SafeTensorsFolder::at(std::string_view name) const {
    if (const TensorInfo* tensor = find(name)) return *tensor;
    throw_absent(name_, name, names());
}

namespace {

// The files of a folder that hold weights, in the order in which they are looked for.
struct WeightFiles {
    const char* single;
    bool is_torch;

    std::string index() const { return std::string(single) + ".index.json"; }
    SafeTensors open(const InputFolder& folder, const std::string& name) const {
        return is_torch ? open_torch_file(folder.map(name)) : SafeTensors::open(folder.map(name));
    }
};
constexpr WeightFiles kWeightFiles[] = {{"model.safetensors", false}, {"pytorch_model.bin", true}};

const WeightFiles* weight_files(const InputFolder& folder) {
    for (const WeightFiles& files : kWeightFiles)
        if (folder.has(files.single) || folder.has(files.index())) return &files;
    return nullptr;
}

}  // namespace

bool has_weights(const InputFolder& folder) {
    return weight_files(folder) != nullptr;
}

SafeTensorsFolder open_safetensors_folder(const InputFolder& folder) {
    const WeightFiles* kind = weight_files(folder);
    if (kind == nullptr)
        throw DataError(fmt::format(
            "{}: expected model.safetensors, model.safetensors.index.json or pytorch_model.bin, found none",
            folder.path().string()));
    std::vector<SafeTensors> files;
    if (folder.has(kind->single)) {
        files.push_back(kind->open(folder, kind->single));
        return SafeTensorsFolder(std::move(files), folder.path().string());
    }
    const std::string index_name = kind->index();
    const std::filesystem::path index_path = folder / index_name;
    const nlohmann::json index = read_json(folder, index_name);
    if (!index.is_object() || !index.contains("weight_map") || !index["weight_map"].is_object())
        throw DataError(fmt::format("{}: expected an object with a weight_map", index_path.string()));
    std::map<std::string, std::set<std::string>> shards;
    for (const auto& [tensor, file] : index["weight_map"].items()) {
        const std::string name = file.is_string() ? file.get<std::string>() : "";
        if (name.empty() || name == "." || name == ".." ||
            name.find_first_of(std::string("/\\\0", 3)) != std::string::npos)
            throw DataError(
                fmt::format("{}: tensor '{}': expected the name of a file in the folder, found {}",
                            index_path.string(), quoted(tensor), quoted(json_string(file, -1, true))));
        shards[name].insert(tensor);
    }
    for (const auto& [file, tensors] : shards) {
        files.push_back(kind->open(folder, file));
        for (const auto& tensor : tensors)
            if (files.back().find(tensor) == nullptr)
                throw DataError(
                    fmt::format("{}: expected the tensor '{}' that the index lists here, found it missing",
                                files.back().file(), quoted(tensor)));
    }
    return SafeTensorsFolder(std::move(files), folder.path().string());
}

void read_tensor(const TensorInfo& tensor, std::span<float> out) {
    read_converted(tensor, out, [](float x) { return x; });
}

void read_tensor(const TensorInfo& tensor, std::span<Bf16> out) {
    read_converted(tensor, out, [](float x) { return to_bf16(x); });
}

}  // namespace elmo
