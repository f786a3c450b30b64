#include "backend/cuda/exchange/nccl.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <cstdlib>
#include <cstring>
#include <set>
#include <string>

#include "backend/cuda/device/check.h"
#include "elmo/error.h"

namespace elmo::cuda {
namespace {

// As in nccl.h, whose values are part of its binary interface.
struct NcclId {
    char bytes[128];
};
constexpr int kSuccess = 0, kBytes = 0;  // ncclSuccess; ncclInt8
constexpr int kOldest = 21800;           // 2.18

struct RankId {
    NcclId nccl;
    char gpu[16];  // its UUID
};

}  // namespace

struct NcclCalls {
    int (*version)(int*);
    int (*unique_id)(NcclId*);
    int (*init_rank)(void**, int, NcclId, int);
    int (*abort)(void*);
    int (*group_start)();
    int (*group_end)();
    int (*send)(const void*, std::size_t, int, int, void*, cudaStream_t);
    int (*receive)(void*, std::size_t, int, int, void*, cudaStream_t);
    const char* (*error)(int);
};

namespace {

const NcclCalls* open_nccl() {
    const char* given = std::getenv("ELMO_NCCL");
    void* library =
        dlopen(given != nullptr && *given != '\0' ? given : "libnccl.so.2", RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) return nullptr;
    static NcclCalls calls;
    bool found = true;
    const auto find = [&](auto& function, const char* name) {
        function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(library, name));
        found = found && function != nullptr;
    };
    find(calls.version, "ncclGetVersion");
    find(calls.unique_id, "ncclGetUniqueId");
    find(calls.init_rank, "ncclCommInitRank");
    find(calls.abort, "ncclCommAbort");
    find(calls.group_start, "ncclGroupStart");
    find(calls.group_end, "ncclGroupEnd");
    find(calls.send, "ncclSend");
    find(calls.receive, "ncclRecv");
    find(calls.error, "ncclGetErrorString");
    int version = 0;
    return found && calls.version(&version) == kSuccess && version >= kOldest ? &calls : nullptr;
}

}  // namespace

NcclExchange::~NcclExchange() {
    if (communicator_ != nullptr) (void)calls_->abort(communicator_);  // never waits for others
    unused_.insert(unused_.end(), started_.begin(), started_.end());
    for (cudaEvent_t event : unused_) (void)cudaEventDestroy(event);
    if (ready_ != nullptr) (void)cudaEventDestroy(ready_);
    if (stream_ != nullptr) (void)cudaStreamDestroy(stream_);
}

void NcclExchange::check(int status, const char* what) const {
    if (status != kSuccess) throw DeviceError(fmt::format("NCCL: {}: {}", what, calls_->error(status)));
}

bool NcclExchange::is_available() {
    if (!tried_) calls_ = open_nccl();
    tried_ = true;
    return calls_ != nullptr;
}

std::vector<std::byte> NcclExchange::id() {
    RankId mine{};
    check(calls_->unique_id(&mine.nccl), "making an id");
    static_assert(sizeof mine.gpu == sizeof(cudaUUID_t));
    std::memcpy(mine.gpu, &context_.properties().uuid, sizeof mine.gpu);
    std::vector<std::byte> bytes(sizeof mine);
    std::memcpy(bytes.data(), &mine, sizeof mine);
    return bytes;
}

void NcclExchange::join(std::span<const std::byte> ids, int rank, int size) {
    std::set<std::string> gpus;
    NcclId first{};
    for (int r = 0; r < size; ++r) {
        RankId id{};
        std::memcpy(&id, ids.data() + static_cast<std::size_t>(r) * sizeof id, sizeof id);
        if (r == 0) first = id.nccl;
        gpus.emplace(id.gpu, sizeof id.gpu);
    }
    if (static_cast<int>(gpus.size()) < size && std::getenv("NCCL_HOSTID") == nullptr &&
        std::getenv("NCCL_MULTI_RANK_GPU_ENABLE") == nullptr)
        throw ConfigError(fmt::format(
            "exchange nccl: expected a GPU per rank, found {} GPUs for {} ranks; give --exchange host",
            gpus.size(), size));
    check(calls_->init_rank(&communicator_, size, first, rank), "joining the ranks");
    int least = 0, greatest = 0;
    cuda::check(cudaDeviceGetStreamPriorityRange(&least, &greatest), "making a stream");
    // Others wait for what is sent: it goes before kernels that are not yet on the card.
    cuda::check(cudaStreamCreateWithPriority(&stream_, cudaStreamNonBlocking, greatest), "making a stream");
    cuda::check(cudaEventCreateWithFlags(&ready_, cudaEventDisableTiming), "making an event");
}

cudaEvent_t NcclExchange::take_event() {
    if (unused_.empty())
        cuda::check(cudaEventCreateWithFlags(&unused_.emplace_back(), cudaEventDisableTiming),
                    "making an event");
    const cudaEvent_t event = unused_.back();
    unused_.pop_back();
    return event;
}

void NcclExchange::start(std::span<const SentView> send, std::span<const ReceivedView> receive) {
    cuda::check(cudaEventRecord(ready_, context_.stream()), "starting an exchange");
    cuda::check(cudaStreamWaitEvent(stream_, ready_), "starting an exchange");
    check(calls_->group_start(), "exchanging");
    for (const SentView& message : send)
        if (message.view.size() > 0)
            check(calls_->send(message.view.data, static_cast<std::size_t>(message.view.bytes()), kBytes,
                               message.to, communicator_, stream_),
                  "sending");
    for (const ReceivedView& message : receive)
        if (message.view.size() > 0)
            check(calls_->receive(message.view.data, static_cast<std::size_t>(message.view.bytes()), kBytes,
                                  message.from, communicator_, stream_),
                  "receiving");
    check(calls_->group_end(), "exchanging");
    started_.push_back(take_event());
    cuda::check(cudaEventRecord(started_.back(), stream_), "exchanging");
}

void NcclExchange::finish() {
    cuda::check(cudaStreamWaitEvent(context_.stream(), started_.front()), "finishing an exchange");
    unused_.push_back(started_.front());
    started_.pop_front();
}

void NcclExchange::exchange(std::span<const SentView> send, std::span<const ReceivedView> receive) {
    start(send, receive);
    while (!started_.empty()) finish();
}

}  // namespace elmo::cuda
