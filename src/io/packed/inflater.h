// zlib's inflate as a value: one step takes bytes and makes bytes.
#pragma once

#include <zlib.h>

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>

#include "elmo/error.h"

namespace elmo {

class Inflater {
  public:
    static constexpr int kGzip = 15 + 16, kRaw = -15;  // what surrounds the data: a gzip header, or nothing

    // DataError, which starts with `name`, if zlib cannot start.
    Inflater(int kind, const std::string& name) {
        if (::inflateInit2(&stream_, kind) != Z_OK) throw DataError(name + ": cannot start decompression");
    }
    ~Inflater() { ::inflateEnd(&stream_); }
    Inflater(const Inflater&) = delete;
    Inflater& operator=(const Inflater&) = delete;

    struct Step {
        std::size_t taken = 0, made = 0;
        bool ended = false;           // the data ends here
        const char* error = nullptr;  // what is wrong with the data
    };
    // At most a gibibyte at a time. Neither taken nor made anything: it needs more input.
    Step step(std::string_view in, char* out, std::size_t room) {
        constexpr std::size_t kMost = std::size_t{1} << 30;
        in = in.substr(0, kMost);
        room = std::min(room, kMost);
        stream_.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(in.data()));
        stream_.avail_in = static_cast<uInt>(in.size());
        stream_.next_out = reinterpret_cast<Bytef*>(out);
        stream_.avail_out = static_cast<uInt>(room);
        const int status = ::inflate(&stream_, Z_NO_FLUSH);
        Step step{in.size() - stream_.avail_in, room - stream_.avail_out, status == Z_STREAM_END, nullptr};
        if (status != Z_OK && status != Z_BUF_ERROR && status != Z_STREAM_END)
            step.error = stream_.msg != nullptr ? stream_.msg : "unknown error";
        return step;
    }
    // For the next piece of data of the same kind.
    void reset() { ::inflateReset(&stream_); }

  private:
    z_stream stream_{};
};

}  // namespace elmo
