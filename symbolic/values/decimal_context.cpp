#include "symbolic/values/decimal_context.h"

#include <algorithm>
#include <string_view>

#include "symbolic/capture/executor_state.h"
#include "symbolic/interop/decimal_access.h"
#include "symbolic/interop/python_side.h"
#include "symbolic/values/builtin_method.h"
#include "symbolic/values/builtins.h"
#include "symbolic/values/value_tools.h"

namespace cdynamo::symbolic {

// The context that capture works in, while this lives.
struct DecimalContext {
  PyRef of_thread = checked(PyObject_CallNoArgs(library_object("decimal", "getcontext")));
  PyRef own = checked(PyObject_CallMethod(of_thread.get(), "copy", nullptr));
  std::vector<ValuePtr> blocks;  // of localcontext(), from the outside in: their contexts

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

// ---- decimal.localcontext

namespace {

bool is_number_of_context(std::string_view name) {
  static constexpr std::string_view kNames[] = {"prec", "rounding", "Emin", "Emax", "capitals", "clamp"};
  return std::ranges::find(kNames, name) != std::end(kNames);
}

// The context of a block: a real one, in which operations are computed.
class BlockContext final : public SymbolicValue {
 public:
  explicit BlockContext(PyRef context) : context_(std::move(context)) {}
  PyTypeObject* type() const override { return Py_TYPE(context_.get()); }
  std::string describe() const override { return "context of a block of decimal.localcontext"; }
  std::optional<bool> truth(Executor&) override { return true; }
  RecipePtr recipe(Executor&) override { break_graph("CD0211", describe()); }
  ValuePtr get_attribute(Executor& ex, PyObject* name) override {
    if (!is_number_of_context(PyUnicode_AsUTF8(name))) return SymbolicValue::get_attribute(ex, name);
    return ex.constant(checked(PyObject_GetAttr(context_.get(), name)));
  }
  void set_attribute(Executor& ex, PyObject* name, const ValuePtr& value) override {
    PyObject* number = value ? constant_object(value) : nullptr;
    if (!number || !is_number_of_context(PyUnicode_AsUTF8(name)))
      return SymbolicValue::set_attribute(ex, name, value);
    if (PyObject_SetAttr(context_.get(), name, number) < 0) raise_current_error(ex);
  }
  const PyRef& context() const { return context_; }

 private:
  PyRef context_;
};

class Block final : public SymbolicValue {
 public:
  Block(PyTypeObject* type, std::shared_ptr<BlockContext> inside, PyRef outside)
      : type_(type), inside_(std::move(inside)), outside_(std::move(outside)) {}
  PyTypeObject* type() const override { return type_; }
  std::string describe() const override { return "block of decimal.localcontext"; }
  std::optional<bool> truth(Executor&) override { return true; }
  RecipePtr recipe(Executor&) override { break_graph("CD0009", "decimal.localcontext"); }
  ValuePtr get_attribute(Executor& ex, PyObject* name) override {
    static constexpr BuiltinMethodRow kMethods[] = {
        {"__enter__", [](Executor& ex, const ValuePtr& self,
                         const CallArgs&) { return static_cast<Block&>(*self).enter(ex); }},
        {"__exit__", [](Executor& ex, const ValuePtr& self,
                        const CallArgs&) { return static_cast<Block&>(*self).leave(ex); }},
    };
    if (ValuePtr method = find_builtin_method(shared_from_this(), name, kMethods)) return method;
    return SymbolicValue::get_attribute(ex, name);
  }

 private:
  ValuePtr enter(Executor& ex) {
    DecimalContext::set(inside_->context());
    ex.state().decimal_context->blocks.push_back(inside_);
    return inside_;
  }
  ValuePtr leave(Executor& ex) {
    std::vector<ValuePtr>& blocks = ex.state().decimal_context->blocks;
    if (blocks.empty() || blocks.back() != inside_) break_graph("CD0009", "decimal.localcontext");
    blocks.pop_back();
    DecimalContext::set(outside_);
    return ex.constant_bool(false);
  }
  PyTypeObject* type_;
  std::shared_ptr<BlockContext> inside_;
  PyRef outside_;
};

// decimal.localcontext(**numbers): a copy of the context that there is.
ValuePtr local_context(Executor& ex, const CallArgs& args) {
  const bool has_context = !args.positional.empty() && !is_none(args.positional[0]);
  if (has_context || args.positional.size() > 1) break_graph("CD0212", "decimal.localcontext of a context");
  if (ex.isolated_region() || ex.state().branches) break_graph("CD0212", "decimal.localcontext");
  meet_decimal(ex, reinterpret_cast<PyTypeObject*>(library_object("decimal", "Decimal")));
  PyRef outside = checked(PyObject_CallNoArgs(library_object("decimal", "getcontext")));
  auto inside = std::make_shared<BlockContext>(checked(PyObject_CallMethod(outside.get(), "copy", nullptr)));
  for (const Keyword& keyword : args.keywords) inside->set_attribute(ex, keyword.name.get(), keyword.value);
  static PyTypeObject* type = nullptr;
  if (!type) type = Py_TYPE(checked(PyObject_CallNoArgs(library_object("decimal", "localcontext"))).get());
  return std::make_shared<Block>(type, std::move(inside), std::move(outside));
}

// decimal.getcontext() in a block.
ValuePtr current_context(Executor& ex, const CallArgs& args) {
  require_count(ex, "getcontext", args, 0, 0);
  const auto& context = ex.state().decimal_context;
  if (!context || context->blocks.empty()) break_graph("CD0212", "decimal.getcontext");
  return context->blocks.back();
}

constexpr BuiltinRow kDecimalFunctions[] = {
    {"decimal", "localcontext", local_context},
    {"decimal", "getcontext", current_context},
};

}  // namespace

std::span<const BuiltinRow> decimal_functions() { return kDecimalFunctions; }

}  // namespace cdynamo::symbolic
