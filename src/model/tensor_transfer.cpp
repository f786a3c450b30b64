#include "model/tensor_transfer.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "base/text_util.h"
#include "elmo/error.h"

namespace elmo {
namespace {

constexpr std::int64_t kPiece = 1 << 21;  // elements converted at once
constexpr std::int64_t kWrittenPiece = 1
                                       << 18;  // elements written at once: their bytes stay in a core's cache

template <class Body>
void for_each_piece(std::int64_t count, std::int64_t most, const Body& body) {
    for (std::int64_t first = 0; first < count; first += most) body(first, std::min(most, count - first));
}

TensorInfo piece_of(const TensorInfo& tensor, std::int64_t first, std::int64_t count) {
    const auto size = static_cast<std::size_t>(safetensors_element_bytes(tensor.dtype));
    return {
        tensor.name,
        tensor.dtype,
        {count},
        tensor.data.subspan(static_cast<std::size_t>(first) * size, static_cast<std::size_t>(count) * size)};
}

void drop(std::span<const std::byte> bytes, std::span<const SafeTensors> files) {
    for (const SafeTensors& file : files) file.mapping().drop(bytes);
}

}  // namespace

View elements(const View& view, std::int64_t first, std::int64_t count) {
    assert(0 <= first && first + count <= view.size());
    auto* const data = static_cast<char*>(view.data);  // null while memory is only planned
    return {data == nullptr ? nullptr : data + first * size_of(view.dtype), view.dtype, 1, count};
}

void upload_constant(Backend& backend, View to, float value) {
    const auto count = static_cast<std::size_t>(to.size());
    if (to.dtype == DType::kF64)
        backend.upload(to, std::vector<double>(count, value).data());
    else if (to.dtype == DType::kF32)
        backend.upload(to, std::vector<float>(count, value).data());
    else
        backend.upload(to, std::vector<Bf16>(count, to_bf16(value)).data());
}

void upload_mapped(Backend& backend, View to, const std::byte* from, std::span<const SafeTensors> files) {
    for_each_piece(to.size(), kPiece, [&](std::int64_t first, std::int64_t count) {
        const View piece = elements(to, first, count);
        const auto offset = static_cast<std::size_t>(first * size_of(to.dtype));
        backend.upload(piece, from + offset);
        drop({from + offset, static_cast<std::size_t>(piece.bytes())}, files);
    });
}

void upload_converted(Backend& backend, View to, const TensorInfo& tensor,
                      std::span<const SafeTensors> files) {
    assert(to.size() == tensor.num_elements());
    if (dtype_from_safetensors(tensor.dtype) == to.dtype)
        return upload_mapped(backend, to, tensor.data.data(), files);
    for_each_piece(to.size(), kPiece, [&](std::int64_t first, std::int64_t count) {
        const TensorInfo piece = piece_of(tensor, first, count);
        const View values_to = elements(to, first, count);
        if (to.dtype == DType::kBf16) {
            std::vector<Bf16> values(static_cast<std::size_t>(count));
            read_tensor(piece, std::span(values));
            backend.upload(values_to, values.data());
        } else {
            std::vector<float> values(static_cast<std::size_t>(count));
            read_tensor(piece, std::span(values));
            if (to.dtype == DType::kF32)
                backend.upload(values_to, values.data());
            else
                backend.upload(values_to, std::vector<double>(values.begin(), values.end()).data());
        }
        drop(piece.data, files);
    });
}

void upload_exact(Backend& backend, View to, const SafeTensors& file, std::string_view name) {
    upload_rows_exact(backend, to, 0, to.rows, file, name);
}

void upload_rows_exact(Backend& backend, View to, std::int64_t first_row, std::int64_t rows,
                       const SafeTensors& file, std::string_view name) {
    const TensorInfo& tensor = file.at(name);
    if (tensor.dtype != safetensors_dtype(to.dtype) || tensor.num_elements() != rows * to.cols)
        throw DataError(fmt::format("{}: tensor '{}': expected {} elements of {}, found {} of {}",
                                    file.file(), quoted(tensor.name), rows * to.cols,
                                    safetensors_dtype(to.dtype), tensor.num_elements(), tensor.dtype));
    upload_mapped(backend, to, tensor.data.data() + first_row * to.cols * size_of(to.dtype), {&file, 1});
}

void write_view(SafeTensorsWriter& writer, std::string_view name, Backend& backend, View from) {
    const std::int64_t most = std::min(kWrittenPiece, from.size());
    const auto bytes =
        std::make_unique_for_overwrite<std::byte[]>(static_cast<std::size_t>(most * size_of(from.dtype)));
    for_each_piece(from.size(), most, [&](std::int64_t first, std::int64_t count) {
        const View piece = elements(from, first, count);
        backend.download(bytes.get(), piece);
        writer.write(name, std::span<const std::byte>(bytes.get(), static_cast<std::size_t>(piece.bytes())));
    });
}

}  // namespace elmo
