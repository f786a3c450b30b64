#include <lzma.h>

#include <algorithm>

#include "elmo/error.h"
#include "io/packed/decoder.h"

namespace elmo {
namespace {

constexpr std::uint64_t kMostMemory = std::uint64_t{256} << 20;  // xz -9 asks for 65 MiB

const char* reason_of(lzma_ret status) {
    if (status == LZMA_MEMLIMIT_ERROR) return "it needs more than 256 MiB to be read";
    if (status == LZMA_OPTIONS_ERROR) return "it uses options that are not supported";
    return status == LZMA_MEM_ERROR ? "out of memory" : "the data does not fit its checksum or its form";
}

class Xz : public Decoder {
  public:
    explicit Xz(RawInput& input) : Decoder(input) {
        if (::lzma_stream_decoder(&stream_, kMostMemory, LZMA_CONCATENATED) != LZMA_OK)
            throw DataError(input.name() + ": cannot start decompression");
    }
    ~Xz() override { ::lzma_end(&stream_); }

    std::size_t read(char* out, std::size_t size) override {
        while (!finished_) {
            const bool at_end = input_.held().empty() && !input_.refill();
            const std::string_view held = input_.held();
            stream_.next_in = reinterpret_cast<const std::uint8_t*>(held.data());
            stream_.avail_in = held.size();
            stream_.next_out = reinterpret_cast<std::uint8_t*>(out);
            stream_.avail_out = size;
            const lzma_ret status = ::lzma_code(&stream_, at_end ? LZMA_FINISH : LZMA_RUN);
            input_.take(held.size() - stream_.avail_in);
            if (status == LZMA_STREAM_END)
                finished_ = true;
            else if (status == LZMA_BUF_ERROR && at_end)
                truncated("xz");
            else if (status != LZMA_OK && status != LZMA_BUF_ERROR)
                corrupt("xz", reason_of(status));
            if (stream_.avail_out < size) return size - stream_.avail_out;
        }
        return 0;
    }

  private:
    lzma_stream stream_ = LZMA_STREAM_INIT;
};

}  // namespace

std::unique_ptr<Decoder> decode_xz(RawInput& input) {
    return std::make_unique<Xz>(input);
}

}  // namespace elmo
