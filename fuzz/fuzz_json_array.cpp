// Any bytes as one JSON array, in pieces of every size: elements begin and end with their braces, and the
// pieces do not change them; or an elmo::Error.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "elmo/error.h"
#include "formats/json_array.h"

namespace {

class Pieces : public elmo::ByteStream {
  public:
    Pieces(std::string_view bytes, std::size_t piece) : bytes_(bytes), piece_(piece) {}
    std::size_t read(char* out, std::size_t size) override {
        const std::size_t n = std::min({size, piece_, bytes_.size()});
        std::memcpy(out, bytes_.data(), n);
        bytes_.remove_prefix(n);
        return n;
    }

  private:
    std::string_view bytes_;
    std::size_t piece_;
};

std::vector<std::string> elements(std::string_view bytes, std::size_t piece) {
    std::vector<std::string> all;
    Pieces stream(bytes, piece);
    elmo::JsonArrayReader reader(stream, "fuzz", 1 << 16);
    try {
        while (const auto element = reader.next()) {
            if (!element->starts_with('{') || !element->ends_with('}')) std::abort();
            all.emplace_back(*element);
        }
    } catch (const elmo::Error&) {
        all.emplace_back("error");
    }
    return all;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    if (size > 1 << 14) return 0;
    const std::string_view bytes(reinterpret_cast<const char*>(data), size);
    if (elements(bytes, 1) != elements(bytes, 1 << 20)) std::abort();
    return 0;
}
