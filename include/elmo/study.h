// `elmo study`: questions about precision, memory and speed, each answered by a folder with study.json,
// study.csv and study.html (one page with charts that opens from disk).
#pragma once

#include <map>
#include <string>
#include <vector>

#include "elmo/api.h"
#include "elmo/config.h"
#include "elmo/context.h"

namespace elmo {

struct StudyInfo {
    std::string name, summary;
};
// All studies, in the order of the help.
ELMO_API std::vector<StudyInfo> studies();

struct StudyRequest {
    std::string name;
    Config config;  // config.out is the folder
    std::map<std::string, std::string>
        settings;         // flags of the verb that are not options: "values", "measure"
    std::string command;  // as it was typed, for the page
};

struct StudyFiles {
    std::string json, csv, html;  // paths of what was written
    std::string tables;           // the study's tables as text, for people
    std::string content;          // of study.json
};

// What the study starts from, complete, with the reason for each value; it says itself what it varies. The
// options of `paper` as they are given, beside which each of its runs has a recipe. ConfigError, DataError.
ELMO_API Config resolve_study(const Context& context, const StudyRequest& request);

// Runs the study and writes its files. ConfigError for an unknown name, a missing config.out, or a folder
// that already holds a study if neither overwrite nor resume is set.
ELMO_API StudyFiles run_study(const Context& context, const StudyRequest& request);

}  // namespace elmo
