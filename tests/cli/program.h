// Runs the program as a user would and looks at its status, standard output and standard error.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace elmo {

struct Outcome {
    int status = 0;   // of the program, or 128 + signal
    std::string out;  // standard output
    std::string err;  // standard error
};

using Words = std::vector<std::string>;

// `elmo words...` with `input` on standard input.
Outcome run_elmo(const Words& words, const std::string& input = {});
// A shell line where $ELMO is the program and $0 the folder of the test.
Outcome run_shell(const std::string& line, const std::filesystem::path& folder = {});

// A separate folder, removed with the object.
class TempFolder {
  public:
    TempFolder();
    ~TempFolder();
    TempFolder(const TempFolder&) = delete;
    TempFolder& operator=(const TempFolder&) = delete;

    std::filesystem::path path(const std::string& name = {}) const {
        return name.empty() ? path_ : path_ / name;
    }
    std::string text(const std::string& name = {}) const { return path(name).string(); }
    // Writes a file, with the folders on its way.
    std::string write(const std::string& name, const std::string& bytes) const;

  private:
    std::filesystem::path path_;
};

// A small data set in the XMC repository layout: 60 training and 20 test texts, 6 labels that follow from
// words.
void write_small_data(const TempFolder& folder, const std::string& name);
// Flags with which training on it takes no time.
Words small_model();

Words operator+(Words a, const Words& b);

// The status is 1 or 2, standard output is empty, and standard error ends in one "elmo: error: ..." line that
// holds every one of `parts`.
void expect_failure(const Outcome& outcome, int status, const std::vector<std::string>& parts);
void expect_success(const Outcome& outcome);

bool contains(const std::string& text, const std::string& part);
std::string slurp(const std::filesystem::path& path);

}  // namespace elmo
