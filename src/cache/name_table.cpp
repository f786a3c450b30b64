#include "cache/name_table.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "elmo/error.h"
#include "io/checksum.h"

namespace elmo {

NameTable::NameTable() : slots_(1024) {}

// The slot that holds the name, or the free one where it belongs.
std::size_t NameTable::slot_of(std::string_view name_wanted) const {
    const std::size_t mask = slots_.size() - 1;
    std::size_t slot = hash64(name_wanted) & mask;
    while (slots_[slot] != 0 && name(slots_[slot] - 1) != name_wanted) slot = (slot + 1) & mask;
    return slot;
}

std::optional<std::uint32_t> NameTable::find(std::string_view name) const {
    const std::uint32_t held = slots_[slot_of(name)];
    if (held == 0) return std::nullopt;
    return held - 1;
}

std::uint32_t NameTable::add(std::string_view name) {
    std::size_t slot = slot_of(name);
    if (slots_[slot] != 0) return slots_[slot] - 1;
    if (size() >= std::numeric_limits<std::uint32_t>::max() - 1)
        throw DataError("more than 2^32 - 2 distinct label names");
    if (4 * static_cast<std::size_t>(size() + 1) > 3 * slots_.size()) {
        grow();
        slot = slot_of(name);
    }
    if (chunks_.empty() || name.size() > chunk_size_ - chunk_used_) {
        constexpr std::size_t kChunk = std::size_t{4} << 20;
        chunk_size_ = std::max(kChunk, name.size());
        chunks_.push_back(std::make_unique_for_overwrite<char[]>(chunk_size_));
        chunk_used_ = 0;
    }
    std::copy(name.begin(), name.end(), chunks_.back().get() + chunk_used_);
    entries_.push_back({static_cast<std::uint32_t>(chunks_.size() - 1),
                        static_cast<std::uint32_t>(chunk_used_), static_cast<std::uint32_t>(name.size())});
    chunk_used_ += name.size();
    slots_[slot] = static_cast<std::uint32_t>(size());
    return slots_[slot] - 1;
}

void NameTable::grow() {
    std::vector<std::uint32_t> old(2 * slots_.size());
    old.swap(slots_);
    const std::size_t mask = slots_.size() - 1;
    for (const std::uint32_t held : old) {
        if (held == 0) continue;
        std::size_t slot = hash64(name(held - 1)) & mask;
        while (slots_[slot] != 0) slot = (slot + 1) & mask;
        slots_[slot] = held;
    }
}

std::vector<std::uint32_t> NameTable::sorted() const {
    std::vector<std::uint32_t> order(static_cast<std::size_t>(size()));
    std::iota(order.begin(), order.end(), 0u);
    std::sort(order.begin(), order.end(),
              [&](std::uint32_t a, std::uint32_t b) { return name(a) < name(b); });
    return order;
}

}  // namespace elmo
