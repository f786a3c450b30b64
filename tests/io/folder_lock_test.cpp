#include "io/folder_lock.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <optional>

#include "elmo/error.h"
#include "io/temp_folder.h"

namespace elmo {
namespace {

TEST(FolderLock, HasOneHolder) {
    TempFolder temp;
    std::optional<FolderLock> held(std::in_place, temp.path());
    EXPECT_THROW(FolderLock(temp.path()), ConfigError);
    held.reset();
    EXPECT_NO_THROW(FolderLock(temp.path()));
}

TEST(FileLock, HasOneHolderAlsoUnderANewName) {
    TempFolder temp;
    std::optional<FileLock> held(std::in_place, temp / "a");
    EXPECT_THROW(FileLock(temp / "a"), ConfigError);
    std::filesystem::rename(temp / "a", temp / "b");
    EXPECT_NO_THROW(FileLock(temp / "a"));  // another file by now
    EXPECT_THROW(FileLock(temp / "b"), ConfigError);
    held.reset();
    EXPECT_NO_THROW(FileLock(temp / "b"));
    EXPECT_THROW(FileLock(temp / "none/a"), DataError);
}

// A killed holder leaves nothing behind.
TEST(FolderLock, EndsWithItsProcess) {
    TempFolder temp;
    int ready[2];
    ASSERT_EQ(pipe(ready), 0);
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
        const FolderLock lock(temp.path());
        const char byte = 1;
        if (write(ready[1], &byte, 1) == 1) pause();
        _exit(0);
    }
    char byte = 0;
    ASSERT_EQ(read(ready[0], &byte, 1), 1);
    EXPECT_THROW(FolderLock(temp.path()), ConfigError);
    kill(child, SIGKILL);
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_NO_THROW(FolderLock(temp.path()));
    close(ready[0]);
    close(ready[1]);
}

}  // namespace
}  // namespace elmo
