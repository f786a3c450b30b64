// Ranks over MPI: non-blocking point-to-point messages and a barrier, called from one thread at a time. MPI
// never adds numbers here (docs/numerics.md).
#include <mpi.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "elmo/error.h"
#include "ranks/plugin.h"

namespace elmo {
namespace {

constexpr std::size_t kLargestMessage = std::size_t{1} << 30;  // MPI counts in int
constexpr int kTag = 17;

void check(int status, const char* what) {
    if (status == MPI_SUCCESS) return;
    char text[MPI_MAX_ERROR_STRING] = {};
    int length = 0;
    MPI_Error_string(status, text, &length);
    throw Error(std::string("MPI: ") + what + ": " + std::string(text, static_cast<std::size_t>(length)));
}

class MpiRanks final : public PluginRanks {
  public:
    MpiRanks() {
        int started = 0;
        MPI_Initialized(&started);
        if (!started)
            check(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &threads_), "starting");
        else
            MPI_Query_thread(&threads_);
        check(MPI_Comm_dup(MPI_COMM_WORLD, &all_), "copying the communicator");
        MPI_Comm_set_errhandler(all_, MPI_ERRORS_RETURN);
        MPI_Comm_rank(all_, &rank_);
        MPI_Comm_size(all_, &size_);
        MPI_Comm local = MPI_COMM_NULL;
        check(MPI_Comm_split_type(all_, MPI_COMM_TYPE_SHARED, rank_, MPI_INFO_NULL, &local),
              "finding the ranks of this machine");
        MPI_Comm_rank(local, &local_rank_);
        MPI_Comm_size(local, &local_size_);
        MPI_Comm_free(&local);
    }

    int rank() const override { return rank_; }
    int size() const override { return size_; }
    int local_rank() const override { return local_rank_; }
    int local_size() const override { return local_size_; }

    void exchange(std::span<const Outgoing> send, std::span<const Incoming> receive) override {
        requests_.clear();
        for (const Incoming& message : receive)
            in_pieces(message.bytes, [&](std::byte* data, int bytes) {
                check(MPI_Irecv(data, bytes, MPI_BYTE, message.from, kTag, all_, &requests_.emplace_back()),
                      "receiving");
            });
        for (const Outgoing& message : send)
            in_pieces(message.bytes, [&](const std::byte* data, int bytes) {
                check(MPI_Isend(data, bytes, MPI_BYTE, message.to, kTag, all_, &requests_.emplace_back()),
                      "sending");
            });
        if (int main = 1; MPI_Is_thread_main(&main) == MPI_SUCCESS && !main) return wait_beside();
        check(MPI_Waitall(static_cast<int>(requests_.size()), requests_.data(), MPI_STATUSES_IGNORE),
              "waiting for messages");
    }
    bool any_thread() const override { return threads_ >= MPI_THREAD_SERIALIZED; }
    void barrier() override { check(MPI_Barrier(all_), "waiting for all ranks"); }

    void finish() override {
        MPI_Comm_free(&all_);
        check(MPI_Finalize(), "ending");
    }
    std::string host() const override {
        char name[MPI_MAX_PROCESSOR_NAME] = {};
        int length = 0;
        MPI_Get_processor_name(name, &length);
        return std::string(name, static_cast<std::size_t>(length));
    }
    std::string describe() const override {
        char text[MPI_MAX_LIBRARY_VERSION_STRING] = {};
        int length = 0;
        MPI_Get_library_version(text, &length);
        const std::string version(text, static_cast<std::size_t>(length));
        return version.substr(0, version.find_first_of(",\n"));
    }

  private:
    // Messages move only inside of calls, and MPI's own waiting keeps a core busy that others compute on:
    // look often, sleep between.
    void wait_beside() {
        for (int done = 0; !done;) {
            for (int looks = 0; looks < 16 && !done; ++looks)
                check(MPI_Testall(static_cast<int>(requests_.size()), requests_.data(), &done,
                                  MPI_STATUSES_IGNORE),
                      "waiting for messages");
            if (!done) std::this_thread::sleep_for(std::chrono::microseconds(50));
        }
    }

    template <class Byte, class Use>
    static void in_pieces(std::span<Byte> bytes, const Use& use) {
        for (std::size_t at = 0; at < bytes.size(); at += kLargestMessage)
            use(bytes.data() + at, static_cast<int>(std::min(kLargestMessage, bytes.size() - at)));
    }

    MPI_Comm all_ = MPI_COMM_NULL;
    int rank_ = 0, size_ = 1, local_rank_ = 0, local_size_ = 1;
    int threads_ = MPI_THREAD_SINGLE;
    std::vector<MPI_Request> requests_;
};

}  // namespace
}  // namespace elmo

extern "C" __attribute__((visibility("default"))) const char* elmo_mpi_plugin(const char* interface,
                                                                              elmo::PluginRanks** made) {
    if (std::string_view(interface) != ELMO_RANKS_INTERFACE) return ELMO_RANKS_INTERFACE;
    *made = new elmo::MpiRanks();
    return nullptr;
}
