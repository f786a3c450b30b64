// manifest.json of a checkpoint folder: every file with its size and XXH64, so that a truncated or damaged
// checkpoint is detected before it is used.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "io/input_folder.h"

namespace elmo {

struct ManifestFile {
    std::string name;
    std::int64_t bytes = 0;
    std::string xxh64;  // 16 hexadecimal digits
};

// Hashes every file of the folder and writes manifest.json beside them.
void write_manifest(const std::filesystem::path& folder);

// The folder with all files that its manifest.json names, opened at one moment. DataError for a missing or
// malformed manifest; names never lead outside the folder.
InputFolder pin_manifest(const std::filesystem::path& folder);

// Checks every file that manifest.json names. DataError, naming file, expected and found, for a missing file,
// another size or another checksum. Files for which `trusted` is true are not read: only their size is
// compared.
std::vector<ManifestFile> check_manifest(
    const InputFolder& folder,
    const std::function<bool(const std::string& name)>& trusted = [](const std::string&) { return false; });

}  // namespace elmo
