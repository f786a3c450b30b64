#include <algorithm>

#include "elmo/error.h"
#include "io/packed/decoder.h"
#include "io/packed/inflater.h"

namespace elmo {
namespace {

class Gzip : public Decoder {
  public:
    explicit Gzip(RawInput& input) : Decoder(input), inflater_(Inflater::kGzip, input.name()) {}

    std::size_t read(char* out, std::size_t size) override {
        const std::size_t room = std::min(size, RawInput::kBlock);
        while (!finished_) {
            if (input_.held().empty() && !input_.refill()) {
                if (!between_members_) truncated("gzip");
                finished_ = true;
                break;
            }
            if (between_members_ && !start_member()) continue;
            const Inflater::Step step = inflater_.step(input_.held(), out, room);
            input_.take(step.taken);
            if (step.error != nullptr) corrupt("gzip", step.error);
            if (step.ended) between_members_ = true;
            if (step.made > 0) return step.made;
        }
        return 0;
    }

  private:
    // After one gzip member: another follows (as pigz and bgzip write them), or zeros that pad the file.
    bool start_member() {
        const char first = input_.held().front();
        if (first == '\0') {
            input_.take(1);
            return false;
        }
        if (first != '\x1f')
            throw DataError(input_.name() + ": bytes that are not gzip follow the gzip data");
        inflater_.reset();
        between_members_ = false;
        return true;
    }

    Inflater inflater_;
    bool between_members_ = false;
};

}  // namespace

std::unique_ptr<Decoder> decode_gzip(RawInput& input) {
    return std::make_unique<Gzip>(input);
}

}  // namespace elmo
