// A zip archive of one file, read from front to back by its local headers, so that a pipe will do.
#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <cstring>

#include "base/text_util.h"
#include "elmo/error.h"
#include "io/packed/decoder.h"
#include "io/packed/inflater.h"

namespace elmo {
namespace {

constexpr std::string_view kLocal = "PK\x03\x04", kDescriptor = "PK\x07\x08";
constexpr std::size_t kHeaderBytes = 30;
constexpr std::uint32_t kInZip64 = 0xffffffff;

std::uint64_t number(std::string_view bytes, std::size_t at, std::size_t size) {
    std::uint64_t value = 0;
    std::memcpy(&value, bytes.data() + at, size);
    return value;
}

struct Member {
    std::string name;
    int method = 0;             // 0 stored, 8 deflated
    bool sizes_follow = false;  // a descriptor behind the data has them
    std::uint32_t crc = 0;
    std::uint64_t packed_bytes = 0;
    bool zip64 = false;

    bool counts() const { return !name.ends_with('/') && !name.starts_with("__MACOSX/"); }
};

class Zip : public Decoder {
  public:
    explicit Zip(RawInput& input) : Decoder(input), inflater_(Inflater::kRaw, input.name()) {}

    std::size_t read(char* out, std::size_t size) override {
        while (!finished_) {
            if (!inside_ && !next_member()) {
                if (first_.empty()) throw DataError(input_.name() + ": the zip archive holds no file");
                finished_ = true;
                break;
            }
            const std::size_t n = member_.method == 0 ? copy(out, size) : inflate(out, size);
            crc_ = static_cast<std::uint32_t>(
                ::crc32(crc_, reinterpret_cast<const Bytef*>(out), static_cast<uInt>(n)));
            if (!inside_) end_member();
            if (n > 0 && member_.counts()) return n;
        }
        return 0;
    }

  private:
    // So many bytes at hand; where the file ends before, it is cut short.
    std::string_view need(std::size_t bytes) {
        while (input_.held().size() < bytes)
            if (!input_.extend()) truncated("zip");
        return input_.held();
    }

    // False where the members end and the archive's directory begins.
    bool next_member() {
        if (need(4).substr(0, 4) != kLocal) return false;
        const std::string_view header = need(kHeaderBytes);
        const auto flags = number(header, 6, 2);
        const std::size_t name_bytes = number(header, 26, 2), extra_bytes = number(header, 28, 2);
        member_ = {};
        member_.method = static_cast<int>(number(header, 8, 2));
        member_.sizes_follow = (flags & 8) != 0;
        member_.crc = static_cast<std::uint32_t>(number(header, 14, 4));
        member_.packed_bytes = number(header, 18, 4);
        const std::string_view rest = need(kHeaderBytes + name_bytes + extra_bytes);
        member_.name = rest.substr(kHeaderBytes, name_bytes);
        read_zip64(rest.substr(kHeaderBytes + name_bytes, extra_bytes));
        if ((flags & 1) != 0) corrupt("zip", "it is encrypted; unpack it first");
        if ((member_.method != 0 && member_.method != 8) || (member_.method == 0 && member_.sizes_follow))
            corrupt("zip", "its compression is not supported; unpack it first");
        if (member_.counts() && !first_.empty())
            throw DataError(
                fmt::format("{}: expected a zip archive of one file, found '{}' and '{}'; unpack "
                            "it and name the file",
                            input_.name(), quoted(first_), quoted(member_.name)));
        if (member_.counts()) first_ = member_.name;
        input_.take(kHeaderBytes + name_bytes + extra_bytes);
        inflater_.reset();
        left_ = member_.packed_bytes;
        crc_ = 0;
        inside_ = true;
        return true;
    }

    void read_zip64(std::string_view extra) {
        while (extra.size() >= 4) {
            const std::size_t bytes = number(extra, 2, 2);
            if (bytes > extra.size() - 4) return;
            if (number(extra, 0, 2) == 1) {
                member_.zip64 = true;
                if (bytes >= 16 && member_.packed_bytes == kInZip64)
                    member_.packed_bytes = number(extra, 12, 8);
            }
            extra.remove_prefix(4 + bytes);
        }
    }

    std::size_t copy(char* out, std::size_t size) {
        if (left_ > 0 && input_.held().empty() && !input_.refill()) truncated("zip");
        const std::size_t n =
            std::min({size, input_.held().size(), static_cast<std::size_t>(left_), RawInput::kBlock});
        std::memcpy(out, input_.held().data(), n);
        input_.take(n);
        left_ -= n;
        inside_ = left_ > 0;
        return n;
    }

    std::size_t inflate(char* out, std::size_t size) {
        while (true) {
            if (input_.held().empty() && !input_.refill()) truncated("zip");
            const Inflater::Step step = inflater_.step(input_.held(), out, std::min(size, RawInput::kBlock));
            input_.take(step.taken);
            if (step.error != nullptr) corrupt("zip", step.error);
            inside_ = !step.ended;
            if (!inside_ || step.made > 0) return step.made;
        }
    }

    // The checksum, and where sizes follow the data, over them.
    void end_member() {
        if (member_.sizes_follow) {
            const std::size_t marked = need(4).substr(0, 4) == kDescriptor ? 4 : 0;
            const std::size_t bytes = marked + (member_.zip64 ? 20 : 12);
            member_.crc = static_cast<std::uint32_t>(number(need(bytes), marked, 4));
            input_.take(bytes);
        }
        if (crc_ != member_.crc) corrupt("zip", "the data does not fit its checksum");
    }

    Inflater inflater_;
    Member member_;
    std::string first_;  // the name of the file
    bool inside_ = false;
    std::uint64_t left_ = 0;  // of stored data
    std::uint32_t crc_ = 0;
};

}  // namespace

std::unique_ptr<Decoder> decode_zip(RawInput& input) {
    return std::make_unique<Zip>(input);
}

}  // namespace elmo
