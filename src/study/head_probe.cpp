#include "study/head_probe.h"

#include <algorithm>
#include <cmath>

#include "elmo/error.h"
#include "numerics/bf16.h"
#include "numerics/minifloat.h"

namespace elmo {
namespace {

std::vector<double> host_values(Backend& backend, View view) {
    std::vector<double> values(static_cast<std::size_t>(view.size()));
    const auto read = [&](auto stored, const auto& decode) {
        std::vector<decltype(stored)> copy(values.size());
        backend.download(copy.data(), view);
        std::transform(copy.begin(), copy.end(), values.begin(), [&](auto v) { return double{decode(v)}; });
    };
    switch (view.dtype) {
        case DType::kF32:
            read(float{}, [](float v) { return v; });
            break;
        case DType::kBf16:
            read(Bf16{}, [](Bf16 v) { return to_float(v); });
            break;
        case DType::kE4M3:
            read(std::uint8_t{}, [](std::uint8_t v) { return kE4M3.decode(v); });
            break;
        case DType::kE3M4:
            read(std::uint8_t{}, [](std::uint8_t v) { return kE3M4.decode(v); });
            break;
        default:
            throw ConfigError("histogram: expected a head in fp32, bf16, fp8 or e3m4");
    }
    return values;
}

}  // namespace

void HeadProbe::look(std::int64_t step, Backend& backend, View x_BD, View w_LD, const Positives& positives) {
    Histograms& seen = seen_[step];
    const std::vector<double> x = host_values(backend, x_BD);
    std::vector<double> logit_x = x;  // E4M3 weights are multiplied with E4M3 inputs
    if (w_LD.dtype == DType::kE4M3 || grid_.is_e4m3())
        for (double& v : logit_x) v = kE4M3.decode(round_nearest(kE4M3, static_cast<float>(v)));
    for (const double v : x) seen[1].add(v);

    const auto width = static_cast<std::size_t>(w_LD.cols), batch = static_cast<std::size_t>(x_BD.rows);
    sampled_ = std::min(w_LD.rows, kSampledLabels);
    std::vector<double> weight_of(batch);  // of a positive; -1: none
    std::vector<double> gradient(width);
    for (std::int64_t i = 0; i < sampled_; ++i) {
        const std::int64_t label = w_LD.rows * i / sampled_;
        const std::vector<double> w = host_values(backend, w_LD.slice(label, label + 1));
        for (const double v : w) seen[0].add(v);
        std::fill(weight_of.begin(), weight_of.end(), -1.0);
        const Positives own = positives.of_rows(label, label + 1);
        for (std::size_t p = 0; p < own.samples.size(); ++p)
            weight_of[static_cast<std::size_t>(own.samples[p])] = own.weighted() ? own.weights[p] : 1.0;
        std::fill(gradient.begin(), gradient.end(), 0.0);
        for (std::size_t b = 0; b < batch; ++b) {
            double z = 0;
            for (std::size_t d = 0; d < width; ++d) z += logit_x[b * width + d] * w[d];
            const double exact =
                weight_of[b] >= 0 ? -weight_of[b] / (1 + std::exp(z)) : 1 / (1 + std::exp(-z));
            const double g = to_float(to_bf16(static_cast<float>(exact)));
            seen[2].add(g);
            for (std::size_t d = 0; d < width; ++d) gradient[d] += g * x[b * width + d];
        }
        for (const double v : gradient) seen[3].add(v);
    }
}

}  // namespace elmo
