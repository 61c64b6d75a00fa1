#include "symbolic/values/decimal_context.h"

#include <string_view>

#include "symbolic/capture/executor_state.h"
#include "symbolic/interop/decimal_access.h"
#include "symbolic/interop/python_side.h"
#include "symbolic/values/value_tools.h"

namespace cdynamo::symbolic {

// The context that capture works in, while this lives.
struct DecimalContext {
  PyRef of_thread = checked(PyObject_CallNoArgs(library_object("decimal", "getcontext")));
  PyRef own = checked(PyObject_CallMethod(of_thread.get(), "copy", nullptr));

  DecimalContext() {
    checked(PyObject_CallMethod(own.get(), "clear_flags", nullptr));
    set(own);
  }
  ~DecimalContext() {
    PyObject *type, *value, *traceback;  // of an error that is under way
    PyErr_Fetch(&type, &value, &traceback);
    set(of_thread);
    PyErr_Restore(type, value, traceback);
  }
  static void set(const PyRef& context) {
    if (!PyRef::steal(PyObject_CallOneArg(library_object("decimal", "setcontext"), context.get())))
      PyErr_Clear();
  }
};

namespace {

// The ContextVar of _decimal, which no module names; null: decimal is the one that is written in Python.
PyObject* context_variable() {
  static PyObject* found = nullptr;
  if (found) return found;
  checked(PyObject_CallNoArgs(library_object("decimal", "getcontext")));  // sets it in this thread
  const PyRef context = checked(PyContext_CopyCurrent());
  const PyRef variables = checked(PySequence_List(context.get()));
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(variables.get()); ++i) {
    PyObject* variable = PyList_GET_ITEM(variables.get(), i);
    const PyRef name = checked(PyObject_GetAttrString(variable, "name"));
    if (PyUnicode_CompareWithASCIIString(name.get(), "decimal_context") == 0)
      return found = Py_NewRef(variable);
  }
  return nullptr;
}

}  // namespace

void meet_decimal(Executor& ex, PyTypeObject* type) {
  if (std::string_view(type->tp_name) != "decimal.Decimal" || ex.state().decimal_context) return;
  PyObject* variable = context_variable();
  if (!variable) break_graph("CD0212", "decimal");
  auto context = std::make_shared<DecimalContext>();
  const PyRef rules = decimal_rules(context->of_thread.get());
  if (!rules) break_graph("CD0212", "decimal with a context of the program's own class");
  const SourcePtr source = derived_source(SourceKind::kContextValue, constant_source(variable));
  add_guard(ex, GuardKind::kEquals, derived_source(SourceKind::kDecimalRules, source), rules.get());
  ex.state().decimal_context = std::move(context);
}

void emit_decimal_flags(Executor& ex) {
  const auto& context = ex.state().decimal_context;
  if (!context) return;
  const PyRef flags = checked(PyObject_GetAttrString(context->own.get(), "flags"));
  const PyRef signals = checked(PyMapping_Keys(flags.get()));
  std::vector<RecipePtr> raised;
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(signals.get()); ++i) {
    PyObject* signal = PyList_GET_ITEM(signals.get(), i);
    if (checked(PyObject_GetItem(flags.get(), signal)).get() == Py_True)
      raised.push_back(make_recipe(RecipeKind::kConstant, signal));
  }
  if (raised.empty()) return;
  Effect effect{.kind = EffectKind::kCall};
  effect.target = make_recipe(RecipeKind::kConstant, python_side(PythonSide::kRaiseDecimalFlags));
  effect.value = make_recipe(RecipeKind::kTuple, nullptr, std::move(raised));
  ex.effect(std::move(effect));
}

}  // namespace cdynamo::symbolic
