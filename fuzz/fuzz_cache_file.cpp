// Any bytes as a file of the data cache. The first byte says how: as they are, or as a footer and the arrays
// that it lists, with right checksums and the key of the data, as a forger would make them. Reading ends in
// rows inside the file, or in none, or in an elmo::Error.
#include <sys/stat.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>

#include "cache/cache_file.h"
#include "cache/ragged_writer.h"
#include "data/label_import.h"
#include "elmo/error.h"

namespace {

using elmo::CacheFile;
using elmo::CacheKey;

// A file of one name, in memory where that is possible.
struct Place {
    std::filesystem::path folder;
    CacheKey key{"/data", "train.labels"};

    Place() {
        folder = std::filesystem::exists("/dev/shm") ? "/dev/shm" : std::filesystem::temp_directory_path();
        folder /= "elmo-fuzz-" + std::to_string(::getpid());
        std::filesystem::create_directories(folder);
    }
    ~Place() {
        std::error_code ignored;
        std::filesystem::remove_all(folder, ignored);
    }
};

// Footer, arrays and the lengths behind them as cache_file.cpp writes them.
std::string forged(std::string_view footer_text, std::string_view arrays, const std::string& key) {
    std::string footer(footer_text);
    nlohmann::json json = nlohmann::json::parse(footer, nullptr, false);
    if (json.is_object() && json.contains("sections") && json["sections"].is_array()) {
        json["key"] = key;
        for (auto& section : json["sections"]) {
            const auto number = [&](const char* name) {
                return section.is_object() && section.contains(name) && section[name].is_number_unsigned()
                           ? section[name].get<std::uint64_t>() % (1u << 20)
                           : std::uint64_t{0};
            };
            const std::uint64_t offset = std::min<std::uint64_t>(number("offset"), arrays.size());
            const std::uint64_t bytes = number("element_bytes") * number("count");
            if (section.is_object()) section["hash"] = elmo::hash64(arrays.substr(offset, bytes));
        }
        footer = json.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
    }
    std::string file(arrays);
    file += footer;
    file += "elmo.cac";
    const std::uint64_t numbers[] = {arrays.size(), footer.size(), elmo::hash64(footer)};
    file.append(reinterpret_cast<const char*>(numbers), sizeof numbers);
    return file;
}

template <class T>
void read_rows(const CacheFile& file, const std::string& name) {
    try {
        const auto rows = elmo::read_ragged<T>(file, name);
        std::uint64_t sum = 0;
        for (std::int64_t row = 0; row < rows.rows(); ++row)
            for (const T value : rows.row(row)) sum += static_cast<std::uint64_t>(value);
        if (sum == 1) return;  // so that the values are looked at
    } catch (const elmo::Error&) {
    }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    static const Place place;
    std::string_view bytes(reinterpret_cast<const char*>(data), size);
    std::string file(bytes);
    if (size > 3 && data[0] != 'r') {
        const std::size_t length = (std::size_t{data[1]} << 8 | data[2]) % (size - 2);
        bytes.remove_prefix(3);
        file =
            forged(bytes.substr(0, length), bytes.substr(std::min(length, bytes.size())), place.key.text());
    } else if (size > 0) {
        file.erase(0, 1);
    }
    std::ofstream(place.folder / place.key.file_name(), std::ios::binary) << file;
    const auto cache = CacheFile::open(place.folder, place.key);
    if (!cache) return 0;
    read_rows<std::uint32_t>(*cache, "labels");
    read_rows<std::int32_t>(*cache, "tokens");
    read_rows<char>(*cache, "names");
    try {
        if (cache->value<elmo::LabelStats>("stats").num_labels == 1) return 0;
    } catch (const elmo::Error&) {
    }
    return 0;
}
