// A data set from memory: rows from Python lists or Arrow tables into a RowFolder.
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/vector.h>

#include "arrow_table.h"
#include "elmo/config.h"
#include "elmo/dataset.h"
#include "elmo/error.h"
#include "parts.h"

namespace nb = nanobind;

namespace elmo::python {
namespace {

class Rows {
  public:
    void add(nb::list texts, nb::list labels, std::int64_t first, bool test) {
        const std::vector<std::string> strings = strings_of(texts, "texts", first);
        if (nb::len(labels) != strings.size()) throw DataError("expected as many labels as texts");
        for (std::size_t i = 0; i < strings.size(); ++i)
            put({strings[i],
                 strings_of(labels[i], "labels[" + std::to_string(first + std::int64_t(i)) + "]")},
                test);
    }

    std::int64_t add_arrow(nb::capsule capsule, const std::vector<std::string>& text_columns,
                           const std::string& label_column, const std::string& separator, std::int64_t first,
                           bool test) {
        void* stream = PyCapsule_GetPointer(capsule.ptr(), "arrow_array_stream");
        if (stream == nullptr) throw nb::python_error();
        const nb::gil_scoped_release release;
        return read_arrow_stream(
            stream, {text_columns, label_column, separator}, first, [&](const Row& row) { put(row, test); },
            [] {
                const nb::gil_scoped_acquire acquire;
                if (PyErr_CheckSignals() != 0) throw nb::python_error();
            });
    }

    void finish(Config& config) { folder_.finish(config); }

  private:
    void put(const Row& row, bool test) { test ? folder_.add_test(row) : folder_.add(row); }

    RowFolder folder_;
};

}  // namespace

void bind_rows(nb::module_& module) {
    module.def("labels_in_field", &labels_in_field, nb::arg("field"), nb::arg("separator"),
               "The labels of one field, cut as in files.");
    nb::class_<Rows>(module, "Rows",
                     "Rows on their way to a temporary data set, which goes with this object.")
        .def(nb::init<>())
        .def("add", &Rows::add, nb::arg("texts"), nb::arg("labels"), nb::arg("first"), nb::arg("test"))
        .def("add_arrow", &Rows::add_arrow, nb::arg("stream"), nb::arg("text_columns"),
             nb::arg("label_column"), nb::arg("separator"), nb::arg("first"), nb::arg("test"))
        .def("finish", &Rows::finish, nb::arg("config"));
}

}  // namespace elmo::python
