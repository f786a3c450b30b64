#include <zlib.h>

#include <algorithm>

#include "elmo/error.h"
#include "io/packed/decoder.h"

namespace elmo {
namespace {

class Gzip : public Decoder {
  public:
    explicit Gzip(RawInput& input) : Decoder(input) {
        if (::inflateInit2(&stream_, 15 + 16) != Z_OK)
            throw DataError(input.name() + ": cannot start decompression");
    }
    ~Gzip() override { ::inflateEnd(&stream_); }

    std::size_t read(char* out, std::size_t size) override {
        const auto room = static_cast<uInt>(std::min<std::size_t>(size, RawInput::kBlock));
        while (!finished_) {
            if (input_.held().empty() && !input_.refill()) {
                if (!between_members_) truncated("gzip");
                finished_ = true;
                break;
            }
            if (between_members_ && !start_member()) continue;
            const std::string_view held = input_.held();
            stream_.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(held.data()));
            stream_.avail_in = static_cast<uInt>(held.size());
            stream_.next_out = reinterpret_cast<Bytef*>(out);
            stream_.avail_out = room;
            const int status = ::inflate(&stream_, Z_NO_FLUSH);
            input_.take(held.size() - stream_.avail_in);
            if (status == Z_STREAM_END) {
                between_members_ = true;
            } else if (status != Z_OK && status != Z_BUF_ERROR) {
                corrupt("gzip", stream_.msg != nullptr ? stream_.msg : "unknown error");
            }
            if (stream_.avail_out < room) return room - stream_.avail_out;
        }
        return 0;
    }

  private:
    // After one gzip member: another follows (as pigz and bgzip write them), or zeros that pad the file.
    bool start_member() {
        const char first = input_.held().front();
        if (first == '\0') {
            input_.take(1);
            return false;
        }
        if (first != '\x1f')
            throw DataError(input_.name() + ": bytes that are not gzip follow the gzip data");
        ::inflateReset(&stream_);
        between_members_ = false;
        return true;
    }

    z_stream stream_{};
    bool between_members_ = false;
};

}  // namespace

std::unique_ptr<Decoder> decode_gzip(RawInput& input) {
    return std::make_unique<Gzip>(input);
}

}  // namespace elmo
