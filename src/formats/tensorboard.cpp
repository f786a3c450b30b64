#include "formats/tensorboard.h"

#include <unistd.h>

#include <array>
#include <atomic>
#include <bit>
#include <chrono>
#include <cstring>

#include "io/file_error.h"

namespace elmo {
namespace {

static_assert(std::endian::native == std::endian::little);

constexpr std::array<std::uint32_t, 256> make_crc_table() {
    std::array<std::uint32_t, 256> table{};
    for (std::uint32_t i = 0; i < 256; ++i) {
        std::uint32_t crc = i;
        for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1u) != 0 ? 0x82f63b78u : 0u);
        table[i] = crc;
    }
    return table;
}
constexpr auto kCrcTable = make_crc_table();

std::uint32_t masked_crc(std::string_view bytes) {
    return std::rotr(crc32c(bytes), 15) + 0xa282ead8u;
}

template <class T>
void put_fixed(std::string& out, T value) {
    char raw[sizeof value];
    std::memcpy(raw, &value, sizeof value);
    out.append(raw, sizeof value);
}

void put_varint(std::string& out, std::uint64_t value) {
    for (; value >= 0x80; value >>= 7) out.push_back(static_cast<char>(value | 0x80));
    out.push_back(static_cast<char>(value));
}

// Protocol buffer fields: number and wire type (0 varint, 1 eight bytes, 2 length and bytes, 5 four bytes).
void put_tag(std::string& out, int field, int wire) {
    put_varint(out, static_cast<std::uint64_t>(field << 3 | wire));
}
void put_bytes(std::string& out, int field, std::string_view bytes) {
    put_tag(out, field, 2);
    put_varint(out, bytes.size());
    out.append(bytes);
}

// Event: wall_time = 1 (double), step = 2 (int64), file_version = 3, summary = 5, session_log = 7.
std::string event_start(double wall_time, std::int64_t step) {
    std::string out;
    put_tag(out, 1, 1);
    put_fixed(out, wall_time);
    if (step != 0) {
        put_tag(out, 2, 0);
        put_varint(out, static_cast<std::uint64_t>(step));
    }
    return out;
}

double wall_time_now() {
    return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

OutputFile create_event_file(const std::filesystem::path& folder) {
    static std::atomic<int> counter{0};
    char host[256] = "host";
    ::gethostname(host, sizeof host - 1);
    std::error_code ignored;
    std::filesystem::create_directories(folder, ignored);
    const auto name = fmt::format("events.out.tfevents.{:010d}.{}.{}.{}",
                                  static_cast<std::int64_t>(wall_time_now()), host, ::getpid(), counter++);
    return OutputFile(folder / name, OutputFile::Open::kExclusive);
}

}  // namespace

std::uint32_t crc32c(std::string_view bytes) {
    std::uint32_t crc = ~0u;
    for (const char c : bytes) crc = (crc >> 8) ^ kCrcTable[(crc ^ static_cast<unsigned char>(c)) & 0xffu];
    return ~crc;
}

std::string tfrecord_frame(std::string_view payload) {
    std::string out;
    put_fixed<std::uint64_t>(out, payload.size());
    put_fixed(out, masked_crc(out));
    out.append(payload);
    put_fixed(out, masked_crc(payload));
    return out;
}

std::string scalar_event(double wall_time, std::int64_t step, std::span<const Scalar> scalars) {
    std::string summary;  // Summary: repeated value = 1 { tag = 1, simple_value = 2 (float) }
    for (const auto& [tag, number] : scalars) {
        std::string value;
        put_bytes(value, 1, tag);
        put_tag(value, 2, 5);
        put_fixed(value, static_cast<float>(number));
        put_bytes(summary, 1, value);
    }
    std::string out = event_start(wall_time, step);
    put_bytes(out, 5, summary);
    return out;
}

TensorBoardWriter::TensorBoardWriter(const std::filesystem::path& folder, std::int64_t first_step)
    : file_(create_event_file(folder)) {
    std::string version = event_start(wall_time_now(), 0);
    put_bytes(version, 3, "brain.Event:2");
    write_record(version);
    if (first_step > 0) {
        std::string restart = event_start(wall_time_now(), first_step);
        put_bytes(restart, 7, "\x08\x01");  // SessionLog: status = 1, START
        write_record(restart);
    }
}

void TensorBoardWriter::add_scalars(std::int64_t step, std::span<const Scalar> scalars) {
    write_record(scalar_event(wall_time_now(), step, scalars));
}

void TensorBoardWriter::write_record(std::string_view payload) {
    file_.write(tfrecord_frame(payload));
    file_.flush();
}

}  // namespace elmo
