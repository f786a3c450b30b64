// Atomic files and folders: what is left after success, failure, a full disk and a killed process.
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <functional>
#include <random>

#include "formats/json_lines.h"
#include "io/atomic_file.h"
#include "io/atomic_folder.h"
#include "io/temp_folder.h"
#include "io/temporary.h"

namespace elmo {
namespace {

namespace fs = std::filesystem;
using Names = std::set<std::string>;

TEST(AtomicFile, AppearsWholeOnCommit) {
    TempFolder folder;
    spill(folder / "a", "old");
    {
        AtomicFile file(folder / "a");
        file.write("new");
        file.write(" content");
        EXPECT_EQ(slurp(folder / "a"), "old");
        EXPECT_EQ(folder.entries().size(), 2u);
        file.commit();
    }
    EXPECT_EQ(slurp(folder / "a"), "new content");
    EXPECT_EQ(folder.entries(), Names{"a"});
    write_file_atomically(folder / "b", std::string(1 << 20, 'b'));
    EXPECT_EQ(slurp(folder / "b"), std::string(1 << 20, 'b'));
}

TEST(AtomicFile, TwoThatBeginAlikeEndUnderTheirOwnNames) {
    TempFolder folder;
    AtomicFile one(folder / "partial"), other(folder / "partial");
    one.write("same, one");
    other.write("same, other");
    one.commit_as(folder / "one");
    other.commit_as(folder / "other");
    EXPECT_EQ(slurp(folder / "one"), "same, one");
    EXPECT_EQ(slurp(folder / "other"), "same, other");
    EXPECT_EQ(folder.entries(), (Names{"one", "other"}));
}

TEST(AtomicFile, WithoutCommitNothingChanges) {
    TempFolder folder;
    spill(folder / "a", "old");
    {
        AtomicFile file(folder / "a");
        file.write("new");
        AtomicFile moved(std::move(file));
    }
    EXPECT_EQ(slurp(folder / "a"), "old");
    EXPECT_EQ(folder.entries(), Names{"a"});
}

TEST(AtomicFile, KeepsModeAndFollowsLinks) {
    TempFolder folder;
    fs::create_directory(folder / "real");
    spill(folder / "real/a", "old");
    ASSERT_EQ(::chmod((folder / "real/a").c_str(), 0640), 0);
    fs::create_symlink("real/a", folder / "link");
    write_file_atomically(folder / "link", "new");
    EXPECT_TRUE(fs::is_symlink(folder / "link"));
    EXPECT_EQ(slurp(folder / "real/a"), "new");
    EXPECT_EQ(static_cast<int>(fs::status(folder / "real/a").permissions()), 0640);
}

// A name may have 255 bytes; its temporary has more than it.
TEST(AtomicFile, LongNamesAreWritten) {
    const TempFolder folder;
    const std::string first(255, 'm'), second = std::string(254, 'm') + "n";
    write_file_atomically(folder / first, "new");
    EXPECT_EQ(slurp(folder / first), "new");
    // What a dead writer of the one left is cleared by the next writer of that one and by no other.
    const fs::path left = temporary_name(folder / first, "tmp");
    spill(left, "");
    write_file_atomically(folder / second, "other");
    EXPECT_TRUE(fs::exists(left));
    write_file_atomically(folder / first, "again");
    EXPECT_EQ(folder.entries(), (Names{first, second}));
    AtomicFolder(folder / std::string(240, 'f')).commit();
    EXPECT_TRUE(fs::is_directory(folder / std::string(240, 'f')));
}

// A place where no name can be looked up is an error, not an endless loop.
TEST(AtomicFile, NamesThatCannotBeAreRefused) {
    const TempFolder folder;
    fs::create_symlink("b", folder / "a");
    fs::create_symlink("a", folder / "b");
    EXPECT_CONTAINS(data_error_of([&] { AtomicFile file(folder / "a/x"); }), "a/x: cannot create: Too many");
    const std::string name(256, 'm');
    EXPECT_CONTAINS(data_error_of([&] { write_file_atomically(folder / name, ""); }), "name too long");
    spill(folder / "plain", "");
    EXPECT_CONTAINS(data_error_of([&] { AtomicFile file(folder / "plain/x"); }), "Not a directory");
    EXPECT_EQ(folder.entries(), (Names{"a", "b", "plain"}));
}

// A commit would put a file in their place.
TEST(AtomicFile, PipesAndDevicesAreNotReplaced) {
    const TempFolder temp;
    const fs::path pipe = temp / "pipe";
    ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
    fs::create_symlink(pipe, temp / "link");
    EXPECT_THROW(AtomicFile{pipe}, DataError);
    EXPECT_THROW(AtomicFile(temp / "link"), DataError);
    EXPECT_TRUE(fs::is_fifo(pipe));
}

TEST(AtomicFile, ErrorsNameTheTarget) {
    TempFolder folder;
    EXPECT_CONTAINS(data_error_of([&] { AtomicFile file(folder / "none/a"); }),
                    "cannot create: No such file");
    EXPECT_CONTAINS(data_error_of([&] { AtomicFile file(folder.path()); }), "found a folder");
    spill(folder / "a", "");
    EXPECT_CONTAINS(data_error_of([&] { AtomicFolder wrong(folder / "a"); }),
                    "a: expected a folder to replace");
}

// Runs `body` in a child process whose files may not grow beyond `bytes`: what a full disk does, by another
// errno. True when it returned true.
bool with_file_limit(rlim_t bytes, const std::function<bool()>& body) {
    const pid_t child = ::fork();
    if (child == 0) {
        ::signal(SIGXFSZ, SIG_IGN);
        const rlimit limit{bytes, bytes};
        ::setrlimit(RLIMIT_FSIZE, &limit);
        bool good = false;
        try {
            good = body();
        } catch (...) {
        }
        ::_exit(good ? 0 : 1);
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

std::string message_of(const std::function<void()>& action) {
    try {
        action();
    } catch (const DataError& error) {
        return error.what();
    }
    return "";
}

bool has(const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
}

TEST(AtomicFile, NoRoomKeepsTheOldFile) {
    TempFolder folder;
    spill(folder / "a", "old");
    EXPECT_TRUE(with_file_limit(100000, [&] {
        const std::string message =
            message_of([&] { write_file_atomically(folder / "a", std::string(500000, 'x')); });
        return has(message, (folder / "a").string() +
                                ": cannot write 500000 bytes (100000 of them written): File too large");
    }));
    EXPECT_EQ(slurp(folder / "a"), "old");
    EXPECT_EQ(folder.entries(), Names{"a"});
}

// A real full disk: a tmpfs of 1 MiB in a separate mount namespace.
TEST(AtomicFolder, FullDiskKeepsTheOldFolder) {
    TempFolder folder;
    const pid_t child = ::fork();
    if (child == 0) {
        if (::unshare(CLONE_NEWNS) != 0) ::_exit(77);
        ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr);
        if (::mount("tmpfs", folder.path().c_str(), "tmpfs", 0, "size=1m") != 0) ::_exit(77);
        try {
            {
                AtomicFolder first(folder / "run");
                spill(first.path() / "x", "old");
                first.commit();
            }
            const std::string message = message_of([&] {
                AtomicFolder second(folder / "run");
                AtomicFile file(second.path() / "x");
                for (int i = 0; i < 100; ++i) file.write(std::string(100000, 'x'));
                file.commit();
                second.commit();
            });
            const std::string early = message_of([&] { AtomicFile(folder / "y").reserve(5000000); });
            const bool good = has(early, "y: cannot set 5000000 bytes of disk space aside: No space left") &&
                              has(message, "x: cannot write ") && has(message, "No space left on device") &&
                              slurp(folder / "run/x") == "old" && folder.entries() == Names{"run"};
            ::_exit(good ? 0 : 1);
        } catch (...) {
            ::_exit(2);
        }
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    ASSERT_TRUE(WIFEXITED(status));
    if (WEXITSTATUS(status) == 77) GTEST_SKIP() << "mounting is not allowed here";
    EXPECT_EQ(WEXITSTATUS(status), 0);
}

// By its name: files in it are not brought to the disk one by one.
TEST(AtomicFolder, ItsTemporaryIsToldFromOtherFolders) {
    const TempFolder temp;
    for (const char* name : {"best", "with.dots.tmp-", ".hidden"}) {
        const AtomicFolder folder(fs::path(temp / name));
        EXPECT_TRUE(is_temporary_folder(folder.path())) << folder.path();
        EXPECT_FALSE(is_temporary_folder(folder.target())) << folder.target();
    }
    for (const char* name : {".tmp-1-2", "best.tmp-1-2", ".best.tmp-1", ".best.tmp-1-x", ".best.old-1-2", ""})
        EXPECT_FALSE(is_temporary_folder(name)) << name;
}

TEST(AtomicFolder, ReplacesAsOne) {
    TempFolder folder;
    for (const std::string content : {"first", "second"}) {
        AtomicFolder run(folder / "deep/run/");
        fs::create_directory(run.path() / "sub");
        spill(run.path() / "sub/a", content);
        spill(run.path() / content, "");
        run.commit();
        EXPECT_EQ(slurp(folder / "deep/run/sub/a"), content);
    }
    EXPECT_FALSE(fs::exists(folder / "deep/run/first"));
    EXPECT_TRUE(fs::exists(folder / "deep/run/second"));
    {
        AtomicFolder given_up(folder / "deep/run");
        spill(given_up.path() / "a", "third");
    }
    EXPECT_EQ(slurp(folder / "deep/run/sub/a"), "second");
    EXPECT_EQ(std::distance(fs::directory_iterator(folder / "deep"), {}), 1);
}

TEST(AtomicFolder, TwoRenamesAreRecoveredFrom) {
    TempFolder folder;
    fs::create_directory(folder / "run");
    spill(folder / "run/a", "old");
    fs::create_directory(folder / ".run.tmp-1-1");
    spill(folder / ".run.tmp-1-1/a", "new");
    replace_by_two_renames(folder / ".run.tmp-1-1", folder / "run", /*crash_between=*/true);
    EXPECT_FALSE(fs::exists(folder / "run"));
    recover_folder(folder / "run");
    EXPECT_EQ(slurp(folder / "run/a"), "old");
    EXPECT_EQ(folder.entries(), Names{"run"});

    fs::create_directory(folder / ".run.tmp-1-1");
    spill(folder / ".run.tmp-1-1/a", "new");
    replace_by_two_renames(folder / ".run.tmp-1-1", folder / "run");
    EXPECT_EQ(slurp(folder / "run/a"), "new");
    EXPECT_EQ(folder.entries(), Names{"run"});
}

TEST(Temporary, OnlyAbandonedOnesAreCleared) {
    TempFolder folder;
    const Names users = {".a.tmp-notes", ".a.tmp-1", ".a.tmp-1-2x", ".b.tmp-1-1"};
    for (const auto& name : users) spill(folder / name, "mine");
    spill(folder / ".a.tmp-1-1", "left behind");
    AtomicFile living(folder / "a");
    EXPECT_EQ(folder.entries().size(), users.size() + 1);  // the living one, not the abandoned one
    AtomicFile second(folder / "a");
    EXPECT_EQ(folder.entries().size(), users.size() + 2);
    living.write("1");
    living.commit();
    second.write("2");
    second.commit();
    EXPECT_EQ(slurp(folder / "a"), "2");
    Names left = users;
    left.insert("a");
    EXPECT_EQ(folder.entries(), left);
}

// A child writes generation after generation until it is killed at a random moment; whatever the moment, the
// target is one whole generation, and none older than the last the child reported.
template <class Write, class Check>
void kill_at_random(const Write& write_generation, const Check& check) {
    std::mt19937 random(7);
    for (int round = 0; round < 40; ++round) {
        int pipe_ends[2];
        ASSERT_EQ(::pipe(pipe_ends), 0);
        const pid_t child = ::fork();
        if (child == 0) {
            try {
                for (int generation = round * 100000;; ++generation) {
                    write_generation(generation);
                    if (::write(pipe_ends[1], &generation, sizeof generation) < 0) ::_exit(1);
                }
            } catch (...) {
                ::_exit(1);
            }
        }
        ::close(pipe_ends[1]);
        int reported = -1, value = 0;
        ASSERT_EQ(::read(pipe_ends[0], &reported, sizeof reported), static_cast<ssize_t>(sizeof reported));
        ::usleep(random() % 20000);
        ::kill(child, SIGKILL);
        int status = 0;
        ::waitpid(child, &status, 0);
        EXPECT_TRUE(WIFSIGNALED(status));
        while (::read(pipe_ends[0], &value, sizeof value) == static_cast<ssize_t>(sizeof value))
            reported = value;
        ::close(pipe_ends[0]);
        check(reported);
    }
}

std::string content_of(int generation) {
    return std::to_string(generation) + std::string(150000, 'x') + "end";
}

TEST(AtomicFile, SurvivesKill) {
    TempFolder folder;
    kill_at_random([&](int generation) { write_file_atomically(folder / "a", content_of(generation)); },
                   [&](int reported) {
                       const std::string found = slurp(folder / "a");
                       const int generation = std::stoi(found);
                       EXPECT_TRUE(generation == reported || generation == reported + 1);
                       EXPECT_TRUE(found == content_of(generation));
                   });
    write_file_atomically(folder / "a", "last");
    EXPECT_EQ(folder.entries(), Names{"a"});
}

TEST(AtomicFolder, SurvivesKill) {
    TempFolder folder;
    const Names parts = {"a", "b", "c"};
    kill_at_random(
        [&](int generation) {
            AtomicFolder run(folder / "run");
            for (const auto& part : parts) spill(run.path() / part, content_of(generation));
            run.commit();
        },
        [&](int reported) {
            recover_folder(folder / "run");
            EXPECT_EQ(folder.entries(), Names{"run"});
            const int generation = std::stoi(slurp(folder / "run/a"));
            EXPECT_TRUE(generation == reported || generation == reported + 1);
            for (const auto& part : parts)
                EXPECT_TRUE(slurp(folder / "run" / part) == content_of(generation));
        });
}

TEST(OutputFile, ADeviceWithoutRoom) {
    if (!fs::exists("/dev/full")) GTEST_SKIP();
    OutputFile full("/dev/full", OutputFile::Open::kAppend);
    full.write("x");
    EXPECT_CONTAINS(data_error_of([&] { full.flush(); }),
                    "/dev/full: cannot write 1 bytes (0 of them written): No space");
}

TEST(JsonLines, AFileOfSomethingElseIsLeftAsItIs) {
    const TempFolder folder;
    spill(folder / "notes", "precious\nlast line without an end");
    EXPECT_CONTAINS(data_error_of([&] { JsonLinesWriter log(folder / "notes"); }),
                    "notes: expected lines of JSON");
    EXPECT_EQ(slurp(folder / "notes"), "precious\nlast line without an end");
}

TEST(JsonLines, AppendsAndMendsATornLine) {
    TempFolder folder;
    const auto path = folder / "log.jsonl";
    {
        JsonLinesWriter log(path);
        log.write({{"step", 1}, {"loss", std::nan("")}});
        EXPECT_EQ(slurp(path), "{\"step\":1,\"loss\":null}\n");
        log.write(nlohmann::ordered_json{{"b", "\xff"}, {"a", 2}});
    }
    const std::string whole = "{\"step\":1,\"loss\":null}\n{\"b\":\"\xEF\xBF\xBD\",\"a\":2}\n";
    EXPECT_EQ(slurp(path), whole);
    spill(path, whole + "{\"step\":");
    JsonLinesWriter(path).write({{"step", 3}});
    EXPECT_EQ(slurp(path), whole + "{\"step\":3}\n");
    spill(path, whole + "{\"step\":3}");
    JsonLinesWriter(path).write({{"step", 4}});
    EXPECT_EQ(slurp(path), whole + "{\"step\":3}\n{\"step\":4}\n");
    spill(path, "{torn");
    JsonLinesWriter(path).write({{"step", 5}});
    EXPECT_EQ(slurp(path), "{\"step\":5}\n");
}

}  // namespace
}  // namespace elmo
