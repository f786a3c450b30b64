#include <zstd.h>

#include <algorithm>

#include "elmo/error.h"
#include "io/packed/decoder.h"

namespace elmo {
namespace {

class Zstd : public Decoder {
  public:
    explicit Zstd(RawInput& input) : Decoder(input), stream_(::ZSTD_createDStream(), &::ZSTD_freeDStream) {
        if (!stream_) throw DataError(input.name() + ": cannot start decompression");
    }

    std::size_t read(char* out, std::size_t size) override {
        ZSTD_outBuffer room{out, std::min(size, RawInput::kBlock), 0};
        while (!finished_) {
            // A full buffer may leave decoded bytes inside the stream, to be had without more input.
            if (!more_inside_ && input_.held().empty() && !input_.refill()) {
                if (inside_frame_) truncated("zstd");
                finished_ = true;
                break;
            }
            const std::string_view held = input_.held();
            ZSTD_inBuffer from{held.data(), held.size(), 0};
            const std::size_t status = ::ZSTD_decompressStream(stream_.get(), &room, &from);
            input_.take(from.pos);
            if (::ZSTD_isError(status)) corrupt("zstd", ::ZSTD_getErrorName(status));
            inside_frame_ = status != 0;
            more_inside_ = inside_frame_ && room.pos == room.size;
            if (room.pos > 0) return room.pos;
        }
        return 0;
    }

  private:
    std::unique_ptr<ZSTD_DStream, decltype(&::ZSTD_freeDStream)> stream_;
    bool inside_frame_ = false, more_inside_ = false;
};

}  // namespace

std::unique_ptr<Decoder> decode_zstd(RawInput& input) {
    return std::make_unique<Zstd>(input);
}

}  // namespace elmo
