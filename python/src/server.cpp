// Server: runs behind HTTP, on threads of the library. Nothing of Python runs while it answers, unless
// somebody listens to its log or there is something to warn of.
#include "elmo/serve.h"

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "elmo/resolve.h"
#include "parts.h"

namespace nb = nanobind;

namespace elmo::python {
namespace {

// A function that gets the lines of the log, or messages. It is called and let go with the GIL held.
class Listener {
  public:
    explicit Listener(nb::object function) : function_(std::move(function)) {}
    ~Listener() {
        const nb::gil_scoped_acquire acquire;
        function_.reset();
    }
    Listener(const Listener&) = delete;
    Listener& operator=(const Listener&) = delete;

    // What it raises is reported as Python reports errors that nobody can catch.
    template <typename... Values>
    void call(const Values&... values) const {
        const nb::gil_scoped_acquire acquire;
        try {
            function_(values...);
        } catch (nb::python_error& error) {
            error.discard_as_unraisable("elmo.Server");
        }
    }

  private:
    nb::object function_;
};

void make_server(Server* place, const std::vector<std::string>& runs, const Config& config,
                 ServeOptions options, nb::object log, nb::object message) {
    if (!log.is_none())
        options.log = [listener = std::make_shared<Listener>(std::move(log))](std::string_view line) {
            listener->call(std::string(line));
        };
    Sinks sinks;
    sinks.message = [listener = std::make_shared<Listener>(std::move(message))](Severity severity,
                                                                                std::string_view text) {
        listener->call(static_cast<int>(severity), std::string(text));
    };
    const nb::gil_scoped_release release;
    new (place) Server(Context({.sinks = std::move(sinks)}), runs, config, options);
}

}  // namespace

void bind_server(nb::module_& module) {
    const nb::call_guard<nb::gil_scoped_release> without_gil;
    nb::class_<ServeOptions>(module, "ServeOptions", "Where a server listens, and its limits.")
        .def(nb::init<>())
        .def_rw("host", &ServeOptions::host)
        .def_rw("port", &ServeOptions::port)
        .def_rw("tokens", &ServeOptions::tokens)
        .def_rw("connections", &ServeOptions::connections)
        .def_rw("queue", &ServeOptions::queue)
        .def_rw("max_texts", &ServeOptions::max_texts)
        .def_rw("max_body", &ServeOptions::max_body)
        .def_rw("deadline", &ServeOptions::deadline);
    nb::class_<Server>(module, "Server")
        .def("__init__", &make_server, nb::arg("runs"), nb::arg("config"), nb::arg("options"),
             nb::arg("log").none(), nb::arg("message"))
        .def_prop_ro("port", &Server::port)
        .def("reload", &Server::reload, without_gil)
        .def("stop", &Server::stop, without_gil);
}

}  // namespace elmo::python
