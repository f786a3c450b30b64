#include "run/manifest.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "base/text_util.h"
#include "elmo/error.h"
#include "elmo/version.h"
#include "formats/json_text.h"
#include "io/atomic_file.h"
#include "io/checksum.h"

namespace elmo {
namespace fs = std::filesystem;
namespace {

constexpr const char* kName = "manifest.json";
constexpr const char* kFormat = "elmo checkpoint";
constexpr int kVersion = 1;

[[noreturn]] void damaged(const fs::path& folder, const std::string& what) {
    throw DataError(fmt::format("{}: {}; the checkpoint is damaged: use another one, or train again",
                                folder.string(), what));
}

bool plain_name(const std::string& name) {
    return !name.empty() && name != "." && name != ".." && name.find('/') == std::string::npos &&
           name.find('\0') == std::string::npos;
}

ManifestFile parse_entry(const fs::path& folder, const nlohmann::json& entry) {
    if (!entry.is_object() || !entry.contains("name") || !entry["name"].is_string() ||
        !entry.contains("bytes") || !entry["bytes"].is_number_unsigned() || !entry.contains("xxh64") ||
        !entry["xxh64"].is_string())
        damaged(folder / kName, "expected files with name, bytes and xxh64");
    ManifestFile file{entry["name"].get<std::string>(), entry["bytes"].get<std::int64_t>(),
                      entry["xxh64"].get<std::string>()};
    if (!plain_name(file.name))
        damaged(folder / kName,
                fmt::format("'{}' is not the name of a file of the folder", quoted(file.name)));
    return file;
}

std::vector<ManifestFile> read_manifest(const InputFolder& folder) {
    const fs::path path = folder / kName;
    const nlohmann::json manifest = read_json(folder, kName);
    if (!manifest.is_object() || manifest.value("format", nlohmann::json()) != kFormat ||
        !manifest.contains("files") || !manifest["files"].is_array())
        damaged(path, "expected the manifest of a checkpoint");
    if (manifest.value("version", nlohmann::json()) != kVersion)
        throw DataError(fmt::format(
            "{}: expected version {} of the format, found {}; elmo {} wrote this checkpoint and this "
            "is elmo {}: take that one, or train again",
            path.string(), kVersion,
            quoted(json_string(manifest.value("version", nlohmann::json()), -1, true)),
            quoted(json_string(manifest.value("elmo", nlohmann::json()), -1, true)), version()));
    std::vector<ManifestFile> files;
    std::set<std::string> names;
    for (const auto& entry : manifest["files"]) {
        files.push_back(parse_entry(folder.path(), entry));
        if (!names.insert(files.back().name).second)
            damaged(path,
                    fmt::format("expected each file once, found '{}' twice", quoted(files.back().name)));
    }
    return files;
}

void check_file(const InputFolder& folder, const ManifestFile& file, bool size_alone) {
    const fs::path path = folder / file.name;
    if (!folder.has(file.name)) damaged(folder.path(), fmt::format("{} is missing", quoted(file.name)));
    const std::int64_t size = folder.size(file.name);
    if (size != file.bytes) damaged(path, fmt::format("expected {} bytes, found {}", file.bytes, size));
    if (size_alone) return;
    const std::string found = hash_text(folder.hash(file.name));
    if (found != file.xxh64)
        damaged(path, fmt::format("expected checksum {}, found {}", quoted(file.xxh64), found));
}

}  // namespace

void write_manifest(const fs::path& folder) {
    std::vector<ManifestFile> files;
    for (const auto& entry : fs::directory_iterator(folder)) {
        const std::string name = entry.path().filename().string();
        if (name == kName) continue;
        files.push_back(
            {name, static_cast<std::int64_t>(entry.file_size()), hash_text(hash_file(entry.path()))});
    }
    std::sort(files.begin(), files.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
    nlohmann::ordered_json manifest = {{"format", kFormat}, {"version", kVersion}, {"elmo", version()}};
    manifest["files"] = nlohmann::ordered_json::array();
    for (const ManifestFile& file : files)
        manifest["files"].push_back({{"name", file.name}, {"bytes", file.bytes}, {"xxh64", file.xxh64}});
    write_file_atomically(folder / kName, json_string(manifest, 2) + "\n");
}

InputFolder pin_manifest(const fs::path& folder) {
    const InputFolder pinned = InputFolder::pin(folder, kName, [](const InputFolder& opened) {
        std::vector<std::string> names;
        for (const ManifestFile& file : read_manifest(opened)) names.push_back(file.name);
        return names;
    });
    if (!pinned.has(kName))
        throw DataError(fmt::format("{}: expected a checkpoint, found no {}", folder.string(), kName));
    return pinned;
}

std::vector<ManifestFile> check_manifest(const InputFolder& folder,
                                         const std::function<bool(const std::string& name)>& trusted) {
    std::vector<ManifestFile> files = read_manifest(folder);
    for (const ManifestFile& file : files) check_file(folder, file, trusted(file.name));
    return files;
}

}  // namespace elmo
