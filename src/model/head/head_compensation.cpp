#include "model/head/head_compensation.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "elmo/error.h"
#include "model/tensor_transfer.h"
#include "numerics/row_marks.h"

namespace elmo {
namespace {

constexpr const char* kLabels = "labels";
constexpr const char* kValues = "compensation";

}  // namespace

HeadCompensation::HeadCompensation(std::int64_t labels, std::int64_t width, std::int64_t rows,
                                   Backend& backend)
    : labels_(labels), width_(width), rows_(rows), backend_(backend) {
    assert(0 <= rows && rows <= labels);
}

void HeadCompensation::allocate(Arena& arena) {
    if (rows_ == 0) return;
    values_KD_ = arena.allocate("head/compensation", DType::kBf16, rows_, width_);
    marks_R2_ = arena.allocate("head/compensation_marks", DType::kI32, mark_words(labels_), 2);
}

void HeadCompensation::choose(std::span<const std::int64_t> labels) {
    backend_.upload(marks_R2_, mark_rows(labels_, labels).data());
    chosen_.assign(labels.begin(), labels.end());
}

void HeadCompensation::start(std::span<const std::int64_t> labels) {
    assert(static_cast<std::int64_t>(labels.size()) == rows_ && std::ranges::is_sorted(labels));
    if (rows_ == 0) return;
    choose(labels);
    backend_.fill_zero(values_KD_);
}

void HeadCompensation::save(const std::filesystem::path& file) const {
    assert(!chosen_.empty());
    SafeTensorsWriter writer(file, {{kLabels, "I64", {rows_}}, {kValues, "BF16", {rows_, width_}}});
    writer.write(kLabels, std::span<const std::int64_t>(chosen_));
    write_view(writer, kValues, backend_, values_KD_);
    writer.commit();
}

void HeadCompensation::load(const std::filesystem::path& path) {
    const SafeTensors file = SafeTensors::open(path);
    const TensorInfo& stored = file.at(kLabels);
    const TensorInfo& values = file.at(kValues);
    if (stored.dtype != "I64" || stored.num_elements() != rows_ || values.dtype != "BF16" ||
        values.shape != std::vector<std::int64_t>{rows_, width_})
        throw DataError(fmt::format(
            "{}: expected I64 labels [{}] and BF16 compensation [{}, {}], found {} {} and {} {}", file.file(),
            rows_, rows_, width_, stored.dtype, stored.shape_text(), values.dtype, values.shape_text()));
    std::vector<std::int64_t> labels(static_cast<std::size_t>(rows_));
    std::memcpy(labels.data(), stored.data.data(), stored.data.size());
    for (std::size_t i = 0; i < labels.size(); ++i)
        if (labels[i] <= (i == 0 ? -1 : labels[i - 1]) || labels[i] >= labels_)
            throw DataError(fmt::format("{}: expected ascending labels of a head of {}, found {} at place {}",
                                        file.file(), labels_, labels[i], i));
    choose(labels);
    upload_exact(backend_, values_KD_, values, file.file());
}

}  // namespace elmo
