// The files of a study, and the facts about where it was made.
#pragma once

#include <filesystem>
#include <string>

#include "elmo/study.h"
#include "page/study.h"

namespace elmo {

Provenance provenance_now(const std::string& command);

// Writes study.json, study.csv (further tables: study.NAME.csv) and study.html, each complete or not at all.
// The folder is created if it is missing.
StudyFiles write_study(const Study& study, const Provenance& provenance, const std::filesystem::path& folder);

}  // namespace elmo
