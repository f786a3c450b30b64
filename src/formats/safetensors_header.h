// The JSON header of a safetensors file, parsed as a stream of events, without a tree. Anything unexpected
// ends the parse at once, so memory stays within a small multiple of the header's size.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace elmo {

struct HeaderEntry {
    std::string name;
    std::string dtype;
    std::vector<std::int64_t> shape;
    std::int64_t begin = 0, end = 0;  // as written, unchecked
};

struct SafeTensorsHeader {
    std::vector<HeaderEntry> entries;  // as written; names may repeat
    std::map<std::string, std::string> metadata;
};

// DataError, starting with `file`, for anything but an object of {dtype, shape, data_offsets} objects and one
// __metadata__ object of strings.
SafeTensorsHeader parse_safetensors_header(std::string_view json, const std::string& file);

}  // namespace elmo
