// The errors of the library as Python exceptions. Each is also of the built-in kind that Python programs look
// for.
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include <filesystem>
#include <new>

#include "elmo/error.h"
#include "parts.h"

namespace nb = nanobind;

namespace elmo::python {
namespace {

PyObject *g_error, *g_config, *g_data, *g_device, *g_memory, *g_numeric;  // alive as long as the module

PyObject* make(nb::module_& module, const char* name, const char* doc, PyObject* base, PyObject* kind) {
    const nb::object bases = nb::steal(kind == nullptr ? PyTuple_Pack(1, base) : PyTuple_Pack(2, base, kind));
    const std::string full = nb::cast<std::string>(module.attr("__name__")) + "." + name;
    PyObject* made = PyErr_NewExceptionWithDoc(full.c_str(), doc, bases.ptr(), nullptr);
    if (made == nullptr) throw nb::python_error();
    module.attr(name) = nb::handle(made);
    return made;
}

void raise(PyObject* kind, const std::string& message) {
    PyErr_SetString(kind, in_words_of_python(message).c_str());
}

void translate(const std::exception_ptr& thrown, void*) {
    try {
        std::rethrow_exception(thrown);
    } catch (const ConfigError& error) {
        raise(g_config, error.what());
    } catch (const DataError& error) {
        raise(g_data, error.what());
    } catch (const OutOfMemory& error) {
        raise(g_memory, error.what());
    } catch (const DeviceError& error) {
        raise(g_device, error.what());
    } catch (const NumericError& error) {
        raise(g_numeric, error.what());
    } catch (const Error& error) {
        raise(g_error, error.what());
    } catch (const std::filesystem::filesystem_error& error) {
        const std::string where = error.path1().empty() ? std::string() : error.path1().string() + ": ";
        raise(g_data, where + error.code().message());
    } catch (const std::bad_alloc&) {
        PyErr_SetString(g_memory, "out of memory; elmo.plan() shows what a run needs");
    }
}

}  // namespace

void bind_errors(nb::module_& module) {
    g_error =
        make(module, "Error", "Any error of elmo: one line that says what was expected and what was found.",
             PyExc_Exception, nullptr);
    g_config = make(module, "ConfigError", "An option that does not exist, or a value that cannot be.",
                    g_error, PyExc_ValueError);
    g_data = make(module, "DataError", "Data, or a file, that is missing, malformed or does not fit another.",
                  g_error, PyExc_ValueError);
    g_device = make(module, "DeviceError", "The machine cannot do it, or failed while doing it.", g_error,
                    PyExc_RuntimeError);
    g_memory = make(module, "OutOfMemory", "Memory does not suffice.", g_device, PyExc_MemoryError);
    g_numeric = make(module, "NumericError", "Training met a number that is not finite.", g_error,
                     PyExc_ArithmeticError);
    nb::register_exception_translator(translate);
    module.def(
        "in_words_of_python", &in_words_of_python, nb::arg("message"),
        "The message with keyword arguments in the place of flags, and rows in that of temporary files.");
}

namespace {

// A value as Python shows it, cut where it is long.
std::string shown(nb::handle value) {
    const nb::str text = nb::repr(value);
    if (nb::len(text) <= 60) return text.c_str();
    return nb::steal<nb::str>(PyUnicode_Substring(text.ptr(), 0, 57)).c_str() + std::string("...");
}

}  // namespace

std::string utf8_of(nb::str text, const std::string& what) {
    Py_ssize_t size = 0;
    const char* bytes = PyUnicode_AsUTF8AndSize(text.ptr(), &size);
    if (bytes != nullptr) return {bytes, static_cast<std::size_t>(size)};
    PyErr_Clear();
    throw ConfigError(what + ": expected a str that UTF-8 can hold, found " + shown(text) +
                      "; rename what is called so");
}

std::vector<std::string> strings_of(nb::list list, const std::string& what, std::int64_t first) {
    std::vector<std::string> strings;
    strings.reserve(nb::len(list));
    for (const nb::handle item : list) {
        const auto where = [&] {
            return what + "[" + std::to_string(first + static_cast<std::int64_t>(strings.size())) + "]";
        };
        if (!PyUnicode_Check(item.ptr()))
            throw DataError(
                where() + ": expected a str, found " + shown(item) + " (" +
                nb::type_name(item.type()).c_str() + ")" +
                (PyList_Check(item.ptr()) || PyTuple_Check(item.ptr()) ? "; join its parts to one str" : ""));
        Py_ssize_t size = 0;
        const char* bytes = PyUnicode_AsUTF8AndSize(item.ptr(), &size);
        if (bytes == nullptr) {
            PyErr_Clear();
            throw DataError(where() + ": expected a str that UTF-8 can hold, found " + shown(item));
        }
        strings.emplace_back(bytes, static_cast<std::size_t>(size));
    }
    return strings;
}

}  // namespace elmo::python
