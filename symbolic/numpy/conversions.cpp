// numpy.array, asarray, ascontiguousarray and asfortranarray of arrays, and of lists that hold what the graph computes.
#include <algorithm>

#include "graph/strides.h"
#include "symbolic/capture/value_factories.h"
#include "symbolic/interop/attributes.h"
#include "symbolic/interop/loaded_object.h"
#include "symbolic/numpy/callables.h"
#include "symbolic/numpy/methods.h"
#include "symbolic/tensors/data_numbers.h"
#include "symbolic/values/constant.h"
#include "symbolic/values/sequence.h"
#include "symbolic/values/sym_int.h"
#include "symbolic/values/value_tools.h"

namespace cdynamo::symbolic {

using graph::Arg;
using graph::DType;
using graph::Sym;
using graph::Value;

bool is_text(const ValuePtr& value, const char* text) {
  PyObject* object = constant_object(value);
  return object && PyUnicode_Check(object) && PyUnicode_CompareWithASCIIString(object, text) == 0;
}

namespace {

bool holds_graph_value(Executor& ex, const ValuePtr& value) {
  check_stack();  // a list may hold itself
  if (graph_value(value)) return true;
  const auto items = sequence_items(ex, value);
  return items &&
         std::ranges::any_of(*items, [&](const ValuePtr& item) { return holds_graph_value(ex, item); });
}

Value* stacked(Executor& ex, const std::vector<ValuePtr>& items);

// An array, a scalar, a number of Python's, or a list of these.
Value* stacked_item(Executor& ex, const ValuePtr& item) {
  if (Value* value = numpy_graph_value(ex, item)) return value;
  if (const auto items = sequence_items(ex, item); items && !items->empty()) return stacked(ex, *items);
  const std::optional<Arg> number = number_argument(item);
  if (!number || std::holds_alternative<bool>(*number))
    break_graph("CD0415", "numpy.array of " + item->describe());
  const DType dtype = std::holds_alternative<Sym>(*number) ? DType::kI64 : DType::kF64;
  return append_call1(ex, "core.full", {std::vector<Sym>{}, *number, dtype});
}

// numpy.array([a, b]) stacks what has one dtype, or is int64 and float64.
Value* stacked(Executor& ex, const std::vector<ValuePtr>& items) {
  check_stack();
  std::vector<Value*> values;
  for (const ValuePtr& item : items) values.push_back(stacked_item(ex, item));
  const auto has = [&](DType dtype) {
    return std::ranges::any_of(values, [&](const Value* value) { return value->type.dtype == dtype; });
  };
  if (has(DType::kF64) && has(DType::kI64))
    for (Value*& value : values)
      if (value->type.dtype == DType::kI64) value = append_call1(ex, "core.cast", {value, DType::kF64});
  for (const Value* value : values)
    if (value->type.rank() != values[0]->type.rank() || value->type.dtype != values[0]->type.dtype)
      break_graph("CD0415", "numpy.array of arrays that differ");
  return append_call1(ex, "stack", {values});
}

// What numpy.array and numpy.asarray are asked for.
struct Conversion {
  ValuePtr dtype;
  bool copies = false, may_copy = true;
  bool row_major = false;  // else the order is kept
};

// A member of numpy._CopyMode, which libraries give that run with NumPy 1 and 2.
bool is_copy_mode(PyObject* object) {
  return reinterpret_cast<PyObject*>(Py_TYPE(object)) == library_object("numpy", "_CopyMode");
}

Conversion conversion(const CallArgs& args, bool copies) {
  Conversion wanted{.dtype = args.positional.size() > 1 ? args.positional[1] : nullptr, .copies = copies};
  if (args.positional.size() > 2) break_graph("CD0501", "array() with these arguments");
  for (const Keyword& keyword : args.keywords) {
    const std::string_view name = PyUnicode_AsUTF8(keyword.name.get());
    const ValuePtr& value = keyword.value;
    PyObject* object = constant_object(value);
    if (name == "dtype") {
      wanted.dtype = value;
    } else if (name == "copy" && object && (PyBool_Check(object) || object == Py_None)) {
      wanted.copies = object == Py_True;
      wanted.may_copy = object != Py_False;
    } else if (name == "copy" && object && is_copy_mode(object)) {
      const std::string mode = text_attribute(object, "name");
      wanted.copies = mode == "ALWAYS";
      wanted.may_copy = mode != "NEVER";
    } else if (name == "order" && is_text(value, "C")) {
      wanted.row_major = true;
    } else if (!is_none(value) && !(name == "order" && is_text(value, "K")) &&
               !(name == "subok" && object && PyBool_Check(object))) {
      break_graph("CD0501", std::string(name));
    }
  }
  return wanted;
}

ValuePtr convert(Executor& ex, PyObject* callable, const CallArgs& args, bool copies) {
  if (args.positional.empty()) break_graph("CD0500", "array()");
  const ValuePtr& data = args.positional[0];
  auto* array = dynamic_cast<NumpyValue*>(data.get());
  auto items = array ? std::nullopt : sequence_items(ex, data);
  if (!array && !(items && holds_graph_value(ex, data))) return made_by_numpy(ex, callable, args);

  const Conversion wanted = conversion(args, copies);
  DType dtype{};
  bool has_dtype = wanted.dtype && !is_none(wanted.dtype);
  if (has_dtype && !(wanted.dtype->real_object() && numpy_dtype_like(wanted.dtype->real_object(), &dtype)))
    break_graph("CD0502", "this dtype");
  return numpy_call(ex, "call_function", PyRef::borrow(callable), args, [&]() -> ValuePtr {
    const ValuePtr result = array ? data : numpy_array_value(ex, stacked(ex, *items));
    Value* value = static_cast<NumpyValue&>(*result).value();
    Value* made = value;
    if (has_dtype && value->type.dtype != dtype) made = append_call1(ex, "core.cast", {value, dtype});
    if (wanted.row_major && !graph::is_contiguous(*ex.graph().sym, made->type))
      made = append_call1(ex, "clone", {made, std::string("contiguous_format")});
    else if (array && made == value && (wanted.copies || array->is_scalar()))
      made = append_call1(ex, "clone", {value});
    if (made != value && !wanted.may_copy) break_graph("CD0403", "array() that may not copy");
    return made == value ? result : numpy_array_value(ex, made);
  });
}

// A polynomial as its coefficients, which its __array__ gives.
CallArgs with_coefficients(Executor& ex, CallArgs args) {
  if (args.positional.empty()) return args;
  ValuePtr& data = args.positional[0];
  if (reinterpret_cast<PyObject*>(data->type()) == library_object("numpy", "poly1d"))
    data = data->get_attribute(ex, interned("coeffs"));
  return args;
}

// Takes ndmin= and order="F" out of the arguments: they are a reshape and a copy of what the others give.
ValuePtr convert_and_lay_out(Executor& ex, PyObject* callable, const CallArgs& given, bool copies) {
  CallArgs args = given;
  ValuePtr order, least;
  if (keyword_of(args, "order", &order) && is_text(order, "F")) erase_keyword(args, "order");
  if (keyword_of(args, "ndmin", &least)) erase_keyword(args, "ndmin");
  int64_t dims = 0;
  if (least) {
    const auto given_dims = as_sym(least);
    if (!given_dims || !given_dims->is_constant()) break_graph("CD0501", "ndmin");
    dims = given_dims->constant();
  }
  if (!args.positional.empty() && !holds_graph_value(ex, args.positional[0]))
    return made_by_numpy(ex, callable, given);
  ValuePtr result = convert(ex, callable, args, copies);
  const auto* array = dynamic_cast<NumpyValue*>(result.get());
  if (array && dims > array->rank()) {
    std::vector<ValuePtr> sizes(static_cast<size_t>(dims - array->rank()), ex.constant_int(1));
    for (const Sym& size : array->array_type().sizes) sizes.push_back(make_int(ex, size));
    CallArgs longer{.positional = {make_tuple(ex, std::move(sizes))}, .keywords = {}};
    graph::SymContext& sym = *ex.graph().sym;
    if (graph::is_column_major(sym, array->array_type()) && !graph::is_contiguous(sym, array->array_type()))
      longer.keywords.push_back(
          {PyRef::borrow(interned("order")), ex.constant(PyRef::borrow(interned("F")))});
    result = result->get_attribute(ex, interned("reshape"))->call(ex, longer);
  }
  return order && is_text(order, "F") ? call_numpy_function(ex, "asfortranarray", {result}) : result;
}

}  // namespace

ValuePtr array_function(Executor& ex, PyObject* f, const CallArgs& args) {
  return convert_and_lay_out(ex, f, with_coefficients(ex, args), true);
}
ValuePtr asarray_function(Executor& ex, PyObject* f, const CallArgs& args) {
  return convert_and_lay_out(ex, f, with_coefficients(ex, args), false);
}

// The array itself where it is row-major and has dims.
ValuePtr ascontiguousarray(Executor& ex, PyObject* callable, const CallArgs& args) {
  const ValuePtr given = args.positional.size() == 1 && args.keywords.empty() ? args.positional[0] : nullptr;
  auto* array = dynamic_cast<NumpyValue*>(given.get());
  if (!array) return made_by_numpy(ex, callable, args);
  const graph::TensorType& type = array->array_type();
  if (type.rank() > 0 && graph::is_contiguous(*ex.graph().sym, type)) return given;
  return numpy_call(ex, "call_function", PyRef::borrow(callable), args, [&] {
    const bool is_view = type.rank() == 0 && !array->is_scalar();
    Value* row = is_view ? array->value()
                         : append_call1(ex, "clone", {array->value(), std::string("contiguous_format")});
    if (type.rank() == 0) row = append_call1(ex, "reshape", {row, std::vector<Sym>{Sym(1)}});
    return numpy_array_value(ex, row);
  });
}

// numpy.asfortranarray: the array itself where it is column-major.
ValuePtr asfortranarray(Executor& ex, PyObject* callable, const CallArgs& args) {
  const ValuePtr given = args.positional.size() == 1 && args.keywords.empty() ? args.positional[0] : nullptr;
  auto* array = dynamic_cast<NumpyValue*>(given.get());
  if (!array || array->is_scalar()) return made_by_numpy(ex, callable, args);
  if (graph::is_column_major(*ex.graph().sym, array->array_type())) return given;
  return call_method(ex, given, "copy", {ex.constant(PyRef::borrow(interned("F")))});
}

}  // namespace cdynamo::symbolic
