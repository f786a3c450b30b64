// A file or standard input as it is, through one block: what decoders take their bytes from.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

namespace elmo {

class RawInput {
  public:
    static constexpr std::size_t kBlock = std::size_t{1} << 20;

    // Path "-" is standard input; `name` is what messages call it. DataError when it cannot be opened or is a
    // folder.
    RawInput(const std::filesystem::path& path, std::string name);
    ~RawInput();
    RawInput(const RawInput&) = delete;
    RawInput& operator=(const RawInput&) = delete;

    // What is at hand, not yet taken.
    std::string_view held() const { return {block_.get() + begin_, end_ - begin_}; }
    void take(std::size_t n) { begin_ += n; }
    // False at the end of the file. Nothing may be held.
    bool refill();
    // More bytes behind those held; false at the end of the file. What is held may move.
    bool extend();
    std::size_t read_raw(char* out, std::size_t size);
    // A read would not wait.
    bool ready() const;
    const std::string& name() const { return name_; }
    // For progress: the size, 0 where unknown, and the bytes read so far.
    std::int64_t total() const { return total_; }
    std::int64_t taken() const { return taken_; }
    // Of the next byte.
    std::int64_t position() const { return taken_ - static_cast<std::int64_t>(end_ - begin_); }

  private:
    std::string name_;
    int fd_ = -1;
    std::int64_t total_ = 0, taken_ = 0;
    std::size_t size_ = kBlock;  // of the block
    std::unique_ptr<char[]> block_;
    std::size_t begin_ = 0, end_ = 0;
};

}  // namespace elmo
