// Zip archives and NumPy arrays made by hand, so that tests do not read what our own writer wrote.
#pragma once

#include <zlib.h>

#include <cstring>
#include <string>
#include <vector>

namespace elmo::testing_data {

class TestZip {
  public:
    // A .npy: dtype, Python shape, raw bytes.
    static std::string npy(const std::string& dtype, const std::string& shape, const std::string& bytes) {
        std::string header = "{'descr': '" + dtype + "', 'fortran_order': False, 'shape': " + shape + ", }";
        header.resize((header.size() + 11 + 63) / 64 * 64 - 11, ' ');
        header += '\n';
        std::string out = "\x93NUMPY";
        out += '\x01';
        out += '\0';
        out += static_cast<char>(header.size() & 0xff);
        out += static_cast<char>(header.size() >> 8);
        return out + header + bytes;
    }
    template <class T>
    static std::string array(const std::string& dtype, const std::vector<T>& values) {
        return npy(dtype, "(" + std::to_string(values.size()) + ",)",
                   std::string(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)));
    }

    void add(const std::string& name, const std::string& bytes, bool deflated) {
        std::string packed = bytes;
        if (deflated) {
            z_stream stream{};
            ::deflateInit2(&stream, 6, Z_DEFLATED, -15, 8, Z_DEFAULT_STRATEGY);
            packed.assign(::deflateBound(&stream, bytes.size()) + 16, '\0');
            stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
            stream.avail_in = static_cast<uInt>(bytes.size());
            stream.next_out = reinterpret_cast<Bytef*>(packed.data());
            stream.avail_out = static_cast<uInt>(packed.size());
            ::deflate(&stream, Z_FINISH);
            packed.resize(stream.total_out);
            ::deflateEnd(&stream);
        }
        const auto crc = static_cast<std::uint32_t>(
            ::crc32(0, reinterpret_cast<const Bytef*>(bytes.data()), static_cast<uInt>(bytes.size())));
        std::string common;
        put16(common, 20);
        put16(common, 0);
        put16(common, deflated ? 8 : 0);
        put32(common, 0);
        put32(common, crc);
        put32(common, static_cast<std::uint32_t>(packed.size()));
        put32(common, static_cast<std::uint32_t>(bytes.size()));
        put16(common, static_cast<std::uint16_t>(name.size()));
        put16(common, 0);
        central_ += "PK\x01\x02";
        put16(central_, 20);
        central_ += common;
        put16(central_, 0);
        put16(central_, 0);
        put16(central_, 0);
        put32(central_, 0);
        put32(central_, static_cast<std::uint32_t>(out_.size()));
        central_ += name;
        out_ += "PK\x03\x04" + common + name + packed;
        ++count_;
    }
    std::string finish() {
        std::string end = "PK\x05\x06";
        put32(end, 0);
        put16(end, count_);
        put16(end, count_);
        put32(end, static_cast<std::uint32_t>(central_.size()));
        put32(end, static_cast<std::uint32_t>(out_.size()));
        put16(end, 0);
        return out_ + central_ + end;
    }

  private:
    static void put16(std::string& to, std::uint16_t v) { to.append(reinterpret_cast<const char*>(&v), 2); }
    static void put32(std::string& to, std::uint32_t v) { to.append(reinterpret_cast<const char*>(&v), 4); }

    std::string out_, central_;
    std::uint16_t count_ = 0;
};

}  // namespace elmo::testing_data
