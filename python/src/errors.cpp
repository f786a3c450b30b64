// The errors of the library as Python exceptions, with the same words. Each is also of the built-in kind that
// Python programs look for.
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include <filesystem>
#include <new>
#include <regex>

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

// Files that hold rows from memory for the time of a call say nothing to anybody; their lines are the rows.
std::string with_named_rows(const std::string& message) {
    if (message.find("elmo-rows-") == message.npos)
        return message;  // nearly all; std::regex is not for long ones
    static const std::regex file(R"([^\s']*elmo-rows-\w{6}(?:/(\w+)\.jsonl(?::(\d{1,15}))?)?)");
    std::string result;
    auto rest = message.cbegin();
    for (std::sregex_iterator match(message.begin(), message.end(), file), end; match != end; ++match) {
        result.append(rest, (*match)[0].first);
        if ((*match)[1] == "test") result += "test ";
        result += "rows from memory";
        if ((*match)[2].matched) result += "[" + std::to_string(std::stoll((*match)[2]) - 1) + "]";
        rest = (*match)[0].second;
    }
    return result.append(rest, message.cend());
}

void raise(PyObject* kind, const std::string& message) {
    PyErr_SetString(kind, with_named_rows(message).c_str());
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
    module.def("with_named_rows", &with_named_rows, nb::arg("message"),
               "The message without the temporary files that hold rows from memory.");
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
                where() + ": expected a str, found " + nb::repr(item).c_str() + " (" +
                nb::type_name(item.type()).c_str() + ")" +
                (PyList_Check(item.ptr()) || PyTuple_Check(item.ptr()) ? "; join its parts to one str" : ""));
        Py_ssize_t size = 0;
        const char* bytes = PyUnicode_AsUTF8AndSize(item.ptr(), &size);
        if (bytes == nullptr) {
            PyErr_Clear();
            throw DataError(where() + ": expected a str that UTF-8 can hold, found " +
                            nb::repr(item).c_str());
        }
        strings.emplace_back(bytes, static_cast<std::size_t>(size));
    }
    return strings;
}

}  // namespace elmo::python
