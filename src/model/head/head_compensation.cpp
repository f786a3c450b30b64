#include "model/head/head_compensation.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "elmo/error.h"
#include "model/gathered_rows.h"
#include "model/tensor_transfer.h"
#include "numerics/row_marks.h"

namespace elmo {
namespace {

constexpr const char* kLabels = "labels";
constexpr const char* kValues = "compensation";

}  // namespace

HeadCompensation::HeadCompensation(const LabelLayout& layout, std::int64_t width, std::int64_t rows,
                                   Backend& backend)
    : first_label_(layout.is_range() ? layout.label(0) : 0),
      labels_(layout.rows()),
      width_(width),
      rows_(rows),
      backend_(backend) {
    assert(0 <= rows && rows <= labels_);
}

void HeadCompensation::allocate(Arena& arena, Arena& large) {
    if (rows_ == 0) return;
    values_KD_ = large.allocate("head/compensation", DType::kBf16, rows_, width_);
    marks_R2_ = arena.allocate("head/compensation_marks", DType::kI32, mark_words(labels_), 2);
}

std::span<const std::int64_t> HeadCompensation::own(std::span<const std::int64_t> labels) const {
    const auto first = std::lower_bound(labels.begin(), labels.end(), first_label_);
    const auto last = std::lower_bound(first, labels.end(), first_label_ + labels_);
    return {first, last};
}

void HeadCompensation::choose(std::span<const std::int64_t> labels) {
    chosen_.assign(labels.begin(), labels.end());
    std::vector<std::int64_t> rows = chosen_;
    for (std::int64_t& row : rows) row -= first_label_;
    backend_.upload(marks_R2_, mark_rows(labels_, rows).data());
}

void HeadCompensation::start(std::span<const std::int64_t> labels) {
    assert(std::ranges::is_sorted(labels));
    if (rows_ == 0) return;
    choose(own(labels));
    assert(static_cast<std::int64_t>(chosen_.size()) == rows_);
    backend_.fill_zero(values_KD_);
}

void HeadCompensation::save(const std::filesystem::path& file) const {
    assert(!chosen_.empty());
    SafeTensorsWriter writer(file, {{kLabels, "I64", {rows_}}, {kValues, "BF16", {rows_, width_}}});
    writer.write(kLabels, std::span<const std::int64_t>(chosen_));
    write_view(writer, kValues, backend_, values_KD_);
    writer.commit();
}

void HeadCompensation::save_shared(const std::filesystem::path* file, Ranks& ranks) const {
    std::vector<std::int64_t> all;
    for (const auto& bytes : gather(ranks, std::as_bytes(std::span(chosen_)))) {
        const std::size_t before = all.size();
        all.resize(before + bytes.size() / sizeof(std::int64_t));
        std::memcpy(all.data() + before, bytes.data(), bytes.size());
    }
    if (all.empty()) return;
    const auto count = static_cast<std::int64_t>(all.size());
    const GatheredRows values(ranks, backend_, values_KD_);
    if (file == nullptr) return values.write(nullptr, kValues, 0, count);
    SafeTensorsWriter writer(*file, {{kLabels, "I64", {count}}, {kValues, "BF16", {count, width_}}});
    writer.write(kLabels, std::span<const std::int64_t>(all));
    values.write(&writer, kValues, 0, count);
    writer.commit();
}

void HeadCompensation::load(MappedFile mapped, std::int64_t all_labels) {
    if (all_labels == 0) all_labels = labels_;
    const SafeTensors file = SafeTensors::open(std::move(mapped));
    const TensorInfo& stored = file.at(kLabels);
    const TensorInfo& values = file.at(kValues);
    const std::int64_t count = stored.num_elements();
    if (stored.dtype != "I64" || count < rows_ || (labels_ == all_labels && count != rows_) ||
        values.dtype != "BF16" || values.shape != std::vector<std::int64_t>{count, width_})
        throw DataError(fmt::format(
            "{}: expected I64 labels [{}] and BF16 compensation [{}, {}], found {} {} and {} {}", file.file(),
            rows_, rows_, width_, stored.dtype, stored.shape_text(), values.dtype, values.shape_text()));
    std::vector<std::int64_t> labels(static_cast<std::size_t>(count));
    std::memcpy(labels.data(), stored.data.data(), stored.data.size());
    for (std::size_t i = 0; i < labels.size(); ++i)
        if (labels[i] <= (i == 0 ? -1 : labels[i - 1]) || labels[i] >= all_labels)
            throw DataError(fmt::format("{}: expected ascending labels of a head of {}, found {} at place {}",
                                        file.file(), all_labels, labels[i], i));
    const auto mine = own(labels);
    if (static_cast<std::int64_t>(mine.size()) != rows_)
        throw DataError(fmt::format("{}: expected {} labels from {} on, found {}", file.file(), rows_,
                                    first_label_, mine.size()));
    choose(mine);
    if (rows_ == 0) return;
    const auto skipped = static_cast<std::size_t>(mine.data() - labels.data());
    const std::size_t row_bytes = static_cast<std::size_t>(width_) * sizeof(Bf16);
    upload_mapped(backend_, values_KD_, values.data.data() + skipped * row_bytes, {&file, 1});
}

}  // namespace elmo
