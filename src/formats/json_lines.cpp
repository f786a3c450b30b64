#include "formats/json_lines.h"

#include "base/text_util.h"
#include "io/file_error.h"

namespace elmo {
namespace {

void mend_last_line(const std::filesystem::path& path) {
    std::error_code error;
    if (std::filesystem::file_size(path, error) == 0 || error) return;
    const std::string content = read_file(path);
    if (content.ends_with('\n')) return;
    const std::size_t newline = content.rfind('\n');
    const std::size_t keep = newline == std::string::npos ? 0 : newline + 1;
    if (nlohmann::json::accept(content.begin() + static_cast<std::ptrdiff_t>(keep), content.end())) {
        OutputFile file(path, OutputFile::Open::kAppend);
        file.write("\n");
        file.close();
        return;
    }
    // A truncated object, or what a crash of the machine left. Anything else may be the user's.
    if (content[keep] != '{' && content[keep] != '\0')
        throw DataError(
            fmt::format("{}: expected lines of JSON objects to continue, found '{}'; give another file",
                        path.string(), quoted(content.substr(keep))));
    std::filesystem::resize_file(path, keep, error);
    if (error) throw_file_error(path, "cut the torn last line off", error.value());
}

}  // namespace

JsonLinesWriter::JsonLinesWriter(const std::filesystem::path& path) {
    mend_last_line(path);
    file_ = OutputFile(path, OutputFile::Open::kAppend);
}

std::string JsonLinesWriter::write(const nlohmann::ordered_json& object) {
    std::string line = object.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
    line.push_back('\n');
    file_.write(line);
    file_.flush();
    line.pop_back();
    return line;
}

}  // namespace elmo
