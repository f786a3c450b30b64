// What the model tests share: an encoder (and a head) with its memory planned and taken as a run does it,
// reading and writing of views as doubles, and the golden files.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "formats/safetensors.h"
#include "model/encoder/encoder.h"
#include "model/head/head.h"
#include "tested_device.h"

namespace elmo::test {

namespace fs = std::filesystem;

// Views belong to the backend's memory, which the host may not see: all goes through download and upload.
inline std::string bytes_of(Backend& backend, const View& view) {
    std::string bytes(static_cast<std::size_t>(view.bytes()), '\0');
    backend.download(bytes.data(), view);
    return bytes;
}

inline std::vector<double> values_of(Backend& backend, const View& view) {
    std::string bytes = bytes_of(backend, view);
    const View host{bytes.data(), view.dtype, view.rows, view.cols};
    std::vector<double> values(static_cast<std::size_t>(view.size()));
    for (std::size_t i = 0; i < values.size(); ++i) {
        if (view.dtype == DType::kF64) values[i] = host.as<double>()[i];
        if (view.dtype == DType::kF32) values[i] = host.as<float>()[i];
        if (view.dtype == DType::kBf16) values[i] = to_float(host.as<Bf16>()[i]);
    }
    return values;
}

inline void set_values(Backend& backend, const View& view, const std::vector<double>& values) {
    std::string bytes(static_cast<std::size_t>(view.bytes()), '\0');
    const View host{bytes.data(), view.dtype, view.rows, view.cols};
    for (std::size_t i = 0; i < values.size(); ++i) {
        if (view.dtype == DType::kF64) host.as<double>()[i] = values[i];
        if (view.dtype == DType::kF32) host.as<float>()[i] = static_cast<float>(values[i]);
        if (view.dtype == DType::kBf16) host.as<Bf16>()[i] = to_bf16(static_cast<float>(values[i]));
    }
    backend.upload(view, bytes.data());
}

// A packed batch that owns its numbers.
struct Texts {
    std::vector<std::int32_t> tokens, offsets = {0};
    TextBatch batch() const { return {tokens, offsets}; }
};
inline Texts pack(const std::vector<std::vector<std::int32_t>>& texts) {
    Texts packed;
    for (const auto& text : texts) {
        packed.tokens.insert(packed.tokens.end(), text.begin(), text.end());
        packed.offsets.push_back(static_cast<std::int32_t>(packed.tokens.size()));
    }
    return packed;
}

// A small encoder of a family: bag, or the one whose golden files lie here.
inline EncoderSpec spec_of(const std::string& family, DType dtype = DType::kBf16) {
    EncoderSpec spec;
    if (family == "bag") {
        spec.vocab = 31;
        spec.width = 16;
        spec.intermediate = 16;
        spec.norm_epsilon = 1e-6f;
    } else {
        spec = read_encoder_spec(fs::path(ELMO_SOURCE_DIR) / "tests/model/golden" / family);
    }
    spec.dtype = dtype;
    return spec;
}

// The memory of what `allocate(arena)` takes: planned first, then taken.
template <class Allocate>
std::unique_ptr<Arena> taken_arena(Backend& backend, const Allocate& allocate) {
    Arena dry;
    allocate(dry);
    auto arena = std::make_unique<Arena>(backend.allocate(dry.peak_bytes()));
    allocate(*arena);
    return arena;
}

// An encoder and its memory, planned on a dry arena and then taken.
struct Model {
    std::unique_ptr<Backend> backend;
    std::unique_ptr<Encoder> encoder;
    std::unique_ptr<Arena> arena;
    std::unique_ptr<Head> head;
    View dx_BD;
    Workload workload;
    std::int64_t planned_bytes = 0;
    std::vector<Segment> segments;

    Model(std::unique_ptr<Backend> given, const EncoderSpec& spec, std::int64_t batch, std::int64_t tokens,
          bool training = true, std::int64_t labels = 11, DType head_dtype = DType::kF32,
          const std::vector<Recompute>& recompute = {}, std::int64_t longest = 0)
        : backend(std::move(given)), encoder(make_encoder(spec, *backend)) {
        workload.batch = batch;
        workload.tokens = tokens;
        workload.longest = longest > 0 ? longest : tokens;
        workload.labels = labels;
        workload.positives = batch * labels;
        workload.head_dtype = head_dtype;
        workload.top_k = 5;
        workload.training = training;
        encoder->describe_workload(workload);
        if (!recompute.empty()) encoder->set_recompute(recompute);
        head =
            std::make_unique<Head>(HeadSpec{LabelLayout::range(0, labels), spec.width, head_dtype}, *backend);
        Arena dry;
        allocate(dry);
        planned_bytes = dry.peak_bytes();
        segments = dry.segments();
        arena = std::make_unique<Arena>(backend->allocate(planned_bytes));
        allocate(*arena);
    }
    void allocate(Arena& in) {
        head->allocate(in, workload);
        encoder->allocate(in, workload);
        backend->reserve(in, workload);
        encoder->allocate_activations(in, workload);
        dx_BD = in.allocate("dx", encoder->spec().dtype == DType::kF64 ? DType::kF64 : DType::kF32,
                            workload.batch, encoder->spec().width);
        {
            const Arena::Scope forward_phase(in);
            encoder->allocate_forward(in, workload);
        }
        {
            const Arena::Scope head_phase(in);
            backend->reserve_head(in, workload);
        }
        encoder->allocate_backward(in, workload);
    }
    std::vector<double> values(const View& view) { return values_of(*backend, view); }
    std::string bytes(const View& view) { return bytes_of(*backend, view); }
    void set(const View& view, const std::vector<double>& to) { set_values(*backend, view, to); }
    const Parameter& parameter(const std::string& name) const {
        for (const Parameter& p : encoder->parameters())
            if (p.name == name) return p;
        throw std::runtime_error("no parameter " + name);
    }
};

inline std::unique_ptr<Backend> make_backend(const std::string& name) {
    return name == "reference" ? make_reference_backend() : make_device_backend();
}

// Doubles, or FP32 numbers as doubles.
inline std::vector<double> tensor_values(const TensorInfo& tensor) {
    std::vector<double> values(static_cast<std::size_t>(tensor.num_elements()));
    if (tensor.dtype == "F64") {
        std::memcpy(values.data(), tensor.data.data(), tensor.data.size());
    } else {
        std::vector<float> floats(values.size());
        read_tensor(tensor, std::span(floats));
        values.assign(floats.begin(), floats.end());
    }
    return values;
}

template <class T>
std::vector<T> tensor_integers(const TensorInfo& tensor) {
    std::vector<T> values(static_cast<std::size_t>(tensor.num_elements()));
    EXPECT_EQ(values.size() * sizeof(T), tensor.data.size());
    std::memcpy(values.data(), tensor.data.data(), tensor.data.size());
    return values;
}

inline double max_abs(const std::vector<double>& values) {
    double most = 0;
    for (const double v : values) most = std::max(most, std::abs(v));
    return most;
}

// The largest error of an element as a share of the largest expected element; NaN never passes.
inline double relative_error(const std::vector<double>& found, const std::vector<double>& expected) {
    EXPECT_EQ(found.size(), expected.size());
    double worst = 0;
    for (std::size_t i = 0; i < std::min(found.size(), expected.size()); ++i) {
        const double error = std::abs(found[i] - expected[i]);
        if (!(error <= worst)) worst = error;
        if (std::isnan(error)) return error;
    }
    return worst / max_abs(expected);
}

inline fs::path shared_folder() {
    if (const char* given = std::getenv("ELMO_SHARED")) return given;
    return fs::path(ELMO_SOURCE_DIR) / ".." / "shared";
}

// A separate folder for one test, removed afterwards.
struct TemporaryFolder {
    fs::path path;
    TemporaryFolder() {
        std::string name = (fs::temp_directory_path() / "elmo-model-XXXXXX").string();
        path = mkdtemp(name.data());
    }
    ~TemporaryFolder() { fs::remove_all(path); }
};

inline std::string message_of(const std::function<void()>& body) {
    try {
        body();
    } catch (const Error& error) {
        return error.what();
    }
    return "nothing was thrown";
}

inline void expect_mentions(const std::string& message, const std::vector<std::string>& parts) {
    for (const std::string& part : parts) EXPECT_NE(message.find(part), std::string::npos) << message;
}

}  // namespace elmo::test
