// Scores of rankings from anywhere.
#include "elmo/metrics.h"

#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <span>

#include "parts.h"

namespace nb = nanobind;

namespace elmo::python {
namespace {

using Numbers = InputArray<std::int64_t>;

template <typename T>
std::span<const T> span_of(const InputArray<T>& array) {
    return {array.data(), array.size()};
}

std::vector<std::tuple<std::string, std::int64_t, double>> score(
    const Numbers& predicted_offsets, const Numbers& predicted, const Numbers& truth_offsets,
    const Numbers& truth, const std::vector<std::int64_t>& ks, const InputArray<double>& inverse_propensity) {
    std::vector<std::tuple<std::string, std::int64_t, double>> scores;
    const nb::gil_scoped_release release;
    for (const MetricScore& one :
         score_rankings({span_of(predicted_offsets), span_of(predicted)},
                        {span_of(truth_offsets), span_of(truth)}, ks, span_of(inverse_propensity)))
        scores.emplace_back(one.metric, one.k, one.value);
    return scores;
}

Array<double> propensities(const Numbers& counts, std::int64_t rows, double a, double b) {
    return to_array(inverse_propensities(span_of(counts), rows, a, b));
}

}  // namespace

void bind_metrics(nb::module_& module) {
    module.def("score_rankings", &score, nb::arg("predicted_offsets"), nb::arg("predicted"),
               nb::arg("truth_offsets"), nb::arg("truth"), nb::arg("ks"), nb::arg("inverse_propensity"),
               "Metric, k and value of each score.");
    module.def("inverse_propensities", &propensities, nb::arg("counts"), nb::arg("rows"), nb::arg("a"),
               nb::arg("b"), "Inverse propensities of labels by how many training rows carry them.");
}

}  // namespace elmo::python
