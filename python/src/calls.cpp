// The verbs: each takes a configuration and a listener and returns the JSON that the program prints with
// --json.
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>

#include "attended.h"
#include "elmo/elmo.h"
#include "parts.h"

namespace nb = nanobind;

namespace elmo::python {
namespace {

// The JSON of what work(context) returns.
template <typename Work>
std::string json_of(nb::object listener, OnInterrupt on_interrupt, Work&& work) {
    std::string json;
    attend(std::move(listener), on_interrupt, [&](const Context& context) { json = to_json(work(context)); });
    return json;
}

std::string train_call(nb::object listener, const Config& config) {
    return json_of(listener, OnInterrupt::kStop,
                   [&](const Context& context) { return train(context, config); });
}

std::string tune_call(nb::object listener, const Config& config, std::int64_t trials, double seconds) {
    return json_of(listener, OnInterrupt::kStop, [&](const Context& context) {
        return tune(context, {config, trials, seconds, "elmo.tune(...)"});
    });
}

std::string evaluate_call(nb::object listener, const std::string& run, const Config& config,
                          const std::string& data, const std::string& split) {
    return json_of(listener, OnInterrupt::kAbandon, [&](const Context& context) {
        return evaluate(context, run, config, {data, split});
    });
}

std::string compare_call(nb::object listener, const std::string& first, const std::string& second,
                         const Config& config, const std::string& data, const std::string& split,
                         const Config* copy_for_second) {
    return json_of(listener, OnInterrupt::kAbandon, [&](const Context& context) {
        return compare(context, first, second, config, {data, split}, copy_for_second);
    });
}

std::string report_call(nb::object listener, const std::string& run, const Config& config,
                        const std::string& data, const std::string& split) {
    return json_of(listener, OnInterrupt::kAbandon, [&](const Context& context) {
        return report(context, run, config, "elmo.report(...)", {data, split});
    });
}

std::string calibrate_call(nb::object listener, const std::string& run, const Config& config) {
    return json_of(listener, OnInterrupt::kAbandon, [&](const Context& context) {
        return calibrate(context, run, resolve_for_run(run, config));
    });
}

std::string index_call(nb::object listener, const std::string& run, const Config& config, double recall) {
    return json_of(listener, OnInterrupt::kAbandon, [&](const Context& context) {
        return build_index(context, run, resolve_for_run(run, config), recall);
    });
}

std::string export_call(nb::object listener, const std::string& run, const std::string& to,
                        const Config& config) {
    return json_of(listener, OnInterrupt::kAbandon, [&](const Context& context) {
        ExportResult result = export_run(context, run, to, resolve_for_run(run, config));
        for (const std::string& note : result.notes) context.warning(note);
        return result;
    });
}

std::string convert_call(nb::object listener, const Config& config, const std::string& to) {
    return json_of(listener, OnInterrupt::kAbandon,
                   [&](const Context& context) { return convert_data(context, config, to); });
}

std::string inspect_call(nb::object listener, const std::string& path, const Config& config) {
    return json_of(listener, OnInterrupt::kAbandon,
                   [&](const Context& context) { return inspect(context, path, config); });
}

std::pair<std::string, std::string> plan_call(nb::object listener, const Config& config) {
    MemoryReport report;
    attend(listener, OnInterrupt::kAbandon,
           [&](const Context& context) { report = plan_memory(context, config); });
    return {to_json(report), report.describe()};
}

Config resolve_call(const Config& config) {
    return resolve_training(Context({.sinks = silent()}), config);
}

}  // namespace

void bind_calls(nb::module_& module) {
    const nb::arg listener("listener"), config("config"), run("run");
    module.def("train", &train_call, nb::arg("listener").none(), config, "Trains; the result as JSON.");
    module.def("tune", &tune_call, nb::arg("listener").none(), config, nb::arg("trials"), nb::arg("seconds"),
               "Looks for better numbers than the defaults; JSON.");
    module.def("evaluate", &evaluate_call, nb::arg("listener").none(), run, config, nb::arg("data"),
               nb::arg("split"),
               "Scores a run; JSON. The protocol calls the rows so where these are not \"\".");
    module.def("compare", &compare_call, nb::arg("listener").none(), nb::arg("first"), nb::arg("second"),
               config, nb::arg("data"), nb::arg("split"), nb::arg("copy_for_second").none(),
               "Scores two runs on the same rows; JSON.");
    module.def("report", &report_call, nb::arg("listener").none(), run, config, nb::arg("data"),
               nb::arg("split"), "Scores a run as evaluate does and writes the page; JSON.");
    module.def("calibrate", &calibrate_call, nb::arg("listener").none(), run, config,
               "Fits probabilities; JSON.");
    module.def("index", &index_call, nb::arg("listener").none(), run, config, nb::arg("recall"),
               "Makes the index for approximate search; JSON.");
    module.def("export", &export_call, nb::arg("listener").none(), run, nb::arg("to"), config,
               "Writes a run for other tools; JSON.");
    module.def("convert", &convert_call, nb::arg("listener").none(), config, nb::arg("to"),
               "Writes a data set in another format; JSON.");
    module.def("inspect", &inspect_call, nb::arg("listener").none(), nb::arg("path"), config,
               "What a run folder or a data set holds; JSON.");
    module.def("plan", &plan_call, nb::arg("listener").none(), config,
               "The memory of a training run, as JSON and as a table.");
    module.def("resolve_for_run", &resolve_for_run, run, config, "The options with those of the run.");
    module.def(
        "known_path", &known_path, config, nb::arg("key"),
        "A path of options with those of a run; \"\" where only the run names it and nobody read it here.");
    module.def("resolve", &resolve_call, config, "The complete configuration that training would use.");
}

}  // namespace elmo::python
