#include "study/study_files.h"

#include <fmt/format.h>

#include "io/atomic_file.h"

namespace elmo {
namespace fs = std::filesystem;

StudyFiles write_study(const Study& study, const Provenance& provenance, const fs::path& folder) {
    fs::create_directories(folder);
    StudyFiles files;
    files.content = study_json(study, provenance);
    files.tables = study_text(study);
    const auto write = [&](const std::string& name, const std::string& content) {
        write_file_atomically(folder / name, content);
        return (folder / name).string();
    };
    for (std::size_t t = 0; t < study.tables.size(); ++t) {
        const Table& table = study.tables[t];
        const std::string path =
            write(t == 0 ? "study.csv" : fmt::format("study.{}.csv", table.name), table_csv(table));
        if (t == 0) files.csv = path;
    }
    files.html = write("study.html", study_page(study, provenance));
    files.json = write("study.json", files.content);
    return files;
}

}  // namespace elmo
