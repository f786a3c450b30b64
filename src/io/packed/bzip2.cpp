#include <bzlib.h>

#include <algorithm>

#include "elmo/error.h"
#include "io/packed/decoder.h"

namespace elmo {
namespace {

class Bzip2 : public Decoder {
  public:
    explicit Bzip2(RawInput& input) : Decoder(input) { start(); }
    ~Bzip2() override { stop(); }

    std::size_t read(char* out, std::size_t size) override {
        const auto room = static_cast<unsigned>(std::min(size, RawInput::kBlock));
        while (!finished_) {
            if (input_.held().empty() && !input_.refill()) {
                if (running_) truncated("bzip2");
                finished_ = true;
                break;
            }
            if (!running_) start();  // pbzip2 writes one stream after another
            const std::string_view held = input_.held();
            stream_.next_in = const_cast<char*>(held.data());
            stream_.avail_in = static_cast<unsigned>(held.size());
            stream_.next_out = out;
            stream_.avail_out = room;
            const int status = ::BZ2_bzDecompress(&stream_);
            input_.take(held.size() - stream_.avail_in);
            if (status == BZ_STREAM_END)
                stop();
            else if (status != BZ_OK)
                corrupt("bzip2", status == BZ_DATA_ERROR_MAGIC ? "it does not begin as bzip2 does"
                                                               : "the data does not fit its checksum");
            if (stream_.avail_out < room) return room - stream_.avail_out;
        }
        return 0;
    }

  private:
    void start() {
        stream_ = {};
        if (::BZ2_bzDecompressInit(&stream_, 0, 0) != BZ_OK)
            throw DataError(input_.name() + ": cannot start decompression");
        running_ = true;
    }
    void stop() {
        if (!running_) return;
        const unsigned room_left = stream_.avail_out;
        ::BZ2_bzDecompressEnd(&stream_);
        stream_.avail_out = room_left;
        running_ = false;
    }

    bz_stream stream_{};
    bool running_ = false;
};

}  // namespace

std::unique_ptr<Decoder> decode_bzip2(RawInput& input) {
    return std::make_unique<Bzip2>(input);
}

}  // namespace elmo
