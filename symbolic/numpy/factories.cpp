// Arrays from nothing and from Python data: numpy.zeros, arange, asarray and the like. What depends on
// constants alone is made by NumPy once, at capture, and copied where the program could write to it or return
// it.
#include <algorithm>

#include "graph/promotion.h"
#include "graph/strides.h"
#include "symbolic/capture/value_factories.h"
#include "symbolic/interop/attributes.h"
#include "symbolic/interop/complex_access.h"
#include "symbolic/interop/loaded_object.h"
#include "symbolic/interop/numpy_access.h"
#include "symbolic/interop/python_side.h"
#include "symbolic/numpy/callables.h"
#include "symbolic/numpy/complex_array.h"
#include "symbolic/numpy/library.h"
#include "symbolic/numpy/methods.h"
#include "symbolic/tensors/data_numbers.h"
#include "symbolic/tensors/nonzero.h"
#include "symbolic/values/constant.h"
#include "symbolic/values/python_call.h"
#include "symbolic/values/sym_int.h"
#include "symbolic/values/value_tools.h"

namespace cdynamo::symbolic {

using graph::Arg;
using graph::DType;
using graph::Sym;
using graph::Value;

namespace {

// The distance of the elements of an array that is row-major but for gaps between these, as the columns of a table are; else 1.
int64_t gap_of(const TensorInfo& info) {
  const int rank = info.view.rank;
  const int64_t gap = rank > 0 ? info.view.strides[rank - 1] : 1;
  int64_t stride = gap;
  for (int d = rank - 1; d >= 0; stride *= info.view.sizes[d--])
    if (info.view.strides[d] != stride || info.view.sizes[d] == 0) return 1;
  return std::max<int64_t>(gap, 1);
}

// An array that NumPy has just made from constants.
ValuePtr embed(Executor& ex, PyRef array) {
  TensorInfo info;
  if (!read_tensor(array.get(), &info) || info.kind != TensorKind::kNumpy || !info.obstacle.empty())
    break_graph("CD0502", info.obstacle.empty() ? "something that is no array" : info.obstacle);
  Value* value;
  if (const int64_t gap = gap_of(info); gap > 1) {
    const PyRef column =
        checked(PyObject_CallFunction(library_object("numpy", "expand_dims"), "Oi", array.get(), -1));
    const PyRef table = checked(PyObject_CallFunction(library_object("numpy", "repeat"), "OLi", column.get(),
                                                      static_cast<long long>(gap), -1));
    value = append_call1(
        ex, "select", {embed_constant(ex, table.get(), make_array_input), Sym(int64_t{-1}), Sym(int64_t{0})});
  } else {
    value = embed_constant(ex, array.get(), make_array_input);
  }
  const ValuePtr made = numpy_array_value(ex, value);
  static_cast<NumpyValue&>(*made).note_content(std::move(array));
  return made;
}

// An array, or a tuple or list that holds one.
bool holds_array(PyObject* object) {
  if (PyObject_TypeCheck(object, numpy_access::api()->array_type)) return true;
  if (!PyTuple_Check(object) && !PyList_Check(object)) return false;
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(object); ++i)
    if (holds_array(PySequence_Fast_GET_ITEM(object, i))) return true;
  return false;
}

// A tuple of new arrays, scalars and numbers.
ValuePtr embed_tuple(Executor& ex, PyObject* callable, const CallArgs& args, PyObject* tuple) {
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(tuple); ++i) {
    PyObject* item = PyTuple_GET_ITEM(tuple, i);
    if (holds_array(item) && (PyTuple_Check(item) || PyList_Check(item) || real_view(item) ||
                              !(numpy_access::array(item)->flags & numpy_access::kWriteable)))
      break_graph("CD0415", "such arrays");
  }
  return numpy_call(ex, "call_function", PyRef::borrow(callable), args, [&] {
    std::vector<ValuePtr> items;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(tuple); ++i) {
      PyRef item = PyRef::borrow(PyTuple_GET_ITEM(tuple, i));
      items.push_back(holds_array(item.get()) ? embed(ex, std::move(item)) : ex.constant(std::move(item)));
    }
    return make_tuple(ex, std::move(items));
  });
}

}  // namespace

ValuePtr made_by_numpy(Executor& ex, PyObject* callable, const CallArgs& args) {
  const auto known = [&](const ValuePtr& value) {
    PyRef object = value->materialize(ex);
    if (!object) break_graph("CD0415", "numpy function of " + value->describe());
    return object;
  };
  CallArgs whole = args;
  whole.positional.insert(whole.positional.begin(), ex.constant(PyRef::borrow(callable)));
  PyRef result = call_with_objects(python_side(PythonSide::kWithoutWarnings), whole, known);
  if (!result && PyErr_ExceptionMatches(PyExc_Warning)) {
    PyErr_Clear();
    break_graph("CD0213", "a function of NumPy's that warns");
  }
  result = checked_user(ex, result.release());
  if (!holds_array(result.get())) return wrap_fresh(ex, std::move(result));
  if (PyTuple_CheckExact(result.get())) return embed_tuple(ex, callable, args, result.get());
  if (PyTuple_Check(result.get()) || PyList_Check(result.get())) break_graph("CD0415", "a list of arrays");
  if (!(numpy_access::array(result.get())->flags & numpy_access::kWriteable))
    break_graph("CD0502", "an array that is not writeable");
  if (const PyRef pairs = real_view(result.get())) {
    PyRef made = checked(PyObject_CallOneArg(python_side(PythonSide::kMadePairs), pairs.get()));
    const ValuePtr copy = numpy_call(ex, "call_function", std::move(made), CallArgs(),
                                     [&] { return embed(ex, PyRef::borrow(pairs.get())); });
    return std::make_shared<ComplexArray>(std::static_pointer_cast<NumpyValue>(copy), false);
  }
  return numpy_call(ex, "call_function", PyRef::borrow(callable), args,
                    [&] { return embed(ex, std::move(result)); });
}

namespace {

DType dtype_argument(const ValuePtr& value, DType otherwise) {
  DType dtype = otherwise;
  if (value && !is_none(value) && !(value->real_object() && numpy_dtype_like(value->real_object(), &dtype)))
    break_graph("CD0502", "this dtype");
  return dtype;
}

std::vector<Sym> shape_argument(Executor& ex, const ValuePtr& value) {
  std::vector<ValuePtr> items = {value};
  if (auto list = sequence_items(ex, value)) items = *list;
  std::vector<Sym> sizes;
  for (const ValuePtr& item : items) {
    const auto* number = dynamic_cast<NumpyValue*>(item.get());
    const auto size = index_sym(ex, number ? read_index(ex, *number, "a size") : item);
    if (!size) break_graph("CD0401", "a shape");
    sizes.push_back(*size);
  }
  return sizes;
}

// Without like=None, and device= of NumPy 2 where it is the CPU: the arguments that decide what is made.
CallArgs without_place(const CallArgs& args) {
  CallArgs rest = args;
  ValuePtr value;
  if (keyword_of(args, "like", &value) && is_none(value)) erase_keyword(rest, "like");
  if (numpy_access::api()->major > 1 && keyword_of(args, "device", &value) &&
      (is_none(value) || is_text(value, "cpu")))
    erase_keyword(rest, "device");
  return rest;
}

// numpy.zeros(shape, dtype=float), ones, empty; sizes may be symbolic.
ValuePtr filled(Executor& ex, PyObject* callable, const CallArgs& args, int64_t number) {
  std::vector<ValuePtr> given =
      bind_arguments(ex, "zeros", without_place(args), {"shape", "dtype?", "order?"});
  if (given[2] && !is_text(given[2], "C")) return made_by_numpy(ex, callable, args);
  const DType dtype = dtype_argument(given[1], DType::kF64);
  const std::vector<Sym> sizes = shape_argument(ex, given[0]);
  return numpy_call(ex, "call_function", PyRef::borrow(callable), args, [&] {
    return numpy_array_value(ex, append_call1(ex, "core.full", {sizes, Sym(number), dtype}));
  });
}
ValuePtr zeros(Executor& ex, PyObject* f, const CallArgs& args) { return filled(ex, f, args, 0); }
ValuePtr ones(Executor& ex, PyObject* f, const CallArgs& args) { return filled(ex, f, args, 1); }

// numpy.full(shape, fill_value): NumPy makes it once, unless the value is the graph's, or is a float.
ValuePtr full(Executor& ex, PyObject* callable, const CallArgs& args) {
  std::vector<ValuePtr> given =
      bind_arguments(ex, "full", without_place(args), {"shape", "fill_value", "dtype?", "order?"});
  PyObject* constant = constant_object(given[1]);
  if (constant && PyFloat_CheckExact(constant) && !given[2] && !given[3]) {
    const std::vector<Sym> sizes = shape_argument(ex, given[0]);
    return numpy_call(ex, "call_function", PyRef::borrow(callable), args, [&] {
      const Arg number = PyFloat_AS_DOUBLE(constant);
      return numpy_array_value(ex, append_call1(ex, "core.full", {sizes, number, DType::kF64}));
    });
  }
  auto* number = dynamic_cast<NumpyValue*>(given[1].get());
  if (!number || number->rank() > 0 || given[3]) return made_by_numpy(ex, callable, args);
  const DType dtype = dtype_argument(given[2], number->array_type().dtype);
  const std::vector<Sym> sizes = shape_argument(ex, given[0]);
  return numpy_call(ex, "call_function", PyRef::borrow(callable), args, [&] {
    Value* value = number->value();
    if (dtype != value->type.dtype) value = append_call1(ex, "core.cast", {value, dtype});
    return numpy_array_value(ex,
                             append_call1(ex, "clone", {append_call1(ex, "broadcast_to", {value, sizes})}));
  });
}

// numpy.arange of ints, of which some change from call to call: the operator of the table. Others NumPy makes once.
ValuePtr arange(Executor& ex, PyObject* callable, const CallArgs& given_args) {
  CallArgs args = without_place(given_args);
  ValuePtr type;
  if (keyword_of(args, "dtype", &type)) erase_keyword(args, "dtype");
  DType dtype = DType::kI64;
  // Those that have all of the numbers.
  const bool has_other_type = type && !is_none(type) &&
                              !(type->real_object() && numpy_dtype_like(type->real_object(), &dtype) &&
                                (dtype == DType::kI64 || dtype == DType::kF64));
  const auto is_symbol = [](const ValuePtr& value) { return as_sym(value) && !value->as_constant(); };
  const auto is_int = [](const ValuePtr& value) { return as_sym(value).has_value(); };
  const size_t count = args.positional.size();
  if (has_other_type || !args.keywords.empty() || count < 1 || count > 3 ||
      !std::ranges::all_of(args.positional, is_int) || std::ranges::none_of(args.positional, is_symbol))
    return made_by_numpy(ex, callable, given_args);
  Sym bounds[] = {Sym(int64_t{0}), Sym(int64_t{0}), Sym(int64_t{1})};
  if (count == 1) bounds[1] = *as_sym(args.positional[0]);
  for (size_t i = 0; count > 1 && i < count; ++i) bounds[i] = *as_sym(args.positional[i]);
  return numpy_call(ex, "call_function", PyRef::borrow(callable), given_args, [&] {
    const graph::OpDef& op = graph::op("arange");
    std::vector<Arg> given = {bounds[0], bounds[1], bounds[2], dtype};
    for (size_t i = given.size(); i < op.parsed[1].params.size(); ++i)
      given.push_back(op.parsed[1].params[i].default_value);
    return numpy_array_value(ex, append_call(ex, op, {.overload = 1, .args = std::move(given)}).at(0));
  });
}

// zeros_like and the like keep the layout (order 'K').
ValuePtr like(Executor& ex, PyObject* callable, const CallArgs& args, const char* op) {
  std::vector<ValuePtr> given =
      bind_arguments(ex, op, without_place(args), {"a", "dtype?", "order?", "subok?", "shape?"});
  auto* array = dynamic_cast<NumpyValue*>(given[0].get());
  const bool has_shape = given[4] && !is_none(given[4]);
  if (!array || (given[2] && !is_none(given[2])) || given[3]) break_graph("CD0500", op);
  const DType dtype = dtype_argument(given[1], array->array_type().dtype);
  if (has_shape) {
    const std::vector<Sym> sizes = shape_argument(ex, given[4]);
    // Of as many dims it is laid out as the array is, else row-major.
    if (sizes.size() == array->array_type().sizes.size() &&
        !graph::is_contiguous(*ex.graph().sym, array->array_type()))
      break_graph("CD0500", op);
    const Sym number(int64_t{std::string_view(op) == "ones_like"});
    return numpy_call(ex, "call_function", PyRef::borrow(callable), args, [&] {
      return numpy_array_value(ex, append_call1(ex, "core.full", {sizes, number, dtype}));
    });
  }
  return numpy_call(ex, "call_function", PyRef::borrow(callable), args,
                    [&] { return numpy_array_value(ex, append_call1(ex, op, {array->value(), dtype})); });
}
ValuePtr zeros_like(Executor& ex, PyObject* f, const CallArgs& args) {
  return like(ex, f, args, "zeros_like");
}
ValuePtr ones_like(Executor& ex, PyObject* f, const CallArgs& args) { return like(ex, f, args, "ones_like"); }

// Of an array, or a NumPy scalar.
std::optional<DType> dtype_of_array(const ValuePtr& value) {
  if (const Value* held = graph_value(value)) return held->type.dtype;
  DType dtype;
  if (is_numpy_scalar_constant(value) && numpy_dtype_like(reinterpret_cast<PyObject*>(value->type()), &dtype))
    return dtype;
  return std::nullopt;
}

// numpy.copyto(target, source, where=mask): target[...] = source, for a cast that is allowed; of both where there is a mask.
ValuePtr copyto(Executor& ex, PyObject*, const CallArgs& args) {
  const std::vector<ValuePtr> given =
      bind_arguments(ex, "copyto", args, {"dst", "src", "casting?", "*where?"});
  const ValuePtr &source = given[1], &mask = given[3];
  auto* target = dynamic_cast<NumpyValue*>(given[0].get());
  if (given[2]) break_graph("CD0501", "casting");
  // Of a number that fits: NumPy asks whether the number itself may be cast.
  const bool is_weak = as_sym(source).has_value() || source->type() == &PyFloat_Type;
  const std::optional<DType> given_dtype = is_weak ? std::nullopt : dtype_of_array(source);
  const auto may_cast = [&](DType from) {
    return graph::can_cast_in_place(graph::Framework::kNumpy, from, target->array_type().dtype);
  };
  if (!target || target->is_scalar() ||
      !(is_weak ? runtime::is_float(target->array_type().dtype) : given_dtype && may_cast(*given_dtype)))
    break_graph("CD0500", "copyto");
  ValuePtr written = source;
  if (mask && constant_object(mask) != Py_True) {
    const Value* chosen = graph_value(mask);
    if (!chosen || chosen->type.dtype != DType::kBool) break_graph("CD0501", "where");
    written = call_numpy_function(ex, "where", {mask, source, given[0]});
  }
  target->set_item(ex, ex.constant(PyRef::borrow(Py_Ellipsis)), written);
  return ex.none();
}

// The places of what is not zero, as columns of one array where there are several.
ValuePtr nonzero_columns(Executor& ex, const NumpyValue& array) {
  const std::vector<Value*> indices = nonzero_indices(ex, array.value(), "nonzero");
  std::vector<ValuePtr> columns;
  if (indices.size() == 1)
    return make_tuple(ex, {numpy_array_value(ex, append_call1(ex, "clone", {indices[0]}))});
  Value* table = append_call1(ex, "stack", {indices, Sym(1)});
  for (size_t i = 0; i < indices.size(); ++i)
    columns.push_back(numpy_array_value(ex, append_call1(ex, "select", {table, Sym(1), Sym(i)})));
  return make_tuple(ex, std::move(columns));
}

ValuePtr nonzero_function(Executor& ex, PyObject* callable, const CallArgs& args) {
  auto* array = args.positional.size() == 1 && args.keywords.empty()
                    ? dynamic_cast<NumpyValue*>(args.positional[0].get())
                    : nullptr;
  if (!array) break_graph("CD0500", "nonzero");
  return numpy_call(ex, "call_function", PyRef::borrow(callable), args,
                    [&] { return nonzero_columns(ex, *array); });
}

// In Python (python/cdynamo/polyfills/numpy_functions.py, by the function's name), inlined.
ValuePtr inlined(Executor& ex, PyObject* callable, const CallArgs& args) {
  const std::string name = text_attribute(callable, "__name__");
  return polyfill(ex, PythonSide::kNumpyPolyfills, name.c_str())->call(ex, args);
}

// The operator of the table, as a call of the user's.
ValuePtr by_the_table(Executor& ex, PyObject* callable, const CallArgs& args, const char* path) {
  return numpy_call(ex, "call_function", PyRef::borrow(callable), args,
                    [&] { return call_numpy_operator(ex, *find_numpy_operator(path), false, args); });
}

// numpy.repeat(x, counts); with one number the operator of the table.
ValuePtr repeat(Executor& ex, PyObject* callable, const CallArgs& args) {
  const std::vector<ValuePtr> given = bind_arguments(ex, "repeat", args, {"a", "repeats", "axis?"});
  const auto* counts = dynamic_cast<NumpyValue*>(given[1].get());
  if ((counts && counts->rank() > 0) || sequence_items(ex, given[1])) return inlined(ex, callable, args);
  return by_the_table(ex, callable, args, "numpy.repeat");
}

// numpy.roll(x, shift) by what only the graph knows; by ints the operator of the table.
ValuePtr roll(Executor& ex, PyObject* callable, const CallArgs& args) {
  const std::vector<ValuePtr> given = bind_arguments(ex, "roll", args, {"a", "shift", "axis?"});
  const auto is_array = [](const ValuePtr& value) {
    return dynamic_cast<NumpyValue*>(value.get()) != nullptr;
  };
  const auto shifts = sequence_items(ex, given[1]);
  if (is_array(given[1]) || (shifts && std::ranges::any_of(*shifts, is_array)))
    return inlined(ex, callable, args);
  return by_the_table(ex, callable, args, "numpy.roll");
}

// numpy.average refuses weights of which the sum is zero.
ValuePtr average(Executor& ex, PyObject* callable, const CallArgs& args) {
  const std::vector<ValuePtr> given =
      bind_arguments(ex, "average", args, {"a", "axis?", "weights?", "returned?", "*keepdims?"});
  if (given[2] && !is_none(given[2]))
    polyfill(ex, PythonSide::kNumpyPolyfills, "check_weights")
        ->call(ex, positional({given[0], given[1] ? given[1] : ex.none(), given[2]}));
  return by_the_table(ex, callable, args, "numpy.average");
}

// Of a list it counts the items, whatever the axis.
ValuePtr array_split(Executor& ex, PyObject* callable, const CallArgs& args) {
  if (!args.positional.empty() && sequence_items(ex, args.positional[0]))
    break_graph("CD0500", "array_split of a list");
  return by_the_table(ex, callable, args, "numpy.array_split");
}

// sums_at(size, places, weights): see polyfills/rules.py.
ValuePtr sums_at(Executor& ex, PyObject* callable, const CallArgs& args) {
  const std::optional<Sym> size = index_sym(ex, args.positional.at(0));
  Value *places = graph_value(args.positional.at(1)), *weights = graph_value(args.positional.at(2));
  if (!size || !places || !weights) break_graph("CD0500", "sums at places");
  return numpy_call(ex, "call_function", PyRef::borrow(callable), args, [&] {
    Value* zeros =
        append_call1(ex, "core.full", {std::vector<Sym>{*size}, Sym(int64_t{0}), weights->type.dtype});
    return numpy_array_value(ex, append_call1(ex, "scatter_add", {zeros, Sym(int64_t{0}), places, weights}));
  });
}

// pairs_of(array), complex_of(pairs, is_scalar), not_captured("a case"), required(condition): see polyfills/rules.py.
ValuePtr pairs_of(Executor&, PyObject*, const CallArgs& args) {
  const auto* array = dynamic_cast<ComplexArray*>(args.positional.at(0).get());
  if (!array) break_graph("CD0500", "the pairs of " + args.positional[0]->describe());
  return array->pairs();
}

ValuePtr complex_of(Executor&, PyObject*, const CallArgs& args) {
  auto pairs = std::dynamic_pointer_cast<NumpyValue>(args.positional.at(0));
  const graph::TensorType* type = pairs ? &pairs->array_type() : nullptr;
  if (!type || type->rank() == 0 || type->sizes.back() != Sym(2) || type->strides.back() != Sym(1))
    break_graph("CD0500", "complex numbers of " + args.positional[0]->describe());
  const bool is_scalar = type->rank() == 1 && constant_object(args.positional.at(1)) == Py_True;
  return std::make_shared<ComplexArray>(std::move(pairs), is_scalar);
}

ValuePtr required(Executor& ex, PyObject*, const CallArgs& args) {
  return ex.constant_bool(require_truth(ex, args.positional.at(0), true, "numpy"));
}

ValuePtr not_captured(Executor&, PyObject*, const CallArgs& args) {
  PyObject* what = args.positional.size() == 1 ? constant_object(args.positional[0]) : nullptr;
  break_graph("CD0404", what && PyUnicode_Check(what) ? PyUnicode_AsUTF8(what) : "a function of NumPy's");
}

// numpy.lib.stride_tricks.sliding_window_view(x, window_shape, axis=None): windows of x as more dims, a read-only view.
ValuePtr sliding_windows(Executor& ex, PyObject* callable, const CallArgs& args) {
  const std::vector<ValuePtr> given = bind_arguments(
      ex, "sliding_window_view", args, {"x", "window_shape", "axis?", "*subok?", "*writeable?"});
  auto* array = dynamic_cast<NumpyValue*>(given[0].get());
  if (!array || given[3] || given[4]) break_graph("CD0500", "sliding_window_view of these arguments");
  const std::vector<Sym> sizes = shape_argument(ex, given[1]);
  const bool has_axis = given[2] && !is_none(given[2]);
  std::vector<Sym> axes;
  if (has_axis) axes = shape_argument(ex, given[2]);
  for (int d = 0; !has_axis && d < array->rank(); ++d) axes.emplace_back(int64_t{d});
  if (axes.size() != sizes.size() || sizes.empty()) break_graph("CD0403", "sliding_window_view");
  return numpy_call(ex, "call_function", PyRef::borrow(callable), args, [&] {
    Value* view = array->value();
    for (size_t i = 0; i < sizes.size(); ++i) {
      const int64_t axis = ex.graph().sym->specialize(axes[i], "an axis");
      if (axis < -array->rank() || axis >= array->rank())
        break_graph("CD0403", "an axis that an array has not");
      view =
          append_call1(ex, "unfold", {view, Sym(axis < 0 ? axis + array->rank() : axis), sizes[i], Sym(1)});
    }
    return numpy_array_value(ex, view);
  });
}

// numpy.lib.stride_tricks.as_strided(x, shape=None, strides=None): strides are in bytes.
ValuePtr as_strided(Executor& ex, PyObject* callable, const CallArgs& args) {
  const std::vector<ValuePtr> given =
      bind_arguments(ex, "as_strided", args, {"x", "shape?", "strides?", "subok?", "writeable?"});
  auto* array = dynamic_cast<NumpyValue*>(given[0].get());
  if (!array || given[3] || given[4]) break_graph("CD0500", "as_strided of these arguments");
  const auto is_given = [&](int i) { return given[i] && !is_none(given[i]); };
  for (int i : {1, 2})
    if (is_given(i) && !sequence_items(ex, given[i])) break_graph("CD0500", "as_strided of these arguments");
  const graph::TensorType& type = array->array_type();
  const std::vector<Sym> sizes = is_given(1) ? shape_argument(ex, given[1]) : type.sizes;
  std::vector<Sym> strides = graph::contiguous_strides(sizes);
  if (is_given(2)) {
    strides = shape_argument(ex, given[2]);
    const Sym item = int64_t{runtime::bytes(type.dtype)};
    for (Sym& stride : strides) {
      const Sym elements = floordiv(stride, item);
      if (!ex.graph().sym->guard_eq(elements * item, stride, "as_strided"))
        break_graph("CD0500", "as_strided between elements");
      stride = elements;
    }
  }
  if (sizes.size() != strides.size()) break_graph("CD0500", "as_strided of these arguments");
  return numpy_call(ex, "call_function", PyRef::borrow(callable), args, [&] {
    return numpy_array_value(ex, append_call1(ex, "as_strided", {array->value(), sizes, strides}));
  });
}

// numpy.where(condition) is nonzero.
ValuePtr where_function(Executor& ex, PyObject* callable, const CallArgs& args) {
  if (args.positional.size() == 1) return nonzero_function(ex, callable, args);
  if (std::ranges::all_of(args.positional,
                          [](const ValuePtr& value) { return value->as_constant().has_value(); }))
    return made_by_numpy(ex, callable, args);
  return numpy_call(ex, "call_function", PyRef::borrow(callable), args, [&] {
    return call_numpy_operator(ex, *find_numpy_operator("numpy.where"), false, args);
  });
}

ValuePtr dtype_of(Executor& ex, PyObject* callable, const CallArgs& args) {
  return fold_call(ex, callable, args);
}

// numpy.gradient: its Python, but along coordinates it asks whether their steps are equal.
ValuePtr gradient(Executor& ex, PyObject* callable, const CallArgs& args) {
  const auto is_coordinates = [](const ValuePtr& value) {
    const auto* array = dynamic_cast<NumpyValue*>(value.get());
    return array && array->rank() > 0;
  };
  if (std::any_of(args.positional.begin() + !args.positional.empty(), args.positional.end(), is_coordinates))
    return recorded_numpy_library(ex, "call_function", PyRef::borrow(callable), callable, args);
  const PyRef implementation = checked(PyObject_GetAttrString(callable, "_implementation"));
  return ex.wrap(implementation.get(), constant_source(implementation.get()))->call(ex, args);
}

// numpy.result_type and numpy.can_cast ask arrays for their dtypes alone.
ValuePtr result_type(Executor& ex, PyObject* callable, const CallArgs& args) {
  CallArgs dtypes = args;
  for (ValuePtr& value : dtypes.positional)
    if (dynamic_cast<NumpyValue*>(value.get())) value = value->get_attribute(ex, interned("dtype"));
  return fold_call(ex, callable, dtypes);
}

// numpy.reshape(x, ...) and others that are the method.
template <const char* const& kName>
ValuePtr as_method(Executor& ex, PyObject*, const CallArgs& args) {
  CallArgs rest = args;
  // numpy.transpose((a, b)), numpy.ravel(2.0): of what is no array one is made.
  const ValuePtr first = rest.positional.empty() ? nullptr : rest.positional[0];
  if (first && (sequence_items(ex, first) || first->type() == &PyFloat_Type || first->type() == &PyLong_Type))
    rest.positional[0] = call_numpy_function(ex, "asarray", {rest.positional[0]});
  if (rest.positional.empty() || !dynamic_cast<NumpyValue*>(rest.positional[0].get()))
    break_graph("CD0500", kName);
  ValuePtr self = rest.positional[0];
  rest.positional.erase(rest.positional.begin());
  for (Keyword& keyword : rest.keywords)
    if (PyUnicode_CompareWithASCIIString(keyword.name.get(), "shape") == 0 ||
        PyUnicode_CompareWithASCIIString(keyword.name.get(), "axes") == 0 ||
        PyUnicode_CompareWithASCIIString(keyword.name.get(), "newshape") == 0) {
      rest.positional.push_back(keyword.value);
      keyword.value = nullptr;
    }
  std::erase_if(rest.keywords, [](const Keyword& keyword) { return !keyword.value; });
  return self->get_attribute(ex, interned(kName))->call(ex, rest);
}
constexpr const char* kReshape = "reshape";
constexpr const char* kTranspose = "transpose";
constexpr const char* kRavel = "ravel";
constexpr const char* kCopy = "copy";

// numpy.copy keeps the memory order where the method makes a row-major copy.
ValuePtr copy_function(Executor& ex, PyObject* callable, const CallArgs& args) {
  auto* scalar = args.positional.empty() ? nullptr : dynamic_cast<NumpyValue*>(args.positional[0].get());
  if (scalar && scalar->is_scalar())
    return numpy_call(ex, "call_function", PyRef::borrow(callable), args,
                      [&] { return numpy_array_value(ex, append_call1(ex, "clone", {scalar->value()})); });
  CallArgs all = args;
  if (args.keywords.empty() && args.positional.size() == 1)
    all.keywords.push_back(
        {PyRef::borrow(interned("order")), ex.constant(checked(PyUnicode_FromString("K")))});
  return as_method<kCopy>(ex, callable, all);
}

template <const char* const& kName>
ValuePtr shape_query(Executor& ex, PyObject* callable, const CallArgs& args) {
  // numpy.size(x, axis)
  if (args.positional.size() == 2 && dynamic_cast<NumpyValue*>(args.positional[0].get()) &&
      as_sym(args.positional[1]))
    return args.positional[0]->get_attribute(ex, interned("shape"))->get_item(ex, args.positional[1]);
  auto* array = args.positional.size() == 1 ? dynamic_cast<NumpyValue*>(args.positional[0].get()) : nullptr;
  if (!array) return fold_call(ex, callable, args);
  return array->get_attribute(ex, interned(kName));
}
constexpr const char* kShape = "shape";
constexpr const char* kNdim = "ndim";
constexpr const char* kSize = "size";

constexpr NumpySpecialRow kRows[] = {
    {"numpy.zeros", zeros},
    {"numpy.ones", ones},
    {"numpy.empty", zeros},
    {"numpy.zeros_like", zeros_like},
    {"numpy.empty_like", zeros_like},
    {"numpy.ones_like", ones_like},
    {"numpy.array", array_function},
    {"numpy.asarray", asarray_function},
    {"numpy.asanyarray", asarray_function},
    {"numpy.copyto", copyto},
    {"numpy.fill_diagonal", write_by_numpy_library},
    {"numpy.place", write_by_numpy_library},
    {"numpy.put", write_by_numpy_library},
    {"numpy.put_along_axis", write_by_numpy_library},
    {"numpy.putmask", write_by_numpy_library},
    {"numpy.nonzero", nonzero_function},
    {"numpy.lib.stride_tricks.sliding_window_view", sliding_windows},
    {"numpy.lib.stride_tricks.as_strided", as_strided},
    {"numpy.unique", inlined},
    {"numpy.bincount", inlined},
    {"numpy.compress", inlined},
    {"numpy.array_equiv", inlined},
    {"numpy.broadcast_arrays", inlined},
    {"numpy.broadcast_shapes", inlined},
    {"numpy.can_cast", result_type},
    {"numpy.fromiter", inlined},
    {"numpy.gradient", gradient},
    {"numpy.histogramdd", inlined},
    {"numpy.intersect1d", inlined},
    {"numpy.piecewise", inlined},
    {"numpy.setdiff1d", inlined},
    {"numpy.setxor1d", inlined},
    {"numpy.trim_zeros", inlined},
    {"numpy.polymul", inlined},
    {"numpy.testing.assert_allclose", inlined},
    {"numpy.testing.assert_array_equal", inlined},
    {"numpy.repeat", repeat},
    {"numpy.roll", roll},
    {"numpy.average", average},
    {"numpy.array_split", array_split},
    {"cdynamo.polyfills.rules.sums_at", sums_at},
    {"cdynamo.polyfills.rules.pairs_of", pairs_of},
    {"cdynamo.polyfills.rules.complex_of", complex_of},
    {"cdynamo.polyfills.rules.not_captured", not_captured},
    {"cdynamo.polyfills.rules.required", required},
    {"numpy._core._multiarray_umath._array_converter", inlined},
    {"numpy.where", where_function},
    {"numpy.ascontiguousarray", ascontiguousarray},
    {"numpy.asfortranarray", asfortranarray},
    {"numpy.full", full},
    {"numpy.arange", arange},
    {"numpy.linspace", made_by_numpy},
    {"numpy.logspace", made_by_numpy},
    {"numpy.geomspace", made_by_numpy},
    {"numpy.eye", made_by_numpy},
    {"numpy.identity", made_by_numpy},
    {"numpy.tri", made_by_numpy},
    {"numpy.hanning", made_by_numpy},
    {"numpy.hamming", made_by_numpy},
    {"numpy.blackman", made_by_numpy},
    {"numpy.dtype", dtype_of},
    {"numpy.finfo", dtype_of},
    {"numpy.iinfo", dtype_of},
    {"numpy.result_type", result_type},
    {"numpy.promote_types", dtype_of},
    {"numpy.reshape", as_method<kReshape>},
    {"numpy.transpose", as_method<kTranspose>},
    {"numpy.ravel", as_method<kRavel>},
    {"numpy.copy", copy_function},
    {"numpy.shape", shape_query<kShape>},
    {"numpy.ndim", shape_query<kNdim>},
    {"numpy.size", shape_query<kSize>},
};

}  // namespace

std::span<const NumpySpecialRow> numpy_factory_functions() { return kRows; }

}  // namespace cdynamo::symbolic
