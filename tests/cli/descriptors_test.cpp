// Standard descriptors that are closed or cannot be written, and limits of the shell: what is written to
// files stays right, and the status says what happened.
#include <gtest/gtest.h>
#include <pty.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <iterator>

#include "program.h"

namespace elmo {
namespace {

// What the program writes to a terminal, standard output and error together.
std::string on_terminal(const Words& words) {
    Words all = Words{ELMO_BINARY} + words;
    std::vector<char*> argv;
    for (std::string& word : all) argv.push_back(word.data());
    argv.push_back(nullptr);
    int terminal = -1;
    const pid_t child = forkpty(&terminal, nullptr, nullptr, nullptr);
    if (child == 0) {
        execv(argv[0], argv.data());
        _exit(99);
    }
    std::string shown;
    char buffer[4096];
    for (ssize_t n; (n = read(terminal, buffer, sizeof buffer)) > 0;)
        shown.append(buffer, static_cast<std::size_t>(n));
    close(terminal);
    waitpid(child, nullptr, 0);
    return shown;
}

// A trained run, the answers to its texts, and lines of shell in its folder.
class ClosedDescriptors : public testing::Test {
  protected:
    void SetUp() override {
        write_small_data(folder_, "data");
        expect_success(
            run_elmo(Words{"train", folder_.text("data"), "--out", folder_.text("run"), "--steps", "4"} +
                     small_model()));
        expect_success(shell("$ELMO predict run data/tst_X.txt --out answers -q"));
        answers_ = slurp(folder_.path("answers"));
        ASSERT_NE(answers_, "");
    }
    Outcome shell(const std::string& line) const { return run_shell("cd \"$0\" && " + line, folder_.path()); }

    TempFolder folder_;
    std::string answers_;
};

TEST_F(ClosedDescriptors, MessagesNeverGoIntoAnOutputFile) {
    EXPECT_EQ(shell("$ELMO predict run data/tst_X.txt --out a 2>&-").status, 0);
    EXPECT_TRUE(slurp(folder_.path("a")) == answers_);
    shell("$ELMO predict run data/tst_X.txt --out b <&- >&- 2>&-");
    EXPECT_TRUE(slurp(folder_.path("b")) == answers_);
    EXPECT_EQ(shell("$ELMO eval run data --save-predictions p -q").status, 0);
    EXPECT_EQ(shell("$ELMO eval run data --save-predictions q <&- 2>&-").status, 0);
    EXPECT_TRUE(slurp(folder_.path("q")) == slurp(folder_.path("p")));
    EXPECT_EQ(shell("$ELMO data convert data --to tsv --out c -q").status, 0);
    EXPECT_EQ(shell("$ELMO data convert data --to tsv --out d <&- 2>&-").status, 0);
    EXPECT_EQ(shell("diff -r c d").status, 0);
    shell("$ELMO train data --out run2 --steps 4 --width 8 --vocab-size 100 >&- 2>&-");
    std::ifstream log(folder_.path("run2/log.jsonl"));
    int lines = 0;
    for (std::string line; std::getline(log, line); ++lines) EXPECT_EQ(line.substr(0, 1), "{") << line;
    EXPECT_GT(lines, 2);
}

// Lost results are a failure.
TEST_F(ClosedDescriptors, ClosedStandardOutputIsAnError) {
    expect_failure(shell("$ELMO predict run data/tst_X.txt >&-"), 1, {"standard output"});
    expect_failure(shell("$ELMO predict run - <&-"), 1, {"Bad file descriptor"});
}

TEST(Descriptors, AnErrorThatCannotBeWrittenKeepsItsStatus) {
    for (const char* where : {"2>/dev/full", "2>&-", "2> >(exec true)"}) {
        EXPECT_EQ(run_shell(std::string("$ELMO predict nosuch nothing ") + where).status, 1) << where;
        EXPECT_EQ(run_shell(std::string("$ELMO nonsense ") + where).status, 2) << where;
    }
}

// Escape sequences in the name of a label, or in the name of a file that is not there.
TEST(Terminal, GetsNoControlCharacters) {
    const TempFolder folder;
    std::string rows;
    for (int i = 0; i < 60; ++i) rows += "one two n" + std::to_string(i) + "\tev\x1b[2J\x1b]0;X\x07il\n";
    folder.write("data.tsv", rows);
    folder.write("texts", "one \x1b]52;c;AAAA\x07 two\n");
    expect_success(
        run_elmo(Words{"train", folder.text("data.tsv"), "--out", folder.text("run"), "--steps", "2"} +
                 small_model()));
    const std::string shown = on_terminal({"predict", folder.text("run"), folder.text("texts")});
    EXPECT_NE(shown.find("ev\\x1b[2J"), std::string::npos) << shown;
    EXPECT_EQ(shown.find('\x1b'), std::string::npos);
    const std::string error = on_terminal({"predict", folder.text("no\x1b[2Jrun"), folder.text("texts")});
    EXPECT_NE(error.find("no\\x1b[2Jrun"), std::string::npos) << error;
    EXPECT_EQ(error.find('\x1b'), std::string::npos);
    // A file or a pipe gets the bytes.
    EXPECT_NE(run_elmo({"predict", folder.text("run"), folder.text("texts")}).out.find('\x1b'),
              std::string::npos);
}

TEST_F(ClosedDescriptors, AMappedFileThatIsCutShortIsAnError) {
    const Outcome outcome = shell(
        "mkfifo in; $ELMO predict run - --batch-size 1 <in >out 2>err & pid=$!; exec 3>in; "
        "echo the cat sleeps >&3; until [ -s out ] || ! kill -0 $pid; do sleep 0.02; done; "
        ": > run/best/head-00001-of-00001.safetensors; echo the dog runs >&3; exec 3>&-; wait $pid; "
        "status=$?; cat err >&2; exit $status");
    EXPECT_EQ(outcome.status, 1);
    EXPECT_NE(outcome.err.find("cut short"), std::string::npos) << outcome.err;
}

// Batch systems limit the size of files: a failed write, not a death by SIGXFSZ.
TEST_F(ClosedDescriptors, ALimitOnFileSizeIsAFailedWrite) {
    const Outcome outcome =
        shell("ulimit -f 8; exec $ELMO train data --out run3 --steps 4 --width 64 --vocab-size 100 -q");
    expect_failure(outcome, 1, {"File too large"});
}

}  // namespace
}  // namespace elmo
