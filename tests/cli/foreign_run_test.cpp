// A run folder from somebody else, whose recipe names files and folders of this machine. Every verb works
// with what the user names, or refuses; nothing else is opened, not even to be looked at.
#include <gtest/gtest.h>
#include <sys/inotify.h>
#include <unistd.h>

#include <array>
#include <optional>
#include <regex>

#include "base/text_util.h"
#include "cli/program.h"
#include "run/manifest.h"

namespace elmo {
namespace {

namespace fs = std::filesystem;

// What happens in a folder and to its files, except that somebody asks for their status.
class Watch {
  public:
    explicit Watch(const fs::path& folder) : descriptor_(::inotify_init1(IN_NONBLOCK | IN_CLOEXEC)) {
        if (::inotify_add_watch(descriptor_, folder.c_str(), IN_ALL_EVENTS) < 0)
            throw std::runtime_error("inotify failed");
    }
    ~Watch() { ::close(descriptor_); }
    Watch(const Watch&) = delete;
    Watch& operator=(const Watch&) = delete;

    // The names of what was touched since the last call.
    std::string touched() {
        alignas(inotify_event) std::array<char, 65536> bytes{};
        const ssize_t got = ::read(descriptor_, bytes.data(), bytes.size());
        std::string names;
        for (ssize_t at = 0; at < got;) {
            const auto* event = reinterpret_cast<const inotify_event*>(bytes.data() + at);
            names += (event->len > 0 ? std::string(event->name) : std::string("the folder")) + " ";
            at += static_cast<ssize_t>(sizeof(inotify_event) + event->len);
        }
        return names;
    }

  private:
    int descriptor_;
};

class ForeignRun : public ::testing::Test {
  protected:
    void SetUp() override {
        write_small_data(temp, "data");
        // Rows that would do as data of the run, so that nothing but the rule keeps them from being read.
        write_small_data(temp, "outside");
        for (const char* name : {"val_X.txt", "val_X_Y.txt"}) {
            std::string source = std::string("outside/tst") + (name + 3);
            fs::copy_file(temp.path(source), temp.path(std::string("outside/") + name));
        }
        temp.write("outside/pairs.txt", "0 1\n");
        temp.write("new.txt", "kind of whale\n");
        temp.write("texts.txt", "the cat sleeps\n");
        const Outcome trained = run_elmo(Words{"train", temp.text("data"), "--out", temp.text("run"),
                                               "--steps", "8", "--save-every", "4"} +
                                         small_model());
        expect_success(trained);
        watch.emplace(temp.path("outside"));
    }
    // Values of the recipe of both checkpoints, whose manifests are made right again.
    void poison(const std::vector<std::pair<std::string, std::string>>& values) const {
        for (const char* which : {"run/best", "run/last"}) {
            if (!fs::exists(temp.path(which))) continue;
            std::string recipe = read_file(temp.path(which) / "recipe.toml");
            for (const auto& [key, value] : values)
                recipe = std::regex_replace(recipe, std::regex("(^|\n)" + key + " = [^\n]*"),
                                            "$1" + key + " = '" + value + "'");
            temp.write(std::string(which) + "/recipe.toml", recipe);
            write_manifest(temp.path(which));
        }
    }
    // The run as it is now, so that a verb that writes leaves it to the next one as it was.
    void expect_not_touched(Words words) {
        fs::remove_all(temp.path("kept"));
        fs::copy(temp.path("run"), temp.path("kept"), fs::copy_options::recursive);
        std::string line;
        for (const std::string& word : words) line += word + " ";
        SCOPED_TRACE(line);
        const Outcome outcome = run_elmo(words);
        EXPECT_TRUE(outcome.status >= 0 && outcome.status <= 2) << outcome.status << outcome.err;
        EXPECT_EQ(watch->touched(), "") << outcome.err;
        errors = outcome.err;
        status = outcome.status;
        fs::remove_all(temp.path("run"));
        fs::rename(temp.path("kept"), temp.path("run"));
        fs::remove_all(temp.path("made"));
    }
    void expect_no_verb_touches() {
        const std::string run = temp.text("run"), data = temp.text("data"), made = temp.text("made"),
                          texts = temp.text("texts.txt");
        for (const std::string verb : {"inspect", "eval", "calibrate"}) expect_not_touched({verb, run});
        expect_not_touched({"inspect", run, "--json"});
        for (const std::string split : {"test", "train", "validation", "all", "auto"})
            expect_not_touched({"eval", run, data, "--split", split});
        expect_not_touched({"eval", run, run, data});
        expect_not_touched({"eval", run, run});
        expect_not_touched({"eval", run, data, "--errors", "3", "--per-label", made});
        expect_not_touched({"calibrate", run, data});
        expect_not_touched({"predict", run, texts});
        EXPECT_EQ(status, 0) << errors;
        expect_not_touched({"predict", run, texts, "--out", made});
        EXPECT_EQ(status, 0) << errors;
        expect_not_touched({"explain", run, "--text", "the cat sleeps"});
        EXPECT_EQ(status, 0) << errors;
        expect_not_touched({"refine", run, "--out", made});
        expect_not_touched({"refine", run, data, "--out", made});
        expect_not_touched({"labels", "list", run});
        expect_not_touched({"labels", "add", run, temp.text("new.txt"), "--out", made, "--steps", "2"});
        expect_not_touched({"labels", "add", run, temp.text("new.txt"), "--data", data, "--out", made});
        expect_not_touched({"labels", "remove", run, temp.text("new.txt"), "--out", made});
        expect_not_touched({"train", "--out", run, "--resume"});
        expect_not_touched({"train", data, "--out", run, "--resume"});
        expect_not_touched({"train", data, "--out", made, "--init", run, "--steps", "2"});
        expect_not_touched({"train", "--out", made, "--init", run, "--steps", "2"});
        expect_not_touched({"plan", "--init", run});
        expect_not_touched({"train", data, "--out", made, "--encoder", run, "--steps", "2"});
        expect_not_touched({"tokenize", "--tokenizer", run + "/best", texts});
    }

    TempFolder temp;
    std::optional<Watch> watch;
    std::string errors;
    int status = 0;
};

TEST_F(ForeignRun, ItsDataIsNotRead) {
    poison({{"data", temp.text("outside")}});
    expect_no_verb_touches();
    const std::vector<std::string> parts = {"data: ", temp.text("outside"), "only the run names",
                                            "name it with --data"};
    expect_failure(run_elmo({"eval", temp.text("run")}), 2, parts);
    expect_failure(run_elmo({"train", "--out", temp.text("run"), "--resume"}), 2, parts);
    expect_success(run_elmo({"eval", temp.text("run"), temp.text("outside")}));  // the user names it
    EXPECT_NE(watch->touched(), "");
}

TEST_F(ForeignRun, ItsFilesBesideTheDataAreNotRead) {
    poison({{"validation", temp.text("outside/val_X.txt")},
            {"filter", temp.text("outside/pairs.txt")},
            {"label_weights", temp.text("outside/pairs.txt")}});
    expect_no_verb_touches();
    const std::string run = temp.text("run"), data = temp.text("data"),
                      pairs = temp.text("outside/pairs.txt"), rows = temp.text("outside/val_X.txt");
    expect_failure(run_elmo({"eval", run, data}), 2, {"filter: ", pairs, "--set filter=" + pairs});
    expect_success(run_elmo({"eval", run, data, "--filter", "none"}));
    EXPECT_EQ(watch->touched(), "");
    expect_failure(run_elmo({"calibrate", run, data, "--filter", "none"}), 2, {"validation: ", rows});
    expect_success(run_elmo({"eval", run, data, "--filter", pairs}));
    EXPECT_NE(watch->touched(), "");
}

TEST_F(ForeignRun, ItsLabelWeightsAreNotRead) {
    temp.write("outside/weights.txt", "0 2\n");
    watch.emplace(temp.path("outside"));
    const std::string weights = temp.text("outside/weights.txt");
    poison({{"label_weights", weights}});
    expect_no_verb_touches();
    const Words start = Words{"train",          temp.text("data"), "--out", temp.text("made"), "--init",
                              temp.text("run"), "--steps",         "2",     "--label-weights"};
    expect_failure(run_elmo(Words(start.begin(), start.end() - 1)), 2,
                   {"label_weights: ", weights, "only the run names", "--label-weights"});
    expect_success(run_elmo(start + Words{""}));
    EXPECT_EQ(watch->touched(), "");
}

TEST_F(ForeignRun, ItsOtherPathsAreNotRead) {
    poison({{"cache", temp.text("outside")},
            {"tokenizer", temp.text("outside")},
            {"encoder", temp.text("outside")},
            {"init", temp.text("outside")},
            {"out", temp.text("outside/made")},
            {"save_predictions", temp.text("outside/made")},
            {"save_scores", temp.text("outside/made")},
            {"per_label", temp.text("outside/made")},
            {"predictions", temp.text("outside/pairs.txt")}});
    expect_no_verb_touches();
    fs::remove_all(temp.path("outside/made"));
}

// What replaced a file or folder under its name is known to the user who had that read, and to nobody else:
// not to one who has only copies of the marks.
TEST_F(ForeignRun, WhatReplacedAPathIsKnownToItsUserOnly) {
    const std::string run = temp.text("run"), data = temp.text("data");
    expect_success(run_elmo({"eval", run}));
    fs::rename(data, data + "-gone");
    fs::copy(data + "-gone", data, fs::copy_options::recursive);
    expect_failure(run_shell("XDG_CACHE_HOME=\"$0/other\" $ELMO eval \"$0/run\"", temp.path()), 2,
                   {"data: ", data, "only the run names"});
    expect_success(run_elmo({"eval", run}));
}

// Whoever asks the server sees the recipe; the server opens nothing that it names.
TEST_F(ForeignRun, IsServed) {
    poison({{"data", temp.text("outside")},
            {"cache", temp.text("outside")},
            {"validation", temp.text("outside/val_X.txt")},
            {"filter", temp.text("outside/pairs.txt")}});
    const Outcome served = run_shell(
        "cd \"$0\"; $ELMO serve run --port 0 >out 2>err & server=$!\n"
        "until grep -q port out || ! kill -0 $server 2>/dev/null; do sleep 0.05; done\n"
        "port=$(sed -n 's/.*port.:\\([0-9]*\\).*/\\1/p' out | head -n 1)\n"
        "for route in /v1/run /metrics /v1/labels /; do\n"
        "bash -c 'exec 3<>/dev/tcp/127.0.0.1/'$port'; printf \"GET '$route' HTTP/1.1\\r\\nHost: "
        "127.0.0.1\\r\\nConnection: close\\r\\n\\r\\n\" >&3; cat <&3' | head -n 1; done\n"
        "kill $server; wait $server",
        temp.path());
    EXPECT_NE(served.out.find("200"), std::string::npos)
        << served.out << served.err << read_file(temp.path("err"));
    EXPECT_EQ(watch->touched(), "");
}

}  // namespace
}  // namespace elmo
