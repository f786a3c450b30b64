#include "formats/json_text.h"

#include "base/text_util.h"
#include "io/file_error.h"

namespace elmo {

using nlohmann::json;

std::string json_reason(const json::exception& error) {
    std::string_view text = error.what();
    if (const auto bracket = text.find("] "); bracket != std::string_view::npos)
        text.remove_prefix(bracket + 2);
    if (text.starts_with("parse error at ")) text.remove_prefix(15);
    return quoted(text, 200);
}

std::string json_string(const json& value, int indent, bool ascii) {
    return value.dump(indent, ' ', ascii, json::error_handler_t::replace);
}

std::string json_string(const nlohmann::ordered_json& value, int indent, bool ascii) {
    return value.dump(indent, ' ', ascii, nlohmann::ordered_json::error_handler_t::replace);
}

json own_json(std::string_view text) {
    return json::parse(text, nullptr, false);
}

nlohmann::ordered_json own_ordered_json(std::string_view text) {
    return nlohmann::ordered_json::parse(text, nullptr, false);
}

json parse_json(std::string_view text, const std::string& name, int max_depth) {
    const auto check_depth = [&](int depth, json::parse_event_t event, json&) {
        if (depth >= max_depth &&
            (event == json::parse_event_t::object_start || event == json::parse_event_t::array_start))
            throw DataError(
                fmt::format("{}: expected JSON nested at most {} deep, found deeper", name, max_depth));
        return true;
    };
    try {
        return json::parse(text, check_depth);
    } catch (const json::exception& error) {
        throw DataError(fmt::format("{}: expected JSON, found an error at {}", name, json_reason(error)));
    }
}

namespace {

void check_size(const std::filesystem::path& path, std::int64_t bytes, std::int64_t max_bytes) {
    if (bytes > max_bytes)
        throw DataError(fmt::format("{}: expected at most {} of JSON, found {}", path.string(),
                                    human_bytes(max_bytes), human_bytes(bytes)));
}

}  // namespace

json read_json(const std::filesystem::path& path, std::int64_t max_bytes, int max_depth) {
    std::error_code error;
    const auto size = std::filesystem::file_size(path, error);
    if (!error) check_size(path, static_cast<std::int64_t>(size), max_bytes);
    return parse_json(read_file(path), path.string(), max_depth);
}

json read_json(const InputFolder& folder, const std::string& name, std::int64_t max_bytes) {
    check_size(folder / name, folder.size(name), max_bytes);
    return parse_json(folder.read(name), (folder / name).string());
}

}  // namespace elmo
