#include "sources/source_stamps.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include "elmo/error.h"

namespace elmo {
namespace fs = std::filesystem;
namespace {

std::string stamp_of(const fs::path& file) {
    struct stat info {};
    if (::stat(file.c_str(), &info) != 0) return "absent";
    return fmt::format("{} {} {} {}.{:09}", info.st_dev, info.st_ino, info.st_size, info.st_mtim.tv_sec,
                       info.st_mtim.tv_nsec);
}

}  // namespace

SourceStamps::SourceStamps(const Layout& layout) {
    const auto add = [&](const fs::path& file) {
        if (!file.empty()) files_.emplace_back(file, stamp_of(file));
    };
    for (const SplitName split : kAllSplits)
        for (const fs::path* file :
             {&layout.files(split).text, &layout.files(split).labels, &layout.files(split).filter})
            add(*file);
    add(layout.label_names);
}

void SourceStamps::require_unchanged() const {
    for (const auto& [file, stamp] : files_)
        if (stamp_of(file) != stamp)
            throw DataError(
                fmt::format("{}: expected a file that stays as it is while the data set is read, found that "
                            "it was changed meanwhile; start again",
                            file.string()));
}

}  // namespace elmo
