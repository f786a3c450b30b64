// The head by itself, on vectors that another library holds: they are read where they lie.
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <mutex>
#include <span>

#include "elmo/error.h"
#include "elmo/vector_head.h"
#include "parts.h"

namespace nb = nanobind;

namespace elmo::python {
namespace {

using Vectors = nb::ndarray<nb::ndim<2>, nb::c_contig, nb::ro>;
using Gradient = nb::ndarray<float, nb::ndim<2>, nb::c_contig>;
using Numbers = InputArray<std::int64_t>;

std::span<const std::int64_t> span_of(const Numbers& array) {
    return {array.data(), array.size()};
}

class SharedHead {
  public:
    SharedHead(const Config& config, std::int64_t labels, std::int64_t width, std::int64_t batch,
               std::int64_t top, int gpu)
        : gpu_(gpu),
          head_(Context({.sinks = silent(), .device = gpu}), config, {labels, width, batch, top}) {}

    std::pair<double, std::int64_t> step(const Vectors& vectors, const Numbers& offsets,
                                         const Numbers& labels, double lr, double weight_decay,
                                         const Gradient& gradient, std::uintptr_t stream, bool want_loss,
                                         std::uintptr_t report) {
        const VectorBatch batch = batch_of(vectors, stream);
        if (gradient.device_type() != vectors.device_type() || gradient.device_id() != vectors.device_id())
            throw DataError("expected room for the gradient where the vectors lie");
        const nb::gil_scoped_release release;
        const std::lock_guard lock(mutex_);
        const VectorHeadStep done =
            head_.step(batch, {span_of(offsets), span_of(labels)}, lr, weight_decay,
                       {gradient.data(), gradient.size()}, want_loss, reinterpret_cast<float*>(report));
        return {done.loss, done.saturations};
    }

    std::tuple<Array<std::int64_t>, Array<float>> topk(const Vectors& vectors, std::int64_t k,
                                                       std::uintptr_t stream) {
        const VectorBatch batch = batch_of(vectors, stream);
        RankedLabels ranked;
        {
            const nb::gil_scoped_release release;
            const std::lock_guard lock(mutex_);
            ranked = head_.topk(batch, k);
        }
        const auto rows = static_cast<std::size_t>(ranked.rows), columns = static_cast<std::size_t>(ranked.k);
        return {to_array(std::move(ranked.labels), {rows, columns}),
                to_array(std::move(ranked.scores), {rows, columns})};
    }

    VectorHead& get() { return head_; }

  private:
    VectorBatch batch_of(const Vectors& vectors, std::uintptr_t stream) const {
        if (vectors.dtype().code != static_cast<std::uint8_t>(nb::dlpack::dtype_code::Bfloat) ||
            vectors.dtype().bits != 16)
            throw DataError("expected vectors of bfloat16 numbers");
        if (static_cast<std::int64_t>(vectors.shape(1)) != head_.shape().width)
            throw DataError("expected vectors of width " + std::to_string(head_.shape().width) + ", found " +
                            std::to_string(vectors.shape(1)));
        const bool on_gpu = vectors.device_type() == nb::device::cuda::value;
        if ((on_gpu && vectors.device_id() != gpu_) ||
            (!on_gpu && vectors.device_type() != nb::device::cpu::value))
            throw DataError("expected vectors on the CPU or on GPU " + std::to_string(gpu_) +
                            ", where the head is");
        return {static_cast<const std::uint16_t*>(vectors.data()),
                static_cast<std::int64_t>(vectors.shape(0)), on_gpu, reinterpret_cast<void*>(stream)};
    }

    std::mutex mutex_;
    int gpu_;
    VectorHead head_;
};

}  // namespace

void bind_head(nb::module_& module) {
    const nb::call_guard<nb::gil_scoped_release> without_gil;
    nb::class_<SharedHead>(module, "VectorHead")
        .def(nb::init<const Config&, std::int64_t, std::int64_t, std::int64_t, std::int64_t, int>(),
             nb::arg("config"), nb::arg("labels"), nb::arg("width"), nb::arg("batch"), nb::arg("top"),
             nb::arg("gpu"), without_gil)
        .def("step", &SharedHead::step, nb::arg("vectors"), nb::arg("offsets"), nb::arg("labels"),
             nb::arg("lr"), nb::arg("weight_decay"), nb::arg("gradient"), nb::arg("stream"),
             nb::arg("want_loss"), nb::arg("report"),
             "Loss and saturations; sets the gradient. report: the address of two floats on the GPU that "
             "take both "
             "instead, or 0.")
        .def("topk", &SharedHead::topk, nb::arg("vectors"), nb::arg("k"), nb::arg("stream"))
        .def(
            "save", [](SharedHead& head, const std::string& folder) { head.get().save(folder); },
            nb::arg("folder"))
        .def(
            "save_run",
            [](SharedHead& head, const std::string& folder, const std::vector<std::string>& label_names) {
                head.get().save_run(folder, label_names);
            },
            nb::arg("folder"), nb::arg("label_names"), without_gil)
        .def(
            "load", [](SharedHead& head, const std::string& folder) { head.get().load(folder); },
            nb::arg("folder"))
        .def_prop_rw(
            "steps", [](SharedHead& head) { return head.get().steps(); },
            [](SharedHead& head, std::int64_t steps) { head.get().set_steps(steps); })
        .def_prop_ro("plan", [](SharedHead& head) { return head.get().plan().describe(); });
}

}  // namespace elmo::python
