// Writing safetensors files: the shapes come first, then the bytes stream through, one tensor at a time or in
// pieces. The file appears complete or not at all (AtomicFile).
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "io/atomic_file.h"

namespace elmo {

struct TensorSpec {
    std::string name;
    std::string dtype;  // as TensorInfo::dtype
    std::vector<std::int64_t> shape;
};

class SafeTensorsWriter {
  public:
    // Reserves the disk space at once: a full disk is an error here, before hours of work. Tensors are
    // ordered by falling element size, then as given, after a header padded with spaces to 64 bytes. So every
    // tensor is aligned to its element, and the first to a cache line. DataError for a name given twice, an
    // unknown dtype, a header beyond the format's limit.
    SafeTensorsWriter(const std::filesystem::path& path, const std::vector<TensorSpec>& tensors,
                      const std::map<std::string, std::string>& metadata = {});

    // The next bytes of a tensor. Tensors may be written in any order and in turns.
    void write(std::string_view name, std::span<const std::byte> bytes);
    template <class T>
    void write(std::string_view name, std::span<const T> elements) {
        write(name, std::as_bytes(elements));
    }

    // DataError if a tensor is not complete; then nothing is replaced.
    void commit();

  private:
    struct Slot {
        std::int64_t next, end;  // offsets in the file
    };
    AtomicFile file_;
    std::map<std::string, Slot, std::less<>> slots_;
};

}  // namespace elmo
