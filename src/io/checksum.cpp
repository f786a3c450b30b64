#include "io/checksum.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <memory>

#include "io/file_error.h"

namespace elmo {
namespace {

static_assert(std::endian::native == std::endian::little);

constexpr std::uint64_t kPrime1 = 0x9E3779B185EBCA87u;
constexpr std::uint64_t kPrime2 = 0xC2B2AE3D27D4EB4Fu;
constexpr std::uint64_t kPrime3 = 0x165667B19E3779F9u;
constexpr std::uint64_t kPrime4 = 0x85EBCA77C2B2AE63u;
constexpr std::uint64_t kPrime5 = 0x27D4EB2F165667C5u;

template <class T>
T load(const std::byte* at) {
    T value;
    std::memcpy(&value, at, sizeof value);
    return value;
}

std::uint64_t mix_lane(std::uint64_t lane, std::uint64_t input) {
    return std::rotl(lane + input * kPrime2, 31) * kPrime1;
}

// Written out: as a loop it is not unrolled by -O2, this layer's, and takes twice the time.
void mix_stripe(std::array<std::uint64_t, 4>& lanes, const std::byte* stripe) {
    lanes[0] = mix_lane(lanes[0], load<std::uint64_t>(stripe));
    lanes[1] = mix_lane(lanes[1], load<std::uint64_t>(stripe + 8));
    lanes[2] = mix_lane(lanes[2], load<std::uint64_t>(stripe + 16));
    lanes[3] = mix_lane(lanes[3], load<std::uint64_t>(stripe + 24));
}

}  // namespace

Hash64::Hash64(std::uint64_t seed)
    : seed_(seed), lanes_{seed + kPrime1 + kPrime2, seed + kPrime2, seed, seed - kPrime1} {}

void Hash64::update(std::span<const std::byte> bytes) {
    length_ += bytes.size();
    if (num_pending_ > 0) {
        const std::size_t n = std::min(bytes.size(), pending_.size() - num_pending_);
        std::copy_n(bytes.begin(), n, pending_.begin() + num_pending_);
        num_pending_ += n;
        bytes = bytes.subspan(n);
        if (num_pending_ < pending_.size()) return;
        mix_stripe(lanes_, pending_.data());
        num_pending_ = 0;
    }
    auto lanes = lanes_;  // in registers
    for (; bytes.size() >= 32; bytes = bytes.subspan(32)) mix_stripe(lanes, bytes.data());
    lanes_ = lanes;
    std::copy(bytes.begin(), bytes.end(), pending_.begin());
    num_pending_ = bytes.size();
}

std::uint64_t Hash64::digest() const {
    std::uint64_t h = seed_ + kPrime5;
    if (length_ >= 32) {
        h = std::rotl(lanes_[0], 1) + std::rotl(lanes_[1], 7) + std::rotl(lanes_[2], 12) +
            std::rotl(lanes_[3], 18);
        for (const std::uint64_t lane : lanes_) h = (h ^ mix_lane(0, lane)) * kPrime1 + kPrime4;
    }
    h += length_;
    const std::byte* at = pending_.data();
    const std::byte* end = at + num_pending_;
    for (; end - at >= 8; at += 8)
        h = std::rotl(h ^ mix_lane(0, load<std::uint64_t>(at)), 27) * kPrime1 + kPrime4;
    if (end - at >= 4) {
        h = std::rotl(h ^ (load<std::uint32_t>(at) * kPrime1), 23) * kPrime2 + kPrime3;
        at += 4;
    }
    for (; at < end; ++at) h = std::rotl(h ^ (static_cast<std::uint64_t>(*at) * kPrime5), 11) * kPrime1;
    h = (h ^ (h >> 33)) * kPrime2;
    h = (h ^ (h >> 29)) * kPrime3;
    return h ^ (h >> 32);
}

std::uint64_t hash64(std::span<const std::byte> bytes, std::uint64_t seed) {
    Hash64 hash(seed);
    hash.update(bytes);
    return hash.digest();
}

std::uint64_t hash64(std::string_view text, std::uint64_t seed) {
    return hash64(std::as_bytes(std::span(text)), seed);
}

std::uint64_t hash_file(const std::filesystem::path& path) {
    const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (fd < 0) throw_file_error(path, "open");
    try {
        const std::uint64_t hash = hash_file(fd, path);
        ::close(fd);
        return hash;
    } catch (...) {
        ::close(fd);
        throw;
    }
}

std::uint64_t hash_file(int descriptor, const std::filesystem::path& path) {
    constexpr std::size_t kBlock = std::size_t{1} << 20;
    const auto block = std::make_unique_for_overwrite<std::byte[]>(kBlock);
    Hash64 hash;
    off_t offset = 0;
    while (true) {
        const ssize_t n = ::pread(descriptor, block.get(), kBlock, offset);
        if (n == 0) return hash.digest();
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) throw_file_error(path, "read");
        hash.update({block.get(), static_cast<std::size_t>(n)});
        offset += n;
    }
}

std::string hash_text(std::uint64_t hash) {
    return fmt::format("{:016x}", hash);
}

}  // namespace elmo
