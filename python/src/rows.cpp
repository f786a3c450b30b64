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
    Rows() = default;
    Rows(const Rows&) = delete;
    Rows& operator=(const Rows&) = delete;
    ~Rows() { forget_copied_rows(name_); }

    void add(nb::list texts, nb::list labels, std::int64_t first, bool test) {
        const std::vector<std::string> strings = strings_of(texts, "texts", first);
        if (nb::len(labels) != strings.size()) throw DataError("expected as many labels as texts");
        for (std::size_t i = 0; i < strings.size(); ++i) {
            const std::string where = "labels[" + std::to_string(first + std::int64_t(i)) + "]";
            Row row{.text = strings[i]};
            if (const nb::object entry = labels[i]; nb::isinstance<nb::str>(entry)) {
                nb::list one;
                one.append(entry);
                row.label_field = strings_of(one, where).front();
            } else {
                nb::list names;
                for (const nb::handle name : entry) {
                    if (name.is_none())
                        row.null_label = true;
                    else
                        names.append(name);
                }
                row.labels = strings_of(names, where);
            }
            put(row, test);
        }
    }

    std::int64_t add_arrow(nb::capsule capsule, const std::vector<std::string>& text_columns,
                           const std::string& label_column, bool allow_null, bool cut_categories,
                           std::int64_t first, bool test) {
        void* stream = PyCapsule_GetPointer(capsule.ptr(), "arrow_array_stream");
        if (stream == nullptr) throw nb::python_error();
        const nb::gil_scoped_release release;
        return read_arrow_stream(
            stream, {text_columns, label_column, allow_null, cut_categories}, first,
            [&](const Row& row) { put(row, test); },
            [] {
                const nb::gil_scoped_acquire acquire;
                if (PyErr_CheckSignals() != 0) throw nb::python_error();
            });
    }

    void name_columns(const std::string& text_column, const std::string& label_column) {
        folder_.name_columns(text_column, label_column);
    }

    void finish(Config& config, const std::string& train, const std::string& test) {
        folder_.finish(config);
        name_ = config.data;
        name_copied_rows(name_, train, test);
    }

  private:
    void put(const Row& row, bool test) { test ? folder_.add_test(row) : folder_.add(row); }

    RowFolder folder_;
    std::string name_;  // of the folder, when all rows are in
};

}  // namespace

void bind_rows(nb::module_& module) {
    nb::class_<Rows>(module, "Rows",
                     "Rows on their way to a temporary data set, which goes with this object.")
        .def(nb::init<>())
        .def("add", &Rows::add, nb::arg("texts"), nb::arg("labels"), nb::arg("first"), nb::arg("test"),
             "Labels are a list per text, with None for a null, or a str: a field as a file has it.")
        .def("add_arrow", &Rows::add_arrow, nb::arg("stream"), nb::arg("text_columns"),
             nb::arg("label_column"), nb::arg("allow_null"), nb::arg("cut_categories"), nb::arg("first"),
             nb::arg("test"))
        .def("name_columns", &Rows::name_columns, nb::arg("text_column"), nb::arg("label_column"),
             "The names that a run remembers; before the first row.")
        .def("finish", &Rows::finish, nb::arg("config"), nb::arg("train") = "", nb::arg("test") = "",
             "Messages name the files that training and test rows are copies of.");
    module.def(
        "detect_columns", &detect_columns, nb::arg("config"), nb::arg("text_columns"), nb::arg("first_rows"),
        "Sets the columns that nobody gave to those that a table must mean: names, then rows of fields.");
    module.def("is_row_folder", &is_row_folder, nb::arg("path"),
               "Whether it is the path of a temporary data set.");
}

}  // namespace elmo::python
