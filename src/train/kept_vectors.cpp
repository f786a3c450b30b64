#include "train/kept_vectors.h"

#include <algorithm>

namespace elmo {

KeptVectors::KeptVectors(std::int64_t bytes, std::int64_t width)
    : width_(width),
      values_(std::make_unique_for_overwrite<Bf16[]>(static_cast<std::size_t>(bytes) / sizeof(Bf16))),
      known_(static_cast<std::size_t>(bytes) / sizeof(Bf16) / static_cast<std::size_t>(width)) {}

bool KeptVectors::has(const Batch& batch) const {
    return std::ranges::all_of(batch.rows,
                               [&](std::int64_t number) { return known_[static_cast<std::size_t>(number)]; });
}

View KeptVectors::vectors(Engine& engine, const Batch& batch, std::uint64_t seed, std::uint64_t step) {
    Encoder& encoder = engine.encoder();
    Backend& backend = engine.backend();
    const auto count = static_cast<std::size_t>(width_);
    const View x_BD = encoder.pooled(batch.size());
    batch_.resize(batch.rows.size() * count);
    if (has(batch)) {
        for (std::size_t i = 0; i < batch.rows.size(); ++i)
            std::copy_n(row(batch.rows[i]), count, batch_.data() + i * count);
        backend.upload(x_BD, batch_.data());
    } else {
        encoder.forward({batch.tokens, batch.offsets}, false, seed, step);
        backend.download(batch_.data(), x_BD);
        for (std::size_t i = 0; i < batch.rows.size(); ++i) {
            std::copy_n(batch_.data() + i * count, count, row(batch.rows[i]));
            known_[static_cast<std::size_t>(batch.rows[i])] = true;
        }
    }
    const Dropout dropout = encoder.pooled_dropout(seed, step);
    if (dropout.threshold() > 0) backend.dropout({x_BD, dropout});
    return x_BD;
}

}  // namespace elmo
