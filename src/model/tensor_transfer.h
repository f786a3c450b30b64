// Moving weights between files and the backend's memory, in pieces of bounded size. What was taken from a
// mapped file leaves this process's memory, so that it is not there twice.
#pragma once

#include <span>
#include <string_view>

#include "backend/backend.h"
#include "formats/safetensors.h"
#include "formats/safetensors_writer.h"

namespace elmo {

// Elements [first, first + count) of a view as one row.
View elements(const View& view, std::int64_t first, std::int64_t count);

// Every element of `to` (F32, F64 or BF16) set to `value`.
void upload_constant(Backend& backend, View to, float value);
// A tensor of F32, F16, BF16 or F64 in one of the files, converted to the view's dtype (to nearest even).
// Sizes agree.
void upload_converted(Backend& backend, View to, const TensorInfo& tensor,
                      std::span<const SafeTensors> files);
// The bits of the file's tensor `name`. DataError when its dtype is not the view's or its size differs.
void upload_exact(Backend& backend, View to, const SafeTensors& file, std::string_view name);
// The same of rows [first_row, first_row + to.rows) of a tensor of `rows`.
void upload_rows_exact(Backend& backend, View to, std::int64_t first_row, std::int64_t rows,
                       const SafeTensors& file, std::string_view name);
// Bytes of one of the files that are those of the view.
void upload_mapped(Backend& backend, View to, const std::byte* from, std::span<const SafeTensors> files);
// Appends all of `from` to the tensor `name`.
void write_view(SafeTensorsWriter& writer, std::string_view name, Backend& backend, View from);

}  // namespace elmo
