#include "program.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <fstream>
#include <iterator>

namespace elmo {
namespace {

void redirect(const std::filesystem::path& path, int flags, int target) {
    const int fd = open(path.c_str(), flags, 0600);
    if (fd < 0 || dup2(fd, target) < 0) _exit(99);
    close(fd);
}

Outcome run(const Words& words, const std::string& input) {
    const TempFolder folder;
    folder.write("in", input);
    std::vector<char*> argv;
    for (const std::string& word : words) argv.push_back(const_cast<char*>(word.c_str()));
    argv.push_back(nullptr);
    const pid_t child = fork();
    if (child == 0) {
        redirect(folder.path("in"), O_RDONLY, STDIN_FILENO);
        redirect(folder.path("out"), O_WRONLY | O_CREAT, STDOUT_FILENO);
        redirect(folder.path("err"), O_WRONLY | O_CREAT, STDERR_FILENO);
        execv(argv[0], argv.data());
        _exit(99);
    }
    int status = 0;
    waitpid(child, &status, 0);
    return {WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status), slurp(folder.path("out")),
            slurp(folder.path("err"))};
}

}  // namespace

Words operator+(Words a, const Words& b) {
    a.insert(a.end(), b.begin(), b.end());
    return a;
}

Outcome run_elmo(const Words& words, const std::string& input) {
    return run(Words{ELMO_BINARY} + words, input);
}

Outcome run_shell(const std::string& line, const std::filesystem::path& folder) {
    setenv("ELMO", ELMO_BINARY, 1);
    return run({"/bin/bash", "-c", line, folder.string()}, "");
}

TempFolder::TempFolder() {
    static std::atomic<int> count{0};
    path_ = std::filesystem::temp_directory_path() /
            ("elmo_cli_" + std::to_string(getpid()) + "_" + std::to_string(count++));
    std::filesystem::create_directories(path_);
}

TempFolder::~TempFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
}

std::string TempFolder::write(const std::string& name, const std::string& bytes) const {
    std::filesystem::create_directories(path(name).parent_path());
    std::ofstream(path(name), std::ios::binary) << bytes;
    return text(name);
}

void write_small_data(const TempFolder& folder, const std::string& name) {
    const char* animals[] = {"cat", "dog", "horse", "sparrow", "trout", "beetle"};
    const char* verbs[] = {"sleeps", "runs", "eats", "jumps", "hides"};
    const auto split = [&](const std::string& prefix, int rows) {
        std::string texts, labels = std::to_string(rows) + " 6\n";
        for (int i = 0; i < rows; ++i) {
            texts += std::string("the ") + animals[i % 6] + " " + verbs[i % 5] + " near the house\n";
            labels += std::to_string(i % 6) + ":1\n";
        }
        folder.write(name + "/" + prefix + "_X.txt", texts);
        folder.write(name + "/" + prefix + "_X_Y.txt", labels);
    };
    split("trn", 60);
    split("tst", 20);
    std::string names;
    for (const char* animal : animals) names += std::string("kind of ") + animal + "\n";
    folder.write(name + "/Y.txt", names);
}

Words small_model() {
    return {"--width",      "32",  "--batch-size", "6", "--epochs",    "20",  "--vocab-size", "100",
            "--max-length", "16",  "--dropout",    "0", "--head-lr",   "0.1", "--encoder-lr", "0.01",
            "--validation", "0.1", "--threads",    "1", "--log-every", "10",  "--quiet"};
}

void expect_failure(const Outcome& outcome, int status, const std::vector<std::string>& parts) {
    EXPECT_EQ(outcome.status, status) << outcome.err;
    EXPECT_EQ(outcome.out, "");
    const std::size_t last = outcome.err.find("elmo: error: ");
    ASSERT_NE(last, std::string::npos) << outcome.err;
    EXPECT_TRUE(last == 0 || outcome.err[last - 1] == '\n') << outcome.err;
    EXPECT_EQ(outcome.err.find('\n', last), outcome.err.size() - 1) << "more than one line: " << outcome.err;
    for (const std::string& part : parts)
        EXPECT_NE(outcome.err.find(part, last), std::string::npos) << part << "\nnot in: " << outcome.err;
}

void expect_success(const Outcome& outcome) {
    EXPECT_EQ(outcome.status, 0) << outcome.err;
}

bool contains(const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
}

std::string slurp(const std::filesystem::path& path) {
    std::ifstream in(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

}  // namespace elmo
