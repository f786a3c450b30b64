// A graphics card that fails when told to, for tools/torture.py: a library for LD_PRELOAD between a program
// and the CUDA driver. The runtime inside of the program asks the driver for each of its functions by name;
// some of them get the functions below instead. FAULTY_CARD says what happens:
//   refuse=N   the N-th call fails and does nothing
//   trap=N     the N-th call, or the next one that launches a kernel, launches one that ends in a trap: a
//   fault of
//              the card, after which every call fails until the program ends
//   full=N     from the N-th call on no memory is left: another program took it
//   memory=N   the card has N bytes
// Calls are counted from 1; the file FAULTY_CARD_COUNT gets their number when the program ends.
//   c++ -std=c++20 -O1 -shared -fPIC -o faulty_card.so tools/faulty_card.cpp
#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <string>
#include <utility>

namespace {

using Word = std::uint64_t;
// Any function of the driver: all of those below take whole numbers and pointers, at most eleven.
using Call = int (*)(Word, Word, Word, Word, Word, Word, Word, Word, Word, Word, Word);
using Words = std::array<Word, 11>;

constexpr int kOutOfMemory = 2, kLaunchOutOfResources = 701, kUnknown = 999;

enum class Kind { kLaunch, kLaunchEx, kAllocate, kFree, kInfo, kOther };
struct Watched {
    const char* name;
    Kind kind;
};
constexpr Watched kWatched[] = {
    {"cuLaunchKernel", Kind::kLaunch},     {"cuLaunchKernelEx", Kind::kLaunchEx},
    {"cuMemAlloc", Kind::kAllocate},       {"cuMemFree", Kind::kFree},
    {"cuMemGetInfo", Kind::kInfo},         {"cuMemHostRegister", Kind::kOther},
    {"cuMemHostAlloc", Kind::kOther},      {"cuMemAllocHost", Kind::kOther},
    {"cuMemcpyAsync", Kind::kOther},       {"cuMemcpyHtoDAsync", Kind::kOther},
    {"cuMemcpyDtoHAsync", Kind::kOther},   {"cuMemcpyDtoDAsync", Kind::kOther},
    {"cuMemsetD8", Kind::kOther},          {"cuMemsetD8Async", Kind::kOther},
    {"cuStreamSynchronize", Kind::kOther}, {"cuStreamWaitEvent", Kind::kOther},
    {"cuEventRecord", Kind::kOther},       {"cuEventSynchronize", Kind::kOther},
    {"cuEventCreate", Kind::kOther},       {"cuStreamCreate", Kind::kOther},
};

struct Plan {
    std::string what;
    Word number = 0;
    Plan() {
        const char* given = std::getenv("FAULTY_CARD");
        const char* equals = given == nullptr ? nullptr : std::strchr(given, '=');
        if (equals == nullptr) return;
        what = std::string(given, equals);
        number = std::strtoull(equals + 1, nullptr, 10);
    }
};
// Never destroyed, as what is below: the program calls the driver until its very end.
const Plan& plan() {
    static const Plan& plan = *new Plan;
    return plan;
}

std::atomic<Word> calls = 0;
std::atomic<bool> trapped = false;
std::mutex mutex;
Word taken = 0;
// Of the blocks that the program has.
std::map<Word, Word>& sizes() {
    static auto& sizes = *new std::map<Word, Word>;
    return sizes;
}

void* real_dlsym(void* handle, const char* name) {
    using Dlsym = void* (*)(void*, const char*);
    static const auto real = reinterpret_cast<Dlsym>(dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.2.5"));
    return real(handle, name);
}

template <class... Args>
int driver(const char* name, Args... args) {
    static void* const library = dlopen("libcuda.so.1", RTLD_NOW);
    const auto function = reinterpret_cast<int (*)(Args...)>(real_dlsym(library, name));
    const int status = function == nullptr ? -1 : function(args...);
    if (status != 0) {
        std::fprintf(stderr, "faulty_card: %s: %d\n", name, status);
        std::_Exit(99);
    }
    return status;
}

// A kernel that ends in a trap, on this stream.
int launch_trap(void* stream) {
    constexpr const char* kCode =
        ".version 7.0\n.target sm_80\n.address_size 64\n.visible .entry fault()\n{\n trap;\n}\n";
    void* module = nullptr;
    void* function = nullptr;
    driver("cuModuleLoadData", &module, kCode);
    driver("cuModuleGetFunction", &function, module, "fault");
    void** const none = nullptr;
    return driver("cuLaunchKernel", function, 1u, 1u, 1u, 1u, 1u, 1u, 0u, stream, none, none);
}

template <std::size_t... I>
int forward(Call real, const Words& words, std::index_sequence<I...>) {
    return real(words[I]...);
}

int watched_call(Call real, Kind kind, const Words& words) {
    const auto pass = [&] { return forward(real, words, std::make_index_sequence<11>()); };
    const Word call = ++calls;
    const std::string& what = plan().what;
    const Word number = plan().number;
    const bool launch = kind == Kind::kLaunch || kind == Kind::kLaunchEx;
    if (what == "refuse" && call == number)
        return launch ? kLaunchOutOfResources : kind == Kind::kAllocate ? kOutOfMemory : kUnknown;
    if (what == "trap" && call >= number && launch && !trapped.exchange(true))
        return launch_trap(kind == Kind::kLaunch ? reinterpret_cast<void*>(words[8])
                                                 : *reinterpret_cast<void**>(words[0] + 32));  // hStream
    const bool memory = kind == Kind::kAllocate || kind == Kind::kFree || kind == Kind::kInfo;
    if (!memory || (what != "full" && what != "memory")) return pass();

    const std::lock_guard lock(mutex);
    const Word most = what == "memory" ? number : call >= number ? taken : ~Word{0};
    if (kind == Kind::kAllocate) {
        if (words[1] > most - taken) return kOutOfMemory;
        const int status = pass();
        if (status == 0) taken += sizes()[*reinterpret_cast<Word*>(words[0])] = words[1];
        return status;
    }
    const int status = pass();
    if (kind == Kind::kFree && status == 0) {
        taken -= sizes()[words[0]];
        sizes().erase(words[0]);
    }
    if (kind == Kind::kInfo && status == 0 && most != ~Word{0}) {
        auto* const free = reinterpret_cast<Word*>(words[0]);
        auto* const total = reinterpret_cast<Word*>(words[1]);
        *free = std::min(*free, most - taken);
        if (what == "memory") *total = std::min(*total, most);
    }
    return status;
}

// The driver has several functions of one name (versions, kinds of streams): each gets a place of its own.
constexpr std::size_t kPlaces = 64;
std::array<std::pair<Call, Kind>, kPlaces> places;
std::size_t used = 0;

template <std::size_t Place>
int in_place(Word a, Word b, Word c, Word d, Word e, Word f, Word g, Word h, Word i, Word j, Word k) {
    return watched_call(places[Place].first, places[Place].second, {a, b, c, d, e, f, g, h, i, j, k});
}

template <std::size_t... I>
constexpr std::array<Call, kPlaces> all_places(std::index_sequence<I...>) {
    return {in_place<I>...};
}

// What the program gets for the driver's function of this name.
void* between(const char* name, void* real) {
    static constexpr auto kPlacesOf = all_places(std::make_index_sequence<kPlaces>());
    for (const Watched& watched : kWatched) {
        if (real == nullptr || std::strcmp(name, watched.name) != 0) continue;
        const std::lock_guard lock(mutex);
        std::size_t place = 0;
        while (place < used && places[place].first != reinterpret_cast<Call>(real)) ++place;
        if (place == kPlaces) std::abort();
        if (place == used) places[used++] = {reinterpret_cast<Call>(real), watched.kind};
        return reinterpret_cast<void*>(kPlacesOf[place]);
    }
    return real;
}

// The driver's function that gives its functions by name, of CUDA 12 and of CUDA 11.3.
using GetProcAddress = int (*)(const char*, void**, int, Word, void*);
GetProcAddress get_proc_address_12 = nullptr, get_proc_address_11 = nullptr;

int give_proc_address_12(const char* name, void** function, int version, Word flags, void* found);
int give_proc_address_11(const char* name, void** function, int version, Word flags, void*);

void* between_any(const char* name, void* real, int version) {
    if (std::strcmp(name, "cuGetProcAddress") != 0) return between(name, real);
    (version < 12000 ? get_proc_address_11 : get_proc_address_12) = reinterpret_cast<GetProcAddress>(real);
    return reinterpret_cast<void*>(version < 12000 ? &give_proc_address_11 : &give_proc_address_12);
}

int give_proc_address_12(const char* name, void** function, int version, Word flags, void* found) {
    const int status = get_proc_address_12(name, function, version, flags, found);
    if (status == 0 && function != nullptr) *function = between_any(name, *function, version);
    return status;
}

int give_proc_address_11(const char* name, void** function, int version, Word flags, void*) {
    const int status = get_proc_address_11(name, function, version, flags, nullptr);
    if (status == 0 && function != nullptr) *function = between_any(name, *function, version);
    return status;
}

struct AtEnd {
    ~AtEnd() {
        const char* path = std::getenv("FAULTY_CARD_COUNT");
        // Other programs on the way, such as a launcher, have the library too.
        std::FILE* file = path == nullptr || calls == 0 ? nullptr : std::fopen(path, "w");
        if (file == nullptr) return;
        std::fprintf(file, "%llu\n", static_cast<unsigned long long>(calls.load()));
        std::fclose(file);
    }
} at_end;

}  // namespace

extern "C" __attribute__((visibility("default"))) void* dlsym(void* handle, const char* name) {
    void* const real = real_dlsym(handle, name);
    if (real == nullptr || std::strncmp(name, "cuGetProcAddress", 16) != 0) return real;
    return between_any("cuGetProcAddress", real,
                       std::strcmp(name, "cuGetProcAddress_v2") == 0 ? 12000 : 11030);
}
