#include "sources/matrices/npz_matrix.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/text_util.h"
#include "elmo/error.h"

namespace elmo {
namespace {

// A one-dimensional (or empty-shaped) array of a .npy stream.
class NpyStream {
  public:
    NpyStream(const ZipFile& zip, const ZipMember& member, const std::filesystem::path& file)
        : where_(fmt::format("{}: {}", file.string(), member.name)), stream_(zip.open(member)) {
        char start[10];
        fill(start, 10);
        if (std::memcmp(start, "\x93NUMPY", 6) != 0) fail("a NumPy array", "other bytes");
        std::uint32_t length = static_cast<unsigned char>(start[8]) | static_cast<unsigned char>(start[9])
                                                                          << 8;
        if (start[6] >= 2) {
            char more[2];
            fill(more, 2);
            length |= static_cast<std::uint32_t>(static_cast<unsigned char>(more[0])) << 16 |
                      static_cast<std::uint32_t>(static_cast<unsigned char>(more[1])) << 24;
        }
        if (length > 1 << 16) fail("a short header", fmt::format("one of {} bytes", length));
        std::string header(length, '\0');
        fill(header.data(), length);
        read_header(header);
    }

    std::int64_t count() const { return count_; }
    const std::string& dtype() const { return dtype_; }
    std::int64_t element_bytes() const { return element_bytes_; }

    // The next element of an array of numbers.
    std::int64_t next_integer() {
        const char* at = next_element();
        switch (code_) {
            case 'i' << 8 | 1:
                return get<std::int8_t>(at);
            case 'i' << 8 | 2:
                return get<std::int16_t>(at);
            case 'i' << 8 | 4:
                return get<std::int32_t>(at);
            case 'i' << 8 | 8:
                return get<std::int64_t>(at);
            case 'u' << 8 | 1:
            case 'b' << 8 | 1:
                return get<std::uint8_t>(at);
            case 'u' << 8 | 2:
                return get<std::uint16_t>(at);
            case 'u' << 8 | 4:
                return get<std::uint32_t>(at);
            case 'u' << 8 | 8:
                return static_cast<std::int64_t>(std::min<std::uint64_t>(
                    get<std::uint64_t>(at), std::numeric_limits<std::int64_t>::max()));
            default:
                fail("whole numbers", "dtype " + dtype_);
        }
    }
    double next_number() {
        if (code_ == ('f' << 8 | 4)) return get<float>(next_element());
        if (code_ == ('f' << 8 | 8)) return get<double>(next_element());
        return static_cast<double>(next_integer());
    }
    std::string text() {
        std::string bytes(static_cast<std::size_t>(element_bytes_), '\0');
        if (count_ < 1 || element_bytes_ > 64) fail("a word", "another array");
        fill(bytes.data(), bytes.size());
        std::erase(bytes, '\0');  // UTF-32 of plain letters, or padding
        return bytes;
    }
    void expect_end() {
        char more;
        if (at_ != held_ || stream_->read(&more, 1) != 0) fail("the end of the array", "more bytes");
    }

    [[noreturn]] void fail(std::string_view expected, std::string_view found) const {
        throw DataError(fmt::format("{}: expected {}, found {}", where_, expected, found));
    }

  private:
    template <class T>
    static T get(const char* at) {
        T value;
        std::memcpy(&value, at, sizeof value);
        return value;
    }

    void fill(char* out, std::size_t size) {
        while (size > 0) {
            const std::size_t n = stream_->read(out, size);
            if (n == 0) fail("more bytes", "the end of the array");
            out += n;
            size -= n;
        }
    }

    const char* next_element() {
        const auto need = static_cast<std::size_t>(element_bytes_);
        if (held_ - at_ < need) {
            if (buffer_.empty()) buffer_.resize(std::size_t{1} << 18);
            std::memmove(buffer_.data(), buffer_.data() + at_, held_ - at_);
            held_ -= at_;
            at_ = 0;
            while (held_ < need) {
                const std::size_t n = stream_->read(buffer_.data() + held_, buffer_.size() - held_);
                if (n == 0) fail("more numbers", "the end of the array");
                held_ += n;
            }
        }
        const char* at = buffer_.data() + at_;
        at_ += need;
        return at;
    }

    // {'descr': '<i4', 'fortran_order': False, 'shape': (3,), }
    void read_header(const std::string& header) {
        const auto after = [&](std::string_view key) {
            const std::size_t at = header.find(key);
            if (at == header.npos) fail(fmt::format("{} in the header", key), quoted(header));
            return header.find_first_not_of(" :", at + key.size());
        };
        const std::size_t open = after("'descr'");
        const std::size_t close = open < header.size() ? header.find('\'', open + 1) : header.npos;
        if (close == header.npos || header[open] != '\'' || close < open + 4)
            fail("a plain dtype", quoted(header));
        dtype_ = header.substr(open + 1, close - open - 1);
        if (dtype_[0] == '>') fail("little-endian numbers", "dtype " + dtype_);
        std::int64_t width = 0;
        const auto [end, status] = std::from_chars(dtype_.data() + 2, dtype_.data() + dtype_.size(), width);
        if (status != std::errc() || end != dtype_.data() + dtype_.size() || width < 1 || width > 256)
            fail("a plain dtype", "dtype " + dtype_);
        code_ = dtype_[1] << 8 | static_cast<int>(width);
        element_bytes_ = dtype_[1] == 'U' ? 4 * width : width;
        std::size_t at = after("'shape'");
        if (at >= header.size() || header[at] != '(') fail("a shape", quoted(header));
        count_ = 1;
        int dimensions = 0;
        for (++at; at < header.size() && header[at] != ')';) {
            if (header[at] == ' ' || header[at] == ',') {
                ++at;
                continue;
            }
            std::int64_t size = 0;
            const auto [stop, result] =
                std::from_chars(header.data() + at, header.data() + header.size(), size);
            if (result != std::errc() || size < 0 || ++dimensions > 1)
                fail("an array of one dimension", quoted(header));
            count_ = size;
            at = static_cast<std::size_t>(stop - header.data());
        }
    }

    std::string where_;
    std::unique_ptr<ByteStream> stream_;
    std::string dtype_;
    int code_ = 0;
    std::int64_t element_bytes_ = 0, count_ = 0;
    std::vector<char> buffer_;
    std::size_t at_ = 0, held_ = 0;
};

const ZipMember& member_of(const ZipFile& zip, const char* name, const std::filesystem::path& file) {
    const ZipMember* member = zip.find(name);
    if (member == nullptr)
        throw DataError(
            fmt::format("{}: expected a scipy matrix with the array '{}', found none", file.string(), name));
    return *member;
}

}  // namespace

NpzMatrix::NpzMatrix(const std::filesystem::path& file) : file_(file), zip_(file) {
    const std::string format = NpyStream(zip_, member_of(zip_, "format.npy", file), file).text();
    if (format != "csr") fail("a CSR matrix", fmt::format("format '{}'", quoted(format)));
    NpyStream shape(zip_, member_of(zip_, "shape.npy", file), file);
    if (shape.count() != 2) shape.fail("two sizes", fmt::format("{}", shape.count()));
    header_.rows = shape.next_integer();
    header_.columns = shape.next_integer();
    if (header_.rows < 0 || header_.rows == std::numeric_limits<std::int64_t>::max() || header_.columns < 0 ||
        header_.columns > std::numeric_limits<std::uint32_t>::max())
        fail("a shape within 2^63 - 2 rows and 2^32 - 1 columns",
             fmt::format("{} x {}", header_.rows, header_.columns));
    NpyStream bounds(zip_, member_of(zip_, "indptr.npy", file), file);
    if (bounds.count() - 1 != header_.rows)
        bounds.fail(fmt::format("{} row bounds, one more than rows", header_.rows + 1),
                    fmt::format("{}", bounds.count()));
    const std::int64_t entries = NpyStream(zip_, member_of(zip_, "indices.npy", file), file).count();
    // What the header promises is not reserved: memory follows what is there.
    for (std::int64_t i = 0; i <= header_.rows; ++i) {
        bounds_.push_back(bounds.next_integer());
        if (i == 0 ? bounds_[0] != 0 : bounds_[i] < bounds_[i - 1])
            bounds.fail("bounds from 0 that never fall", fmt::format("{} at {}", bounds_[i], i));
    }
    bounds.expect_end();
    if (bounds_.back() != entries)
        fail(fmt::format("{} indices, as the last row bound says", bounds_.back()),
             fmt::format("{}", entries));
}

void NpzMatrix::fail(std::string_view expected, std::string_view found) const {
    throw DataError(fmt::format("{}: expected {}, found {}", file_.string(), expected, found));
}

void NpzMatrix::read(const SparseRules& rules, ImportCounts& counts, const Take& take) const {
    NpyStream indices(zip_, member_of(zip_, "indices.npy", file_), file_);
    NpyStream values(zip_, member_of(zip_, "data.npy", file_), file_);
    if (values.count() != indices.count())
        values.fail(fmt::format("{} values, one an index", indices.count()),
                    fmt::format("{}", values.count()));
    SparseRow row;
    const std::string name = file_.string();
    for (std::int64_t i = 0; i < header_.rows; ++i) {
        const Record where{{}, i, name};
        row.indices.clear();
        row.values.clear();
        for (std::int64_t p = bounds_[i]; p < bounds_[i + 1]; ++p) {
            const std::int64_t index = indices.next_integer();
            const double value = values.next_number();
            if (index < 0 || index >= header_.columns)
                elmo::fail(where, fmt::format("an index below {} columns", header_.columns),
                           fmt::format("{}", index));
            if (!std::isfinite(static_cast<float>(value)))
                elmo::fail(where, "finite values", fmt::format("{}", value));
            row.indices.push_back(static_cast<std::uint32_t>(index));
            row.values.push_back(static_cast<float>(value));
        }
        tidy_sparse_row(where, rules, row, counts);
        take(row);
    }
    indices.expect_end();
    values.expect_end();
}

}  // namespace elmo
