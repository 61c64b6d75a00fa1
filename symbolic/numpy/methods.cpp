#include "symbolic/numpy/methods.h"

#include <algorithm>

#include "graph/strides.h"
#include "symbolic/capture/value_factories.h"
#include "symbolic/interop/numpy_access.h"
#include "symbolic/interop/python_side.h"
#include "symbolic/numpy/complex_array.h"
#include "symbolic/numpy/library.h"
#include "symbolic/tensors/data_numbers.h"
#include "symbolic/tensors/frameworks.h"
#include "symbolic/values/builtin_method.h"
#include "symbolic/values/iterator.h"
#include "symbolic/values/sequence.h"
#include "symbolic/values/sym_int.h"
#include "symbolic/values/value_tools.h"

namespace cdynamo::symbolic {

using graph::DType;
using graph::Sym;
using graph::Value;

namespace {

// What a view is made of: of a scalar, which nothing writes to, it is a copy.
Value* viewed(Executor& ex, const ValuePtr& self) {
  const NumpyValue& array = array_of(self);
  return array.is_scalar() ? append_call1(ex, "clone", {array.value()}) : array.value();
}

// ---- properties

struct PropertyRow {
  const char* name;
  ValuePtr (*read)(Executor& ex, NumpyValue& self);
  bool is_array = false;  // an operator gives it
};

ValuePtr ints(Executor& ex, const std::vector<Sym>& values, int64_t factor = 1) {
  std::vector<ValuePtr> items;
  for (const Sym& value : values) items.push_back(make_int(ex, value * Sym(factor)));
  return make_tuple(ex, std::move(items));
}

Value* reversed_dims(Executor& ex, Value* array) {
  std::vector<Sym> order;
  for (int64_t d = array->type.rank(); d-- > 0;) order.emplace_back(d);
  return append_call1(ex, "permute", {array, order});
}

ValuePtr transposed(Executor& ex, NumpyValue& self) {
  return self.is_scalar() ? self.shared_from_this() : numpy_array_value(ex, reversed_dims(ex, self.value()));
}

constexpr PropertyRow kProperties[] = {
    {"flat",
     [](Executor&, NumpyValue& self) -> ValuePtr {
       return self.is_scalar() ? nullptr : make_flat_array(self.shared_from_this());
     }},
    {"flags",
     [](Executor&, NumpyValue& self) -> ValuePtr {
       return make_array_flags(self.shared_from_this(), self.array_type());
     }},
    {"shape", [](Executor& ex, NumpyValue& self) { return ints(ex, self.array_type().sizes); }},
    {"strides",
     [](Executor& ex, NumpyValue& self) {
       return ints(ex, self.array_type().strides, runtime::bytes(self.array_type().dtype));
     }},
    {"dtype",
     [](Executor& ex, NumpyValue& self) { return ex.constant(numpy_dtype_object(self.array_type().dtype)); }},
    {"ndim", [](Executor& ex, NumpyValue& self) { return ex.constant_int(self.rank()); }},
    {"size", [](Executor& ex, NumpyValue& self) { return make_int(ex, self.array_type().numel()); }},
    {"itemsize",
     [](Executor& ex, NumpyValue& self) { return ex.constant_int(runtime::bytes(self.array_type().dtype)); }},
    {"nbytes",
     [](Executor& ex, NumpyValue& self) {
       return make_int(ex, self.array_type().numel() * Sym(int64_t{runtime::bytes(self.array_type().dtype)}));
     }},
    {"T", transposed, true},
    {"real", [](Executor&, NumpyValue& self) -> ValuePtr { return self.shared_from_this(); }, true},
    {"__class__",
     [](Executor& ex, NumpyValue& self) {
       PyObject* type = reinterpret_cast<PyObject*>(self.type());
       return ex.wrap(type, constant_source(type));
     }},
};

// ---- methods

// All ints, or one sequence of ints: x.reshape(2, 3), x.reshape((2, 3)).
std::vector<Sym> int_list(Executor& ex, const std::vector<ValuePtr>& given) {
  std::vector<ValuePtr> items = given;
  if (given.size() == 1)
    if (auto sequence = sequence_items(ex, given[0])) items = *sequence;
  std::vector<Sym> result;
  for (const ValuePtr& item : items) {
    auto sym = index_sym(ex, item);
    if (!sym) break_graph("CD0401", "a list of ints");
    result.push_back(*sym);
  }
  return result;
}

enum class Order { kRowMajor, kColumnMajor, kKept };

// The order= of a copy, `usual` where it is not given; "A" breaks the graph.
Order order_of(const ValuePtr& given, Order usual) {
  struct Row {
    const char* text;
    Order order;
  };
  static constexpr Row kOrders[] = {{"C", Order::kRowMajor}, {"F", Order::kColumnMajor}, {"K", Order::kKept}};
  if (!given) return usual;
  PyObject* value = constant_object(given);
  for (const Row& row : kOrders)
    if (value && PyUnicode_Check(value) && PyUnicode_CompareWithASCIIString(value, row.text) == 0)
      return row.order;
  break_graph("CD0501", "order");
}

// Of a method that counts elements in row-major order, or, transposed, in column-major order.
bool counts_columns(const ValuePtr& given) {
  const Order order = order_of(given, Order::kRowMajor);
  if (order == Order::kKept) break_graph("CD0501", "order");
  return order == Order::kColumnMajor;
}

// Dims of size 1, and those of an array without elements, keep their strides only where all sizes are given and are the array's;
// else NumPy passes over them, and those of the result follow from the other dims.
Value* reshaped(Executor& ex, Value* array, const std::vector<Sym>& sizes) {
  graph::SymContext& sym = *ex.graph().sym;
  const std::vector<Sym>& own = array->type.sizes;
  std::vector<Sym> between = own;
  if (std::ranges::find(own, Sym(0)) != own.end())
    between.push_back(1);
  else
    std::erase(between, Sym(1));
  if (between.size() == own.size()) return append_call1(ex, "reshape", {array, sizes});
  const auto equal = [&](const Sym& a, const Sym& b) { return sym.guard_eq(a, b); };
  if (std::equal(sizes.begin(), sizes.end(), own.begin(), own.end(), equal)) {
    std::vector<Sym> dims;
    for (size_t d = 0; d < own.size(); ++d) dims.push_back(Sym(static_cast<int64_t>(d)));
    return append_call1(ex, "permute", {array, dims});
  }
  return append_call1(ex, "reshape", {append_call1(ex, "reshape", {array, between}), sizes});
}

ValuePtr reshape_method(Executor& ex, const ValuePtr& self, const CallArgs& args) {
  const CallArgs options{.positional = {}, .keywords = args.keywords};
  const std::vector<ValuePtr> given = bind_arguments(ex, "reshape", options, {"*order?", "*copy?"});
  if (given[1] && !is_none(given[1])) break_graph("CD0501", "copy");
  const bool columns = counts_columns(given[0]);
  std::vector<Sym> sizes = int_list(ex, args.positional);
  if (sizes.empty() && array_of(self).is_scalar()) return self;
  if (!columns) return numpy_array_value(ex, reshaped(ex, viewed(ex, self), sizes));
  std::ranges::reverse(sizes);
  return numpy_array_value(ex, reversed_dims(ex, reshaped(ex, reversed_dims(ex, viewed(ex, self)), sizes)));
}

ValuePtr transpose_method(Executor& ex, const ValuePtr& self, const CallArgs& args) {
  require_no_keywords(ex, "transpose", args);
  if (args.positional.empty() || (args.positional.size() == 1 && is_none(args.positional[0])))
    return transposed(ex, array_of(self));
  return numpy_array_value(
      ex, append_call1(ex, "permute", {array_of(self).value(), int_list(ex, args.positional)}));
}

ValuePtr astype_method(Executor& ex, const ValuePtr& self, const CallArgs& args) {
  std::vector<ValuePtr> given =
      bind_arguments(ex, "astype", args, {"dtype", "order?", "casting?", "subok?", "copy?"});
  DType dtype;
  PyObject* wanted = given[0]->real_object();
  if (!wanted || !numpy_dtype_like(wanted, &dtype)) break_graph("CD0502", "astype of this dtype");
  for (size_t i : {size_t{1}, size_t{2}, size_t{3}})
    if (given[i]) break_graph("CD0501", "astype with order, casting or subok");
  bool copy = !given[4] || constant_object(given[4]) != Py_False;
  if (!copy && dtype == array_of(self).array_type().dtype) return self;
  return numpy_cast(ex, array_of(self), dtype);
}

ValuePtr copy_method(Executor& ex, const ValuePtr& self, const CallArgs& args) {
  // ndarray.copy is in C order unless another one is asked for.
  const Order order = order_of(bind_arguments(ex, "copy", args, {"order?"})[0], Order::kRowMajor);
  if (array_of(self).is_scalar()) return self;
  const auto row_major = [&](Value* array) {
    return append_call1(ex, "clone", {array, std::string("contiguous_format")});
  };
  Value* value = array_of(self).value();
  Value* copy = order == Order::kKept          ? append_call1(ex, "clone", {value})
                : order == Order::kColumnMajor ? reversed_dims(ex, row_major(reversed_dims(ex, value)))
                                               : row_major(value);
  return numpy_array_value(ex, copy);
}

Value* flattened(Executor& ex, Value* array) { return reshaped(ex, array, {Sym(int64_t{-1})}); }

ValuePtr flatten_method(Executor& ex, const ValuePtr& self, const CallArgs& args) {
  Value* value = array_of(self).value();
  if (counts_columns(bind_arguments(ex, "flatten", args, {"order?"})[0])) value = reversed_dims(ex, value);
  return numpy_array_value(ex, append_call1(ex, "clone", {flattened(ex, value)}));
}

// A view of what is contiguous, else a copy, also where a view with other strides could be had.
ValuePtr ravel_method(Executor& ex, const ValuePtr& self, const CallArgs& args) {
  Value* value = viewed(ex, self);
  if (counts_columns(bind_arguments(ex, "ravel", args, {"order?"})[0])) value = reversed_dims(ex, value);
  Value* flat = flattened(ex, value);
  const bool is_view = graph::is_contiguous(*ex.graph().sym, value->type);
  return numpy_array_value(ex, is_view ? flat : append_call1(ex, "clone", {flat}));
}

// x.view(): a new array on the same memory, as another dtype if one is given.
ValuePtr view_method(Executor& ex, const ValuePtr& self, const CallArgs& args) {
  const std::vector<ValuePtr> given = bind_arguments(ex, "view", args, {"dtype?", "type?"});
  const DType own = array_of(self).array_type().dtype;
  DType dtype = own;
  const bool is_dtype =
      !given[0] || (given[0]->real_object() && numpy_dtype_like(given[0]->real_object(), &dtype));
  if (!is_dtype || given[1] || array_of(self).is_scalar()) break_graph("CD0502", "view() as this type");
  graph::Value* value = array_of(self).value();
  if (dtype == own) return numpy_array_value(ex, append_call1(ex, "alias", {value}));
  const graph::OpDef& view = graph::op("view");
  return numpy_array_value(ex, append_call(ex, view, {.overload = 1, .args = {value, dtype}}).at(0));
}

// conj() of a real array.
ValuePtr same_method(Executor& ex, const ValuePtr& self, const CallArgs& args) {
  require_count(ex, "conjugate", args, 0, 0);
  return self;
}

ValuePtr fill_method(Executor& ex, const ValuePtr& self, const CallArgs& args) {
  ValuePtr value = bind_arguments(ex, "fill", args, {"value"})[0];
  const graph::Value* held = graph_value(value);
  if ((held && held->type.rank() > 0) || sequence_items(ex, value))
    break_graph("CD0403", "fill with more than one value");
  self->set_item(ex, ex.constant(PyRef::borrow(Py_Ellipsis)), value);
  return ex.none();
}

ValuePtr round_of_scalar(Executor& ex, const ValuePtr& self, const CallArgs& args) {
  if (ValuePtr result = rounded_to_digits(ex, self, args)) return result;
  return call_method(ex, call_numpy_function(ex, "round", {self}), "__int__");
}

ValuePtr nonzero_method(Executor& ex, const ValuePtr& self, const CallArgs& args) {
  require_count(ex, "nonzero", args, 0, 0);
  PyObject* function = library_object("numpy", "nonzero");
  return ex.wrap(function, constant_source(function))->call(ex, positional({self}));
}

template <const char* const& kName>
ValuePtr value_method(Executor&, const ValuePtr&, const CallArgs&) {
  break_graph("CD0406", kName);
}
constexpr const char* kItem = "item()";
constexpr const char* kToList = "tolist()";
constexpr const char* kFloat = "float()";
constexpr const char* kInt = "int()";
constexpr const char* kBool = "bool()";
constexpr const char* kIndex = "use as an index";
constexpr const char* kText = "formatting";

// x.item(), x.item(3) of the elements in row-major order, x.item(1, 2), x.item((1, 2)).
ValuePtr item_method(Executor& ex, const ValuePtr& self, const CallArgs& args) {
  NumpyValue& array = array_of(self);
  if (args.positional.empty()) {
    if (ValuePtr known = array.known_number(ex)) return known;
    return number_method<read_item, kItem>(ex, self, args);
  }
  require_no_keywords(ex, "item", args);
  const bool is_one = args.positional.size() == 1;
  if (array.is_scalar()) break_graph("CD0406", kItem);
  const bool is_flat = is_one && as_sym(args.positional[0]);
  const ValuePtr from =
      is_flat && array.rank() != 1 ? call_method(ex, self, "reshape", {ex.constant_int(-1)}) : self;
  const ValuePtr item = from->get_item(ex, is_one ? args.positional[0] : make_tuple(ex, args.positional));
  auto* number = dynamic_cast<NumpyValue*>(item.get());
  if (number && !number->is_scalar()) break_graph("CD0403", "item() of several elements");
  return call_method(ex, item, "item");
}

// NumPy 2.4 refuses arrays with dims; before it warned.
template <ValuePtr (*kRead)(Executor&, const ArrayValue&, const char*), const char* const& kName>
ValuePtr zero_dim_number(Executor& ex, const ValuePtr& self, const CallArgs& args) {
  if (dynamic_cast<const NumpyValue&>(*self).rank() > 0) break_graph("CD0406", kName);
  return number_method<kRead, kName>(ex, self, args);
}

// A method as a call of the user's.
template <size_t kSize>
struct MethodName {
  char text[kSize];
  constexpr MethodName(const char (&name)[kSize]) { std::ranges::copy(name, text); }
};
template <MethodName kName, auto kApply>
ValuePtr recorded(Executor& ex, const ValuePtr& self, const CallArgs& args) {
  CallArgs all = args;
  all.positional.insert(all.positional.begin(), self);
  return numpy_call(ex, "call_method", PyRef::borrow(interned(kName.text)), all,
                    [&] { return kApply(ex, self, args); });
}

// x.sort(): what numpy.sort gives, written to x.
template <const char* const& kName>
ValuePtr write_method(Executor& ex, const ValuePtr& self, const CallArgs& args) {
  CallArgs all = args;
  all.positional.insert(all.positional.begin(), self);
  const ValuePtr result = call_numpy_library(ex, library_object("numpy", kName), all);
  self->set_item(ex, ex.constant(PyRef::borrow(Py_Ellipsis)), result);
  return ex.none();
}
constexpr const char *kSort = "sort", *kPartition = "partition";

ValuePtr put_method(Executor& ex, const ValuePtr& self, const CallArgs& args) {
  CallArgs all = args;
  all.positional.insert(all.positional.begin(), self);
  return write_by_numpy_library(ex, library_object("numpy", "put"), all);
}

// x.compress(condition): numpy.compress takes the condition first.
ValuePtr compress_method(Executor& ex, const ValuePtr& self, const CallArgs& args) {
  CallArgs all = args;
  if (args.positional.empty()) break_graph("CD0500", "compress");
  all.positional.insert(all.positional.begin() + 1, self);
  PyObject* function = library_object("numpy", "compress");
  return ex.wrap(function, constant_source(function))->call(ex, all);
}

// astype, of which the result may be complex.
ValuePtr astype_any(Executor& ex, const ValuePtr& self, const CallArgs& args) {
  const bool to_complex =
      !args.positional.empty() ? is_complex_dtype(args.positional[0]) : any_complex(ex, args);
  if (!to_complex) return recorded<"astype", astype_method>(ex, self, args);
  CallArgs all = args;
  all.positional.insert(all.positional.begin(), self);
  return polyfill(ex, PythonSide::kComplexArrayPolyfills, "astype")->call(ex, all);
}

constexpr BuiltinMethodRow kArrayMethods[] = {
    {"reshape", recorded<"reshape", reshape_method>},
    {"transpose", recorded<"transpose", transpose_method>},
    {"astype", astype_any},
    {"copy", recorded<"copy", copy_method>},
    {"__copy__", recorded<"__copy__", copy_method>},
    {"flatten", recorded<"flatten", flatten_method>},
    {"ravel", recorded<"ravel", ravel_method>},
    {"view", recorded<"view", view_method>},
    {"fill", recorded<"fill", fill_method>},
    {"sort", recorded<"sort", write_method<kSort>>},
    {"partition", recorded<"partition", write_method<kPartition>>},
    {"nonzero", nonzero_method},
    {"put", recorded<"put", put_method>},
    {"compress", compress_method},
    {"conj", recorded<"conj", same_method>},
    {"conjugate", recorded<"conjugate", same_method>},
    {"item", item_method},
    {"tolist", number_method<read_list, kToList>},
    {"__float__", zero_dim_number<read_float, kFloat>},
    {"__int__", zero_dim_number<read_int, kInt>},
    {"__bool__", number_method<read_bool, kBool>},
    {"__round__", round_of_scalar},
    {"__index__", number_method<read_index, kIndex>},
    {"__str__", value_method<kText>},
    {"__repr__", value_method<kText>},
    {"__format__", value_method<kText>},
    {"__array__", same_method},
    {"__len__", [](Executor& ex, const ValuePtr& self, const CallArgs&) { return self->length(ex); }},
    {"__iter__", [](Executor& ex, const ValuePtr& self, const CallArgs&) { return self->iterate(ex); }},
    {"__getitem__",
     [](Executor& ex, const ValuePtr& self, const CallArgs& args) {
       return self->get_item(ex, bind_arguments(ex, "__getitem__", args, {"key"})[0]);
     }},
};

// Methods that are the function of the same name with the array as its first argument.
struct MethodFunction {
  const char *method, *function;
};
constexpr MethodFunction kArrayFunctions[] = {{"__abs__", "absolute"},   {"__add__", "add"},
                                              {"__sub__", "subtract"},   {"__mul__", "multiply"},
                                              {"__truediv__", "divide"}, {"__matmul__", "matmul"}};
constexpr const char* kSameName[] = {
    "sum",          "prod",     "mean",     "std",    "var",         "max",      "min",   "argmax",
    "argmin",       "any",      "all",      "cumsum", "cumprod",     "clip",     "round", "dot",
    "squeeze",      "swapaxes", "take",     "repeat", "trace",       "diagonal", "ptp",   "argsort",
    "searchsorted", "nonzero",  "compress", "choose", "argpartition"};

// x.sum: calls the table's operator with x in front.
class BoundFunction final : public BoundMethod {
 public:
  BoundFunction(ValuePtr self, const graph::OpDef& op, PyRef name)
      : BoundMethod(std::move(self), std::move(name)), op_(op) {}
  std::string describe() const override { return std::string("ndarray.") + PyUnicode_AsUTF8(name().get()); }
  ValuePtr call(Executor& ex, const CallArgs& args) override {
    const CallArgs all = with_self(with_arrays(ex, args));
    return numpy_call(ex, "call_method", name(), all,
                      [&] { return call_numpy_operator(ex, op_, false, all); });
  }

 private:
  const graph::OpDef& op_;
};

// x.argsort: the function of the same name with x in front, called in NumPy's library.
class BoundLibraryFunction final : public BoundMethod {
 public:
  BoundLibraryFunction(ValuePtr self, PyObject* function, PyRef name)
      : BoundMethod(std::move(self), std::move(name)), function_(function) {}
  std::string describe() const override { return std::string("ndarray.") + PyUnicode_AsUTF8(name().get()); }
  ValuePtr call(Executor& ex, const CallArgs& args) override {
    const CallArgs all = with_self(with_arrays(ex, args));
    return recorded_numpy_library(ex, "call_method", name(), function_, all);
  }

 private:
  PyObject* function_;
};

}  // namespace

ValuePtr rounded_to_digits(Executor& ex, const ValuePtr& scalar, const CallArgs& args) {
  const ValuePtr digits = bind_arguments(ex, "__round__", args, {"ndigits?"})[0];
  return digits && !is_none(digits) ? call_numpy_function(ex, "round", {scalar, digits}) : nullptr;
}

ValuePtr numpy_cast(Executor& ex, const NumpyValue& self, DType dtype) {
  Value* cast = append_call1(ex, "core.cast", {self.value(), dtype});
  return self.is_scalar() ? make_numpy_result(ex, cast) : numpy_array_value(ex, cast);
}

ValuePtr numpy_property(Executor& ex, NumpyValue& self, std::string_view name) {
  // Of NumPy 2.
  if (name == "device" && _PyType_Lookup(self.type(), interned("device")))
    return ex.constant(PyRef::borrow(interned("cpu")));
  const auto row = std::ranges::find(kProperties, name, &PropertyRow::name);
  if (row == std::end(kProperties)) return nullptr;
  if (!row->is_array) return row->read(ex, self);
  CallArgs args{.positional = {self.shared_from_this(), ex.constant(PyRef::borrow(interned(row->name)))},
                .keywords = {}};
  return numpy_call(ex, "call_function", PyRef::borrow(library_object("builtins", "getattr")), args,
                    [&] { return row->read(ex, self); });
}

ValuePtr numpy_method(Executor& ex, const ValuePtr& self, std::string_view name) {
  if (name == "__round__" && !array_of(self).is_scalar()) return nullptr;  // scalars alone have it
  for (const BuiltinMethodRow& row : kArrayMethods)
    if (name == row.name) return std::make_shared<BuiltinMethodValue>(self, row);
  const std::string text(name);
  auto bound = [&](const graph::OpDef& op) {
    return std::make_shared<BoundFunction>(self, op, checked(PyUnicode_FromString(text.c_str())));
  };
  if (const graph::OpDef* op = find_numpy_operator("numpy.ndarray." + text)) return bound(*op);
  std::string function;
  for (const MethodFunction& row : kArrayFunctions)
    if (name == row.method) function = row.function;
  for (const char* same : kSameName)
    if (name == same) function = same;
  if (function.empty()) return nullptr;
  if (const graph::OpDef* op = find_numpy_operator("numpy." + function)) return bound(*op);
  PyObject* object = library_object("numpy", function.c_str());
  return is_numpy_library_function(object) ? std::make_shared<BoundLibraryFunction>(
                                                 self, object, checked(PyUnicode_FromString(text.c_str())))
                                           : nullptr;
}

}  // namespace cdynamo::symbolic
