// What NumPy does about floating-point errors (numpy.errstate, seterr, geterr). Compiled code neither warns nor raises, so that captured
// code may set what is quiet alone.
//
// NumPy 2 keeps it in a context variable, as an object that two functions of C make and read; all else is its Python, which is inlined.
// Capture knows what the variable holds where the program is, and asks NumPy under that. NumPy 1 asks the thread, which nobody follows:
// there a `with` does nothing.
#include <algorithm>

#include "symbolic/capture/value_factories.h"
#include "symbolic/interop/numpy_access.h"
#include "symbolic/interop/python_side.h"
#include "symbolic/numpy/methods.h"
#include "symbolic/values/builtin_method.h"
#include "symbolic/values/class_value.h"
#include "symbolic/values/computed_number.h"
#include "symbolic/values/context_var.h"
#include "symbolic/values/value_tools.h"

namespace cdynamo::symbolic {

namespace {

bool is_quiet(PyObject* treatment) {
  return treatment && (treatment == Py_None || (PyUnicode_Check(treatment) &&
                                                (PyUnicode_CompareWithASCIIString(treatment, "ignore") == 0 ||
                                                 PyUnicode_CompareWithASCIIString(treatment, "warn") == 0)));
}

void require_quiet(const CallArgs& args) {
  if (!args.positional.empty()) break_graph("CD0501", "errstate with positional arguments");
  if (!std::ranges::all_of(args.keywords,
                           [](const Keyword& keyword) { return is_quiet(constant_object(keyword.value)); }))
    break_graph("CD0501", "errstate that raises or calls");
}

// ---- NumPy 1

class ErrorState final : public SymbolicValue {
 public:
  explicit ErrorState(PyRef type) : type_(std::move(type)) {}
  PyTypeObject* type() const override { return reinterpret_cast<PyTypeObject*>(type_.get()); }
  ValuePtr get_attribute(Executor& ex, PyObject* name) override {
    static constexpr BuiltinMethodRow kMethods[] = {
        {"__enter__", [](Executor& ex, const ValuePtr&, const CallArgs&) { return ex.none(); }},
        {"__exit__", [](Executor& ex, const ValuePtr&, const CallArgs&) { return ex.none(); }},
    };
    if (ValuePtr method = find_builtin_method(shared_from_this(), name, kMethods)) return method;
    return SymbolicValue::get_attribute(ex, name);
  }
  RecipePtr recipe(Executor&) override { break_graph("CD0009", "numpy.errstate"); }

 private:
  PyRef type_;
};

// ---- NumPy 2

// What the context variable holds where the program is; null: nothing. What the call has begun with is guarded by what it says, as
// `with np.errstate` around the call makes another object each time.
PyRef current_settings(Executor& ex) {
  PyObject* variable = library_object("numpy._core.umath", "_extobj_contextvar");
  const ValuePtr value = ex.wrap(variable, constant_source(variable));
  const ValuePtr now = static_cast<ContextVarValue&>(*value).current(ex);
  if (now && !now->source) return PyRef::borrow(constant_object(now));
  const ValuePtr number = number_of_process(ex, python_side(PythonSide::kErrorTreatments));
  if (!number) break_graph("CD0501", "NumPy's treatment of errors");
  const PyRef known = number->hash_key(ex);  // pins it
  if (PyLong_AsLongLong(known.get()) < 0)
    break_graph("CD0501", "NumPy's buffer size, or function for errors");
  return now ? PyRef::borrow(now->real_object()) : PyRef();
}

// What the function says in a context that holds these settings alone.
PyRef call_under(PyObject* settings, PyObject* function, PyObject* keywords) {
  const PyRef context = checked(PyContext_New()), none = checked(PyTuple_New(0));
  PyObject* variable = library_object("numpy._core.umath", "_extobj_contextvar");
  if (PyContext_Enter(context.get()) < 0) throw PythonError{};
  const PyRef token = settings ? PyRef::steal(PyContextVar_Set(variable, settings)) : PyRef();
  PyRef result = settings && !token ? PyRef() : PyRef::steal(PyObject_Call(function, none.get(), keywords));
  if (PyContext_Exit(context.get()) < 0 || !result) throw PythonError{};
  return result;
}

// numpy._core.umath._make_extobj(**treatments): the settings that errstate and seterr put into the context variable. Those that are
// not given stay.
ValuePtr make_settings(Executor& ex, PyObject* callable, const CallArgs& args) {
  require_quiet(args);
  const PyRef keywords = checked(PyDict_New());
  for (const Keyword& keyword : args.keywords)
    if (PyDict_SetItem(keywords.get(), keyword.name.get(), constant_object(keyword.value)) < 0)
      throw PythonError{};
  return ex.constant(call_under(current_settings(ex).get(), callable, keywords.get()));
}

// numpy._core.umath._get_extobj_dict(): a new dict.
ValuePtr settings_dict(Executor& ex, PyObject* callable, const CallArgs& args) {
  require_count(ex, "_get_extobj_dict", args, 0, 0);
  return wrap_fresh(ex, call_under(current_settings(ex).get(), callable, nullptr));
}

// numpy.errstate(divide="ignore")
ValuePtr error_state(Executor& ex, PyObject* callable, const CallArgs& args) {
  require_quiet(args);
  if (numpy_access::api()->major < 2) return std::make_shared<ErrorState>(PyRef::borrow(callable));
  return std::make_shared<ClassValue>(PyRef::borrow(callable), constant_source(callable))->call(ex, args);
}

constexpr NumpySpecialRow kErrorStateRows[] = {
    {"numpy.errstate", error_state},
    {"numpy._core.umath._make_extobj", make_settings},
    {"numpy._core.umath._get_extobj_dict", settings_dict},
};

}  // namespace

std::span<const NumpySpecialRow> numpy_error_state_functions() { return kErrorStateRows; }

}  // namespace cdynamo::symbolic
