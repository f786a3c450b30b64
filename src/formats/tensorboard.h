// TensorBoard event files: TFRecord frames (length and payload each with a masked CRC-32C) around Event
// messages of scalar summaries, encoded by hand.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "io/output_file.h"

namespace elmo {

struct Scalar {
    std::string_view tag;  // "train/loss"
    double value;          // stored as FP32
};

// One writer makes one new file events.out.tfevents.TIME.HOST.PID.N in the folder and never touches older
// ones: a resumed run adds a file, and TensorBoard reads all of them in order. Every call reaches the kernel
// before it returns. DataError when the folder cannot be written.
class TensorBoardWriter {
  public:
    // first_step > 0: the run resumes there, and TensorBoard drops the later steps of earlier files, which a
    // crash made obsolete.
    explicit TensorBoardWriter(const std::filesystem::path& folder, std::int64_t first_step = 0);

    void add_scalars(std::int64_t step, std::span<const Scalar> scalars);
    const std::filesystem::path& path() const { return file_.path(); }

  private:
    void write_record(std::string_view payload);
    OutputFile file_;
};

// The pieces, for tests.
std::uint32_t crc32c(std::string_view bytes);
std::string tfrecord_frame(std::string_view payload);
std::string scalar_event(double wall_time, std::int64_t step, std::span<const Scalar> scalars);

}  // namespace elmo
