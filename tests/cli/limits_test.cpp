// Limits of memory and of threads: an error in one line, or fewer threads, never a crash.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <random>

#include "cli/program.h"

namespace elmo {
namespace {

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define ELMO_TEST_RESERVES_ADDRESSES
#endif
#endif

class Limits : public ::testing::Test {
  protected:
    void SetUp() override {
#ifdef ELMO_TEST_RESERVES_ADDRESSES
        GTEST_SKIP() << "the address sanitizer takes terabytes of addresses for itself";
#endif
        write_small_data(temp, "data");
        temp.write("texts.txt", "the cat sleeps\nthe dog runs\n");
        expect_success(
            run_elmo(Words{"train", temp.text("data"), "--out", temp.text("run")} + small_model()));
    }
    TempFolder temp;
};

// Where oneDNN gets no memory for its code it writes to the null page.
TEST_F(Limits, AnyRoomOfAddressesIsEnoughOrAnError) {
    const Outcome outcome = run_shell(
        "for kib in $(seq 54000 600 84000); do\n"
        "( ulimit -c 0; ulimit -v $kib; exec $ELMO train $0/data --out $0/limited --overwrite --encoder bag "
        "--width 32 "
        "--vocab-size 100 --batch-size 6 --steps 3 --threads 1 --quiet >/dev/null 2>$0/err ); status=$?\n"
        "[ $status -lt 126 ] || echo \"$kib KiB: status $status\"\n"
        "[ $status -eq 0 ] || grep -q error $0/err || echo \"$kib KiB: no reason: $(cat $0/err)\"\n"
        "done",
        temp.path());
    EXPECT_EQ(outcome.out, "");
    EXPECT_EQ(outcome.status, 0);
}

// A stack larger than the room of addresses: no thread can be started.
TEST_F(Limits, WithoutThreadsTheWorkIsDoneOrTheReasonIsSaid) {
    const std::string few = "ulimit -s 100000000 2>/dev/null && ulimit -v 20000000 || exit 77; ";
    const Outcome done =
        run_shell(few + "$ELMO predict $0/run $0/texts.txt --quiet --threads 4", temp.path());
    if (done.status == 77) GTEST_SKIP() << "limits cannot be set";
    expect_success(done);
    const Outcome refused =
        run_shell(few +
                      "$ELMO train $0/data --out $0/other --encoder bag --width 8 --steps 4 "
                      "--vocab-size 100 --threads 4 --quiet",
                  temp.path());
    expect_failure(refused, 1, {"cannot start a thread", "ulimit"});
}

// Names have most of their features in letters, and rows of growing arrays are freed one after another: what
// the program keeps of these for itself took it above the plan.
TEST_F(Limits, ALinearTrainingOfNamesStaysWithinItsPlan) {
    std::string rows = "text,labels\n";
    std::minstd_rand draw(7);
    for (int row = 0; row < 12000; ++row) {
        const auto label = draw() % 300;
        rows += static_cast<char>('a' + label % 26);
        for (int i = 0; i < 7; ++i) rows += static_cast<char>('a' + draw() % 26);
        rows += ",n" + std::to_string(label) + ";g" + std::to_string(label % 9) + "\n";
    }
    const Outcome trained = run_elmo({"train", temp.write("names.csv", rows), "--out", temp.text("names"),
                                      "--neighbours", "0", "--threads", "2", "--json", "--quiet"});
    expect_success(trained);
    const auto result = nlohmann::json::parse(trained.out);
    EXPECT_LE(result["measured_peak_bytes"].get<double>(), result["planned_peak_bytes"].get<double>())
        << trained.out;
}

}  // namespace
}  // namespace elmo
