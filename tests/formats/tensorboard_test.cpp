#include "formats/tensorboard.h"

#include <cstring>
#include <vector>

#include "io/temp_folder.h"

namespace elmo {
namespace {

TEST(TensorBoard, Crc32cKnownValues) {
    EXPECT_EQ(crc32c(""), 0u);
    EXPECT_EQ(crc32c("123456789"), 0xe3069283u);
    EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8a9136aau);  // RFC 3720, B.4
    EXPECT_EQ(crc32c(std::string(32, '\xff')), 0x62a8ab43u);
}

// Frozen bytes; TensorBoard's own reader gave step 300, "loss" 0.5, "P@1" 72.25 back (checked when they were
// made).
TEST(TensorBoard, GoldenEvent) {
    const Scalar scalars[] = {{"loss", 0.5}, {"P@1", 72.25}};
    const std::string event = scalar_event(1.5, 300, scalars);
    EXPECT_EQ(event, std::string("\x09\x00\x00\x00\x00\x00\x00\xf8\x3f"
                                 "\x10\xac\x02"
                                 "\x2a\x19"
                                 "\x0a\x0b\x0a\x04loss\x15\x00\x00\x00\x3f"
                                 "\x0a\x0a\x0a\x03P@1\x15\x00\x80\x90\x42",
                                 9 + 3 + 2 + 13 + 12));
}

// Splits the frames and checks both checksums, implemented again here.
std::vector<std::string> records_of(const std::string& file) {
    const auto masked = [](std::string_view bytes) {
        const std::uint32_t crc = crc32c(bytes);
        return ((crc >> 15) | (crc << 17)) + 0xa282ead8u;
    };
    std::vector<std::string> payloads;
    for (std::size_t at = 0; at < file.size();) {
        std::uint64_t length = 0;
        std::uint32_t length_crc = 0, payload_crc = 0;
        std::memcpy(&length, file.data() + at, 8);
        std::memcpy(&length_crc, file.data() + at + 8, 4);
        EXPECT_EQ(length_crc, masked(std::string_view(file).substr(at, 8)));
        payloads.push_back(file.substr(at + 12, length));
        std::memcpy(&payload_crc, file.data() + at + 12 + length, 4);
        EXPECT_EQ(payload_crc, masked(payloads.back()));
        at += 16 + length;
    }
    return payloads;
}

TEST(TensorBoard, EveryWriteIsInTheFileAtOnce) {
    TempFolder folder;
    TensorBoardWriter writer(folder / "tb");
    EXPECT_CONTAINS(writer.path().filename().string(), "events.out.tfevents.");
    auto records = records_of(slurp(writer.path()));
    ASSERT_EQ(records.size(), 1u);
    EXPECT_CONTAINS(records[0], "brain.Event:2");
    const Scalar loss{"loss", 1.0};
    writer.add_scalars(7, {&loss, 1});
    records = records_of(slurp(writer.path()));
    ASSERT_EQ(records.size(), 2u);
    EXPECT_EQ(records[1].substr(9), scalar_event(0, 7, {&loss, 1}).substr(9));
}

TEST(TensorBoard, AResumeIsANewFileThatSaysWhereItStarts) {
    TempFolder folder;
    TensorBoardWriter first(folder.path());
    const Scalar loss{"loss", 1.0};
    first.add_scalars(7, {&loss, 1});
    const std::string before = slurp(first.path());
    TensorBoardWriter second(folder.path(), 5);
    EXPECT_NE(first.path(), second.path());
    EXPECT_LT(first.path(), second.path());
    EXPECT_EQ(slurp(first.path()), before);
    const auto records = records_of(slurp(second.path()));
    ASSERT_EQ(records.size(), 2u);
    EXPECT_EQ(records[1].substr(9), "\x10\x05\x3a\x02\x08\x01");
}

}  // namespace
}  // namespace elmo
