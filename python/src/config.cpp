// Options: the list of them, and a configuration that is set key by key from text, as recipes and flags are.
#include "elmo/config.h"

#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include "elmo/resolve.h"
#include "parts.h"

namespace nb = nanobind;

namespace elmo::python {
namespace {

using Reasons = std::vector<std::tuple<std::string, std::string, std::string>>;

Reasons reasons_of(const Config& config) {
    Reasons reasons;
    for (const OptionReason& option : explain(config))
        reasons.emplace_back(option.key, option.value, option.reason);
    return reasons;
}

}  // namespace

void bind_config(nb::module_& module) {
    nb::class_<OptionInfo>(module, "OptionInfo", "What is known of one option.")
        .def_prop_ro("key", [](const OptionInfo& o) { return std::string(o.key); })
        .def_prop_ro("type", [](const OptionInfo& o) { return std::string(o.type); })
        .def_prop_ro("group", [](const OptionInfo& o) { return std::string(o.group); })
        .def_prop_ro("verbs", [](const OptionInfo& o) { return std::string(o.verbs); })
        .def_prop_ro("help", [](const OptionInfo& o) { return std::string(o.help); })
        .def_prop_ro("default", [](const OptionInfo& o) { return o.default_value; })
        .def_prop_ro("choices", [](const OptionInfo& o) { return o.choices; })
        .def("__repr__", [](const OptionInfo& o) {
            return "<option " + std::string(o.key) + "=" + o.default_value + ": " + std::string(o.help) + ">";
        });
    module.def(
        "options", [] { return options(); }, "Every option, in the order of the documentation.");
    module.def(
        "recipes",
        [] {
            std::vector<std::string> names;
            for (const BuiltinRecipe& recipe : builtin_recipes()) names.emplace_back(recipe.name);
            return names;
        },
        "Names of the recipes that are built in.");
    nb::class_<Config>(module, "Config", "A configuration; starts from the defaults.")
        .def(nb::init<>())
        .def(
            "set",
            [](Config& config, const std::string& key, nb::str value) {
                set_option(config, key, utf8_of(value, key));
                mark_option(config, key, Origin::kGiven, "given");
            },
            nb::arg("key"), nb::arg("value"))
        .def(
            "set_of_run",
            [](Config& config, std::string_view key, std::string_view value) {
                set_option(config, key, value);
                mark_option(config, key, Origin::kRun, "the run's recipe");
            },
            nb::arg("key"), nb::arg("value"), "What a run is read with where nothing is given.")
        .def(
            "set_of_recipe",
            [](Config& config, std::string_view key, std::string_view value) {
                set_option(config, key, value);
                mark_option(config, key, Origin::kRecipe, "beside rows from memory");
            },
            nb::arg("key"), nb::arg("value"), "What wins over what a run has, though nobody gave it.")
        .def(
            "get", [](const Config& config, std::string_view key) { return get_option(config, key); },
            nb::arg("key"))
        .def(
            "given", [](const Config& config, std::string_view key) { return given(config, key); },
            nb::arg("key"))
        .def(
            "original",
            [](const Config& config, std::string_view key) { return original_value(config, key); },
            nb::arg("key"), "Of a path to a copy what it was copied from, else the value.")
        .def(
            "set_copy",
            [](Config& config, const std::string& key, const std::string& copy, nb::str original) {
                set_copied(config, key, copy, utf8_of(original, key));
            },
            nb::arg("key"), nb::arg("copy"), nb::arg("original"),
            "A path to a copy; recipes keep that of the original.")
        .def(
            "named_by_run", [](Config& config, std::string_view key) { mark_named_by_run(config, key); },
            nb::arg("key"), "Then: that only a run names it.")
        .def(
            "load_recipe", [](Config& config, const std::string& path) { load_recipe(config, path); },
            nb::arg("path"))
        .def("validate", [](const Config& config) { validate(config); })
        .def("to_recipe", [](const Config& config) { return to_recipe(config); })
        .def("reasons", &reasons_of, "Key, value and reason of every option.");
}

}  // namespace elmo::python
