// The parts of the module, each bound by the file of its name.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <cstdint>
#include <string>
#include <vector>

namespace elmo::python {

void bind_errors(nanobind::module_& module);
void bind_config(nanobind::module_& module);
void bind_rows(nanobind::module_& module);
void bind_calls(nanobind::module_& module);
void bind_predictor(nanobind::module_& module);
void bind_metrics(nanobind::module_& module);
void bind_head(nanobind::module_& module);
void bind_server(nanobind::module_& module);

template <typename T>
using Array = nanobind::ndarray<nanobind::numpy, T, nanobind::c_contig>;
template <typename T>
using InputArray = nanobind::ndarray<const T, nanobind::ndim<1>, nanobind::c_contig, nanobind::device::cpu>;

// The vector as a NumPy array, which owns it from then on.
template <typename T>
Array<T> to_array(std::vector<T> values, std::initializer_list<std::size_t> shape) {
    auto* owned = new std::vector<T>(std::move(values));
    const nanobind::capsule owner(owned,
                                  [](void* vector) noexcept { delete static_cast<std::vector<T>*>(vector); });
    return Array<T>(owned->data(), shape, owner);
}
template <typename T>
Array<T> to_array(std::vector<T> values) {
    const std::size_t size = values.size();
    return to_array(std::move(values), {size});
}

// A message of the library in Python's words.
std::string in_words_of_python(const std::string& message);
// Messages about the rows of a temporary folder name the files that they are copies of; "" for rows from
// memory.
void name_copied_rows(const std::string& folder, std::string train, std::string test);
void forget_copied_rows(const std::string& folder);

// A str; ConfigError "what: expected ..." where UTF-8 cannot hold it, as the name of a file in another
// encoding.
std::string utf8_of(nanobind::str text, const std::string& what);

// The strings of a list. DataError "what[i]: expected a str, found ..." counts from `first`.
std::vector<std::string> strings_of(nanobind::list list, const std::string& what, std::int64_t first = 0);

}  // namespace elmo::python
