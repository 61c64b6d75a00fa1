#include "symbolic/torch/library_numbers.h"

#include <cmath>
#include <limits>

#include "symbolic/capture/executor_state.h"
#include "symbolic/capture/value_factories.h"
#include "symbolic/tensors/array_value.h"
#include "symbolic/tensors/data_numbers.h"
#include "symbolic/tensors/frameworks.h"
#include "symbolic/values/dynamic_float.h"
#include "symbolic/values/sym_int.h"
#include "symbolic/values/value_tools.h"

namespace cdynamo::symbolic {

bool is_read_number(Executor& ex, const ValuePtr& value) {
  if (auto* real = dynamic_cast<DynamicFloatValue*>(value.get())) return real->is_from_data();
  auto* integer = dynamic_cast<SymIntValue*>(value.get());
  return integer && ex.graph().sym->reads_data(integer->sym());
}

namespace {

// An operand that the operator gets as a number of this type.
ValuePtr number_operand(Executor& ex, graph::Value* operand, PyTypeObject* type, SettledNumbers& numbers) {
  const PyRef id = checked(PyLong_FromLong(operand->id));
  if (PyDict_SetItem(numbers.types.get(), id.get(), reinterpret_cast<PyObject*>(type)) < 0)
    throw PythonError{};
  numbers.changed = true;
  return make_tensor(ex, operand);
}

ValuePtr settled(Executor& ex, const ValuePtr& value, SettledNumbers& numbers) {
  const auto* array = dynamic_cast<const ArrayValue*>(value.get());
  const bool is_numpy_scalar = array && array->framework() == graph::Framework::kNumpy && array->is_scalar();
  if (is_numpy_scalar || is_read_number(ex, value)) {
    if (ex.isolated_region() || ex.state().branches) break_graph("CD0406", "a number that an operator takes");
    const WithoutGradient no_gradient(ex);
    if (!is_numpy_scalar) return number_operand(ex, graph_number(ex, value), value->type(), numbers);
    const bool is_float = runtime::is_float(array->array_type().dtype);
    return number_operand(ex, number_of_scalar(ex, *array), is_float ? &PyFloat_Type : &PyLong_Type, numbers);
  }
  if (dynamic_cast<DynamicFloatValue*>(value.get()) || dynamic_cast<SymIntValue*>(value.get())) {
    numbers.changed = true;
    return ex.constant(value->materialize(ex));
  }
  return value;
}

}  // namespace

SettledNumbers settle_numbers(Executor& ex, const CallArgs& args) {
  SettledNumbers numbers{.args = args, .types = checked(PyDict_New())};
  const auto settle = [&](const ValuePtr& value) { return settled(ex, value, numbers); };
  for (ValuePtr& value : numbers.args.positional) value = map_leaves(ex, value, settle);
  for (Keyword& keyword : numbers.args.keywords) keyword.value = map_leaves(ex, keyword.value, settle);
  return numbers;
}

namespace {

DynamicFloatValue* changing_float(const ValuePtr& value) {
  auto* real = dynamic_cast<DynamicFloatValue*>(value.get());
  return real && !real->is_from_data() ? real : nullptr;
}

template <typename F>
std::optional<CallArgs> with_floats(const CallArgs& args, F&& replaced) {
  CallArgs result = args;
  bool changed = false;
  const auto replace = [&](ValuePtr& value) {
    auto* real = changing_float(value);
    ValuePtr now = real ? replaced(*real) : nullptr;
    if (!now) return;
    value = std::move(now);
    changed = true;
  };
  for (ValuePtr& value : result.positional) replace(value);
  for (Keyword& keyword : result.keywords) replace(keyword.value);
  return changed ? std::optional(std::move(result)) : std::nullopt;
}

}  // namespace

std::optional<CallArgs> with_floats_that_fit(Executor& ex, const CallArgs& args) {
  constexpr double kLargest = std::numeric_limits<float>::max();
  return with_floats(args, [&](DynamicFloatValue& real) -> ValuePtr {
    if (!real.origin() || !(std::abs(real.now()) <= kLargest)) return nullptr;
    for (const auto& [comparison, bound] : {std::pair{Py_LE, kLargest}, std::pair{Py_GE, -kLargest}})
      real.compare(ex, comparison, ex.constant(checked(PyFloat_FromDouble(bound))));
    graph::Builder& b = ex.builder();
    graph::Value* narrow = b.call1("core.cast", {real.value(), graph::DType::kF32});
    graph::Value* wide = b.call1("core.cast", {narrow, graph::DType::kF64});
    wide->type.weak = true;
    return std::make_shared<DynamicFloatValue>(wide, real.now(), real.roots(), real.origin());
  });
}

std::optional<CallArgs> with_pinned_floats(Executor& ex, const CallArgs& args) {
  return with_floats(args, [&](DynamicFloatValue& real) { return ex.constant(real.materialize(ex)); });
}

}  // namespace cdynamo::symbolic
