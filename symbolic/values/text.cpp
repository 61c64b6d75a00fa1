#include "symbolic/values/text.h"

#include <algorithm>
#include <cmath>

#include "symbolic/capture/executor.h"
#include "symbolic/capture/value_factories.h"
#include "symbolic/values/constant.h"
#include "symbolic/values/data_bool.h"
#include "symbolic/values/dynamic_float.h"
#include "symbolic/values/sym_int.h"
#include "symbolic/values/tuple.h"
#include "symbolic/values/value_tools.h"

namespace cdynamo::symbolic {

bool is_changing(const ValuePtr& value) {
  return dynamic_cast<DynamicFloatValue*>(value.get()) || dynamic_cast<DataBoolValue*>(value.get()) ||
         dynamic_cast<SymIntValue*>(value.get()) || dynamic_cast<TextValue*>(value.get());
}

namespace {

// A tuple made here whose items may change.
TupleValue* made_tuple(const ValuePtr& value) {
  return value->type() == &PyTuple_Type && !value->source ? dynamic_cast<TupleValue*>(value.get()) : nullptr;
}

bool any_changes(Executor& ex, const ValuePtr& value) {
  if (is_changing(value)) return true;
  TupleValue* tuple = made_tuple(value);
  return tuple &&
         std::ranges::any_of(tuple->items(ex), [&](const ValuePtr& item) { return any_changes(ex, item); });
}

// An object of the kind that the number may turn out to be; null: there is none.
PyRef sample(Executor& ex, const ValuePtr& value, int which) {
  static constexpr double kFloats[] = {1.5, -1e300, NAN, -INFINITY};
  static constexpr int64_t kInts[] = {7, -3, 1 << 30, 0};
  if (dynamic_cast<DynamicFloatValue*>(value.get())) return checked(PyFloat_FromDouble(kFloats[which]));
  if (dynamic_cast<DataBoolValue*>(value.get())) return PyRef::borrow(which % 2 ? Py_True : Py_False);
  if (dynamic_cast<SymIntValue*>(value.get())) return checked(PyLong_FromLongLong(kInts[which]));
  if (dynamic_cast<TextValue*>(value.get())) return checked(PyUnicode_FromString("1.5"));
  if (TupleValue* tuple = made_tuple(value)) {
    PyRef made = checked(PyTuple_New(static_cast<Py_ssize_t>(tuple->items(ex).size())));
    for (size_t i = 0; i < tuple->items(ex).size(); ++i) {
      PyRef item = sample(ex, tuple->items(ex)[i], which);
      if (!item) return {};
      PyTuple_SET_ITEM(made.get(), static_cast<Py_ssize_t>(i), item.release());
    }
    return made;
  }
  return value->as_constant().value_or(PyRef());
}

PyRef call_with(PyObject* callable, const std::vector<PyRef>& operands) {
  PyRef arguments = checked(PyTuple_New(static_cast<Py_ssize_t>(operands.size())));
  for (size_t i = 0; i < operands.size(); ++i)
    PyTuple_SET_ITEM(arguments.get(), static_cast<Py_ssize_t>(i), PyRef(operands[i]).release());
  return PyRef::steal(PyObject_Call(callable, arguments.get(), nullptr));
}

// Whatever the numbers are, the call gives a text.
bool always_gives_text(Executor& ex, PyObject* callable, const std::vector<ValuePtr>& operands) {
  for (int which = 0; which < 4; ++which) {
    std::vector<PyRef> samples;
    for (const ValuePtr& operand : operands) samples.push_back(sample(ex, operand, which));
    if (!std::ranges::all_of(samples, [](const PyRef& object) { return static_cast<bool>(object); }))
      return false;
    PyRef text = call_with(callable, samples);
    if (!text) PyErr_Clear();
    if (!text || !PyUnicode_CheckExact(text.get())) return false;
  }
  return true;
}

}  // namespace

bool is_known_later(Executor& ex, const ValuePtr& value) {
  if (auto* number = dynamic_cast<DynamicFloatValue*>(value.get())) return number->is_from_data();
  if (dynamic_cast<DataBoolValue*>(value.get())) return true;
  if (auto* number = dynamic_cast<SymIntValue*>(value.get()))
    return ex.graph().sym->reads_data(number->sym());
  auto* text = dynamic_cast<TextValue*>(value.get());
  return text && !text->as_constant();
}

ValuePtr text_made_later(Executor& ex, PyRef callable, std::vector<ValuePtr> operands) {
  if (std::ranges::none_of(operands, [&](const ValuePtr& operand) { return any_changes(ex, operand); }))
    return nullptr;
  if (!always_gives_text(ex, callable.get(), operands)) return nullptr;
  return std::make_shared<TextValue>(ex, std::move(callable), std::move(operands));
}

ValuePtr text_of_objects(Executor& ex, PythonSide parts, PyObject* format, const PyRef& option, ValuePtr args,
                         ValuePtr names) {
  PyRef found = PyRef::steal(PyObject_CallFunctionObjArgs(python_side(parts), format, option.get(), nullptr));
  if (!found && !PyErr_ExceptionMatches(PyExc_ValueError)) throw PythonError{};
  if (!found) return PyErr_Clear(), nullptr;
  return polyfill(ex, PythonSide::kStandardPolyfills, "formatted")
      ->call(ex, positional({ex.constant(found), std::move(args), std::move(names)}));
}

// Asked of what is made of numbers that change from call to call, it is the text of this call.
std::optional<PyRef> TextValue::as_constant() const {
  for (const ValuePtr& operand : operands_) {
    TupleValue* tuple = made_tuple(operand);
    const std::vector<ValuePtr> items = tuple ? tuple->items(ex_) : std::vector{operand};
    for (const ValuePtr& item : items)
      if (is_known_later(ex_, item)) return std::nullopt;
  }
  return const_cast<TextValue*>(this)->known(ex_)->as_constant();
}

ValuePtr TextValue::make_known(Executor& ex) {
  std::vector<PyRef> objects;
  for (const ValuePtr& operand : operands_) {
    objects.push_back(operand->materialize(ex));
    if (!objects.back()) break_graph("CD0215", describe());
  }
  return ex.constant(checked_user(ex, call_with(callable_.get(), objects).release()));
}

PyRef TextValue::materialize(Executor& ex) { return *known(ex)->as_constant(); }

ValuePtr TextValue::get_attribute(Executor& ex, PyObject* name) { return known(ex)->get_attribute(ex, name); }

ValuePtr TextValue::binary(Executor& ex, int nb_op, const ValuePtr& other, bool reflected) {
  if (plain_number_operation(nb_op) == kNbAdd && other->type() == &PyUnicode_Type) {
    const ValuePtr self = shared_from_this();
    std::vector<ValuePtr> operands = reflected ? std::vector{other, self} : std::vector{self, other};
    PyRef add = PyRef::borrow(library_object("operator", "add"));
    if (ValuePtr text = text_made_later(ex, std::move(add), std::move(operands))) return text;
  }
  return known(ex)->binary(ex, nb_op, other, reflected);
}

RecipePtr TextValue::recipe(Executor& ex) {
  if (recipe_) return recipe_;
  if (known_) return recipe_ = known_->recipe(ex);
  return recipe_ = call_recipe(callable_.get(), recipes_of(ex, operands_));
}

}  // namespace cdynamo::symbolic
