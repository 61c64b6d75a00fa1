#include "symbolic/tensors/data_numbers.h"

#include "graph/op.h"
#include "graph/passes/known_number.h"
#include "symbolic/capture/executor_state.h"
#include "symbolic/capture/value_factories.h"
#include "symbolic/tensors/frameworks.h"
#include "symbolic/values/data_bool.h"
#include "symbolic/values/data_relation.h"
#include "symbolic/values/dynamic_float.h"
#include "symbolic/values/sym_int.h"
#include "symbolic/values/value_tools.h"

namespace cdynamo::symbolic {
namespace {

using graph::DType;
using graph::Sym;
using graph::Value;

// The element of a tensor of one, of a dtype that holds each of its values, on the host.
Value* only_element(Executor& ex, const ArrayValue& tensor, DType dtype, const char* what) {
  const graph::TensorType& type = tensor.array_type();
  const Executor::IsolatedRegion* region = ex.isolated_region();
  if (!ex.state().request.reads_data || (region && !region->may_be_left_out)) break_graph("CD0406", what);
  // Under cdynamo.grad a derivative would be left out without a word.
  if (ex.state().branches) break_graph("CD0406", what);
  if (!ex.graph().sym->guard_eq(type.numel(), 1, what)) break_graph("CD0406", what);
  Value* element = append_call1(ex, "reshape", {tensor.value(), std::vector<Sym>{}});
  if (type.dtype != dtype) element = append_call1(ex, "core.cast", {element, dtype});
  if (!(type.device == graph::Device{}))
    element = append_call1(ex, "core.to_device", {element, graph::Device{}});
  return append_call1(ex, "clone", {element});
}

// The integers or bools of a tensor or an array that capture has made.
graph::DenseTensor contents_of(const graph::TensorType& type, PyObject* object) {
  std::vector<int64_t> sizes;
  for (const Sym& size : type.sizes) sizes.push_back(*size.maybe_constant());
  graph::DenseTensor contents(type.dtype, std::move(sizes));
  const PyRef flat = checked(PyObject_CallMethod(object, "reshape", "i", -1));
  const PyRef numbers = checked(PyObject_CallMethod(flat.get(), "tolist", nullptr));
  for (size_t i = 0; i < contents.elements.size(); ++i) {
    contents.elements[i].integer = static_cast<int64_t>(
        PyLong_AsUnsignedLongLongMask(PyList_GetItem(numbers.get(), static_cast<Py_ssize_t>(i))));
    if (PyErr_Occurred()) throw PythonError{};
  }
  return contents;
}

// The integer or bool that an only element is whenever the graph runs.
std::optional<int64_t> known_element(Executor& ex, const ArrayValue& tensor) {
  if (!(tensor.array_type().numel().maybe_constant() == 1)) return std::nullopt;
  const auto& embedded = tensor_capture(ex).embedded;
  return graph::known_integer(ex.graph(), tensor.value(),
                              [&](const Value* input) -> std::optional<graph::DenseTensor> {
                                const auto found = embedded.find(input);
                                if (found == embedded.end()) return std::nullopt;
                                return contents_of(input->type, found->second.get());
                              });
}

template <typename F>
ValuePtr recorded_read(Executor& ex, const ArrayValue& tensor, const char* method, F&& read) {
  const FrameworkRules rules(ex, tensor.framework());
  const ValuePtr self = const_cast<ArrayValue&>(tensor).shared_from_this();
  return recorded_call(ex, "call_method", PyRef::borrow(interned(method)), positional({self}), [&] {
    const WithoutGradient no_gradient(ex);
    return read();
  });
}

}  // namespace

Sym read_data_symbol(Executor& ex, Value* element, int64_t min) {
  const Sym symbol = ex.graph().sym->new_data_symbol(min, kLargestSymbol);
  ex.state().symbols.push_back({symbol.node()->symbol, nullptr, -1});
  append_call1(ex, "core.read_int", {element, symbol});
  return symbol;
}

ValuePtr read_int(Executor& ex, const ArrayValue& tensor, const char* what) {
  return recorded_read(ex, tensor, "__int__", [&] {
    const DType dtype = tensor.array_type().dtype;
    const bool is_real = runtime::is_float(dtype);
    if (const std::optional<int64_t> known = is_real ? std::nullopt : known_element(ex, tensor))
      return dtype == DType::kU64
                 ? ex.constant(checked(PyLong_FromUnsignedLongLong(static_cast<uint64_t>(*known))))
                 : ex.constant_int(*known);
    Value* element = only_element(ex, tensor, is_real ? DType::kF64 : DType::kI64, what);
    // The upper half of uint64 is negative in int64, and no symbol.
    return make_int(ex, read_data_symbol(ex, element, dtype == DType::kU64 ? 0 : -kLargestSymbol));
  });
}

ValuePtr read_float(Executor& ex, const ArrayValue& tensor, const char* what) {
  return recorded_read(ex, tensor, "__float__", [&] {
    Value* element = only_element(ex, tensor, DType::kF64, what);
    element->type.weak = true;
    return std::make_shared<DynamicFloatValue>(element);
  });
}

bool is_readable_number(const ArrayValue& tensor) {
  if (tensor.is_scalar()) return runtime::is_integer(tensor.array_type().dtype);
  return tensor.framework() == graph::Framework::kTorch && tensor.rank() == 0 && !tensor.requires_grad();
}

ValuePtr read_index(Executor& ex, const ArrayValue& tensor, const char* what) {
  const DType dtype = tensor.array_type().dtype;
  if (runtime::is_float(dtype) || dtype == DType::kBool) break_graph("CD0406", what);
  return read_int(ex, tensor, what);
}

ValuePtr make_data_bool(Executor& ex, Value* element) {
  element->type.weak = true;
  return std::make_shared<DataBoolValue>(element, [&ex, element] {
    const WithoutGradient no_gradient(ex);
    return recorded_operator(ex, "index", {}, [&] {
      Value* number = append_call1(ex, "clone", {append_call1(ex, "core.cast", {element, DType::kI64})});
      const Sym symbol = read_data_symbol(ex, number, 0);
      ex.graph().sym->require(graph::Relation::kLe, symbol, 1, "a bool");
      return make_int(ex, symbol);
    });
  });
}

std::optional<bool> known_truth(Executor& ex, const ArrayValue& tensor) {
  if (tensor.array_type().dtype != DType::kBool) return std::nullopt;
  const std::optional<int64_t> known = known_element(ex, tensor);
  return known ? std::optional(*known != 0) : std::nullopt;
}

ValuePtr read_bool(Executor& ex, const ArrayValue& tensor, const char* what) {
  return recorded_read(ex, tensor, "__bool__", [&] {
    if (const std::optional<bool> known = known_truth(ex, tensor)) return ex.constant_bool(*known);
    return make_data_bool(ex, only_element(ex, tensor, DType::kBool, what));
  });
}

bool require_truth(Executor& ex, const ValuePtr& condition, bool expected, const char* reason) {
  if (PyObject* known = constant_object(condition); known && PyBool_Check(known))
    return (known == Py_True) == expected;
  if (!ex.state().request.reads_data || ex.isolated_region() || ex.state().branches) return false;
  ValuePtr read = condition;
  if (dynamic_cast<SymIntValue*>(condition.get()))
    read = compare_operation(ex, Py_NE, condition, ex.constant_int(0));
  if (require_relation(ex, read, expected, reason)) return true;
  if (auto* array = dynamic_cast<ArrayValue*>(condition.get())) {
    const graph::TensorType& type = array->array_type();
    if (array->truth(ex) || !ex.graph().sym->guard_eq(type.numel(), 1, reason)) return false;
    read = read_bool(ex, *array, reason);
  }
  auto* known_later = dynamic_cast<DataBoolValue*>(read.get());
  if (!known_later) return false;
  const auto number = as_sym(known_later->number());
  if (!number) return false;
  ex.graph().sym->require(graph::Relation::kEq, *number, expected ? 1 : 0, reason);
  return true;
}

namespace {
constexpr int64_t kMostNumbers = 64;  // of a tolist()

ValuePtr numbers_of(Executor& ex, const ValuePtr& value, const char* what) {
  auto* of_several = dynamic_cast<ArrayValue*>(value.get());
  if (!of_several) return without_numpy_scalar(ex, value);  // of an array that is known
  ArrayValue& array = *of_several;
  if (array.rank() == 0) return read_item(ex, array, what);
  std::vector<ValuePtr> items;
  const auto count = array.array_type().sizes[0].maybe_constant();
  if (!count) break_graph("CD0406", what);  // of nothing, whose other sizes change
  for (int64_t i = 0; i < *count; ++i)
    items.push_back(numbers_of(ex, value->get_item(ex, ex.constant_int(i)), what));
  return make_list(ex, std::move(items));
}
}  // namespace

ValuePtr read_list(Executor& ex, const ArrayValue& tensor, const char* what) {
  const auto count = tensor.array_type().numel().maybe_constant();
  if (!count || *count > kMostNumbers) break_graph("CD0406", what);
  return numbers_of(ex, const_cast<ArrayValue&>(tensor).shared_from_this(), what);
}

ValuePtr read_item(Executor& ex, const ArrayValue& tensor, const char* what) {
  if (tensor.array_type().dtype == DType::kBool) return read_bool(ex, tensor, what);
  return runtime::is_float(tensor.array_type().dtype) ? read_float(ex, tensor, what)
                                                      : read_int(ex, tensor, what);
}

graph::Value* graph_number(Executor& ex, const ValuePtr& number) {
  if (auto* integer = dynamic_cast<SymIntValue*>(number.get()))
    return ex.builder().call1("core.full", {std::vector<graph::Sym>{}, integer->sym(), graph::DType::kI64});
  auto* real = dynamic_cast<DynamicFloatValue*>(number.get());
  if (!real) return nullptr;
  graph::Value* plain = append_call1(ex, "clone", {real->value()});
  plain->type.weak = false;
  return plain;
}

}  // namespace cdynamo::symbolic
