// The measured ceilings of this machine, in the process that is being judged.
#include <algorithm>
#include <chrono>
#include <cstring>
#include <vector>

#include "backend/cpu/cpu_backend.h"
#include "backend/cpu/linear/gemm.h"
#include "base/parallel.h"

namespace elmo::cpu {
namespace {

double seconds_since(std::chrono::steady_clock::time_point start) {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// The median rate of `work` over `repeats` runs after one to warm up.
template <class Work>
double median_rate(double amount, int repeats, const Work& work) {
    work();
    std::vector<double> rates;
    for (int i = 0; i < repeats; ++i) {
        const auto start = std::chrono::steady_clock::now();
        work();
        rates.push_back(amount / seconds_since(start));
    }
    std::sort(rates.begin(), rates.end());
    return rates[rates.size() / 2];
}

template <class T>
double product_rate(ThreadPool& pool) {
    // Each thread multiplies matrices that fit its cache: what the units can do when memory does not limit.
    constexpr std::int64_t kSize = 512, kProducts = 16;
    const std::int64_t threads = pool.size();
    std::vector<std::vector<T>> a(threads, std::vector<T>(kSize * kSize)), b = a;
    std::vector<std::vector<float>> c(threads, std::vector<float>(kSize * kSize));
    const Gemm shape{kSize, kSize, kSize, kSize, kSize, kSize, false, false, false};
    const double flops = 2.0 * kSize * kSize * kSize * kProducts * static_cast<double>(threads);
    return median_rate(flops, 9,
                       [&] {
                           pool.parallel_for(threads, [&](std::int64_t t) {
                               for (std::int64_t i = 0; i < kProducts; ++i)
                                   gemm(shape, a[t].data(), b[t].data(), c[t].data());
                           });
                       }) /
           1e9;
}

double copy_rate(ThreadPool& pool) {
    constexpr std::int64_t kBytes = std::int64_t{64} << 20;
    const std::int64_t threads = pool.size();
    std::vector<std::vector<char>> from(threads, std::vector<char>(kBytes)), to = from;
    return median_rate(2.0 * kBytes * static_cast<double>(threads), 5,
                       [&] {
                           pool.parallel_for(threads, [&](std::int64_t t) {
                               std::memcpy(to[t].data(), from[t].data(), kBytes);
                           });
                       }) /
           1e9;
}

}  // namespace

Ceilings CpuBackend::measure_ceilings(DType storage, std::int64_t) {
    ThreadPool& pool = context_.threads();
    return {bf16_products(storage) ? product_rate<Bf16>(pool) : product_rate<float>(pool), copy_rate(pool)};
}

}  // namespace elmo::cpu
