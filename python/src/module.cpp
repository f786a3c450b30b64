// elmo._core: what the Python files of the package stand on. Options, results and errors pass through as the
// library lists and words them; results are the JSON that `--json` prints.
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include "elmo/version.h"
#include "parts.h"

NB_MODULE(_core, module) {
    module.doc() = "The C++ library elmo; use the package elmo instead.";
    module.def("version", &elmo::version, "Version of the library.");
    elmo::python::bind_errors(module);
    elmo::python::bind_config(module);
    elmo::python::bind_rows(module);
    elmo::python::bind_calls(module);
    elmo::python::bind_predictor(module);
    elmo::python::bind_metrics(module);
    elmo::python::bind_head(module);
    elmo::python::bind_server(module);
}
