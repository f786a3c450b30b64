// Reading safetensors files: 8 bytes of header length (little-endian), a JSON header, the tensors' bytes.
// The file is mapped and tensors are views of it. Everything in the header is checked before it is used:
// until then lengths, offsets, shapes and names may come from an attacker.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "io/input_folder.h"
#include "io/mmap_file.h"
#include "numerics/bf16.h"
#include "tensor/view.h"

namespace elmo {

inline constexpr std::int64_t kMaxSafeTensorsHeader = 100'000'000;  // the limit of the format's own library

struct TensorInfo {
    std::string name;
    std::string dtype;  // "F32", "F16", "BF16", "F8_E4M3", "U8", "I64", ...
    std::vector<std::int64_t> shape;
    // Row-major, little-endian. Not aligned to the element in files of other writers.
    std::span<const std::byte> data;

    std::int64_t num_elements() const;
    std::string shape_text() const;  // "[384, 1536]"
};

// Bytes per element of a safetensors dtype; 0 for an unknown one.
std::int64_t safetensors_element_bytes(std::string_view dtype);
// kE3M4 is stored as "U8" (the format has no such name; the writer says so in the metadata).
std::string_view safetensors_dtype(DType dtype);
// The DType of a dtype name; nothing if elmo has none (such as F16, which read_tensor converts).
std::optional<DType> dtype_from_safetensors(std::string_view dtype);

// One file. Move-only; tensors' data lives as long as the object it was moved to.
class SafeTensors {
  public:
    // Maps the file. DataError names the file and what is wrong with it.
    static SafeTensors open(const std::filesystem::path& path);
    static SafeTensors open(MappedFile file);
    // The same checks on bytes in memory, which must outlive the result; messages start with `name`.
    static SafeTensors parse(std::span<const std::byte> bytes, std::string name);
    // Tensors of a file of another format (formats/torch_file.h), views of its mapping.
    static SafeTensors of(MappedFile file, std::vector<TensorInfo> tensors);

    const std::string& file() const { return file_; }
    // In the order of their bytes in the file.
    const std::vector<TensorInfo>& tensors() const { return tensors_; }
    // Sorted.
    std::vector<std::string> names() const;
    const std::map<std::string, std::string>& metadata() const { return metadata_; }

    const TensorInfo* find(std::string_view name) const;  // null when absent
    // DataError with the nearest name when absent.
    const TensorInfo& at(std::string_view name) const;

    // The mapping, for advise() and, in copy-on-write mode, for changing tensors in place.
    MappedFile& mapping() { return mapping_; }
    const MappedFile& mapping() const { return mapping_; }

  private:
    SafeTensors() = default;
    void read_header(std::span<const std::byte> bytes);
    void sort_names();

    std::string file_;
    MappedFile mapping_;
    std::vector<TensorInfo> tensors_;
    std::vector<std::uint32_t> by_name_;  // positions in tensors_, sorted by name
    std::map<std::string, std::string> metadata_;
};

// The tensors of a Hugging Face folder, however many files hold them.
class SafeTensorsFolder {
  public:
    explicit SafeTensorsFolder(std::vector<SafeTensors> files, std::string name);

    const std::string& name() const { return name_; }
    const std::vector<SafeTensors>& files() const { return files_; }
    std::vector<std::string> names() const;  // sorted
    const TensorInfo* find(std::string_view name) const;
    const TensorInfo& at(std::string_view name) const;

  private:
    std::string name_;
    std::vector<SafeTensors> files_;
};

// FOLDER/model.safetensors, or the shards that FOLDER/model.safetensors.index.json names; else
// FOLDER/pytorch_model.bin or the shards of its index. DataError if none exists, or if a shard is missing,
// does not match the index, or is outside the folder.
SafeTensorsFolder open_safetensors_folder(const InputFolder& folder);
// Whether open_safetensors_folder finds one of these.
bool has_weights(const InputFolder& folder);

// The elements converted from F32, F16, BF16 or F64 (to nearest even). DataError for another dtype or when
// out's size is not the number of elements.
void read_tensor(const TensorInfo& tensor, std::span<float> out);
void read_tensor(const TensorInfo& tensor, std::span<Bf16> out);

}  // namespace elmo
