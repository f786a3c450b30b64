// The program: `elmo serve` from its start to the signal that ends it, and `elmo explain`.
#include <sys/wait.h>

#include <array>
#include <csignal>
#include <cstdio>

#include "serve/served.h"

namespace elmo {
namespace {

using namespace test;

// A process of the program, whose standard output is read line by line.
class Process {
  public:
    explicit Process(std::vector<std::string> words) {
        std::array<int, 2> ends{};
        if (::pipe(ends.data()) != 0) throw std::runtime_error("pipe failed");
        process_ = ::fork();
        if (process_ == 0) {
            ::dup2(ends[1], STDOUT_FILENO);
            ::close(ends[0]);
            words.insert(words.begin(), ELMO_BINARY);
            std::vector<char*> arguments;
            for (std::string& word : words) arguments.push_back(word.data());
            arguments.push_back(nullptr);
            ::execv(ELMO_BINARY, arguments.data());
            ::_exit(127);
        }
        ::close(ends[1]);
        out_ = ::fdopen(ends[0], "r");
    }
    ~Process() {
        if (process_ > 0) end(SIGKILL);
        std::fclose(out_);
    }
    std::string line() {
        std::string line;
        for (int c = std::fgetc(out_); c != EOF && c != '\n'; c = std::fgetc(out_))
            line += static_cast<char>(c);
        return line;
    }
    void signal(int number) { ::kill(process_, number); }
    int end(int number = 0) {
        if (number != 0) signal(number);
        int status = 0;
        ::waitpid(process_, &status, 0);
        process_ = -1;
        return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    }

  private:
    pid_t process_ = -1;
    FILE* out_ = nullptr;
};

class ServeProgram : public Serve {};

TEST_F(ServeProgram, AnswersUntilASignalAndEndsWell) {
    write_text(tiny_runs().temp / "tokens.txt", "# for tests\none\n\ntwo\n");
    Process program({"serve", bag(), linear(), "--port", "0", "--device", "cpu", "--quiet", "--token-file",
                     tiny_runs().temp / "tokens.txt"});
    const auto ready = nlohmann::json::parse(program.line());
    EXPECT_EQ(ready["event"], "ready");
    Client one(ready["port"].get<int>());
    EXPECT_EQ(one.get("/v1/models").status, 401);
    EXPECT_EQ(one.get("/v1/models", "Authorization: Bearer two\r\n").json()["models"].size(), 2u);
    EXPECT_EQ(nlohmann::json::parse(program.line())["status"], 401);
    EXPECT_EQ(nlohmann::json::parse(program.line())["status"], 200);
    program.signal(SIGHUP);  // looks for new checkpoints, and goes on
    EXPECT_EQ(one.get("/healthz").status, 200);
    one.send("P");
    program.signal(SIGTERM);
    one.send(Client::request("/v1/predict", R"({"text":"a","model":"bag"})", "Authorization: Bearer one\r\n")
                 .substr(1));
    EXPECT_EQ(one.receive().status, 200);
    EXPECT_EQ(program.end(), 0);
}

TEST_F(ServeProgram, WrongUsageIsSaid) {
    EXPECT_EQ(Process({"serve"}).end(), 2);
    EXPECT_EQ(Process({"serve", bag(), "--port", "x"}).end(), 2);
    EXPECT_EQ(Process({"serve", bag(), "--port", "70000"}).end(), 2);
    EXPECT_EQ(Process({"serve", bag(), "--token-file", "/nowhere"}).end(), 1);
    EXPECT_EQ(Process({"serve", "/nowhere", "--port", "0"}).end(), 1);
    EXPECT_EQ(Process({"explain", bag()}).end(), 2);
    EXPECT_EQ(Process({"explain", bag(), "--text", "a", "--label", "none"}).end(), 1);
}

TEST_F(ServeProgram, ExplainPrintsTheWordsOfALabel) {
    Process program({"explain", linear(), "--text", text, "--label", "kind 5", "--quiet"});
    EXPECT_EQ(program.line(), text);
    EXPECT_NE(program.line().find("\t5\tkind 5"), std::string::npos);
    EXPECT_NE(program.line().find(word_of(5)), std::string::npos);
    Process json({"explain", bag(), "--text", text, "--json", "--quiet"});
    EXPECT_EQ(nlohmann::json::parse(json.line())["labels"].size(), 3u);
    EXPECT_EQ(json.end(), 0);
    std::vector<std::string> six = {"explain", bag(), "--text", text, "--json", "--quiet"};
    for (int label = 1; label <= 6; ++label) six.insert(six.end(), {"--label", std::to_string(label)});
    Process all(six);
    EXPECT_EQ(nlohmann::json::parse(all.line())["labels"].size(), 6u);
    EXPECT_EQ(all.end(), 0);
}

}  // namespace
}  // namespace elmo
