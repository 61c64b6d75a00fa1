// NumPy's functions, ufuncs, scalar types and dtypes as values, and calls of the operators that are bound to
// them.
#include <algorithm>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "graph/promotion.h"
#include "symbolic/capture/executor_state.h"
#include "symbolic/capture/value_factories.h"
#include "symbolic/interop/attributes.h"
#include "symbolic/interop/loaded_object.h"
#include "symbolic/interop/numpy_access.h"
#include "symbolic/numpy/complex_array.h"
#include "symbolic/numpy/library.h"
#include "symbolic/numpy/methods.h"
#include "symbolic/numpy/number.h"
#include "symbolic/numpy/numpy_values.h"
#include "symbolic/tensors/data_numbers.h"
#include "symbolic/tensors/frameworks.h"
#include "symbolic/values/constant.h"
#include "symbolic/values/dynamic_float.h"
#include "symbolic/values/sequence.h"
#include "symbolic/values/sym_int.h"
#include "symbolic/values/value_tools.h"

namespace cdynamo::symbolic {

using graph::Arg;
using graph::DType;
using graph::OpDef;
using graph::Sym;
using graph::Value;

namespace {

struct Maps {
  absl::flat_hash_map<std::string, const OpDef*> by_path;
  absl::flat_hash_map<PyObject*, const OpDef*> by_object;
  absl::flat_hash_map<PyObject*, NumpySpecial> special;
  std::vector<PyRef> kept;
  PyRef ufunc_type, dispatcher_type;

  Maps() {
    for (const OpDef* op : graph::all_ops())
      for (const std::string& path : graph::python_names(*op)) {
        if (!path.starts_with("numpy.")) continue;
        by_path.try_emplace(path, op);
        PyRef object = loaded_object(path);
        if (object && by_object.try_emplace(object.get(), op).second) kept.push_back(std::move(object));
      }
    for (const NumpySpecialRow& row : numpy_factory_functions())
      if (PyRef object = loaded_object(row.path);
          object && special.try_emplace(object.get(), row.apply).second)
        kept.push_back(std::move(object));
    ufunc_type = loaded_object("numpy.ufunc");
    if (PyRef sum = loaded_object("numpy.sum"))
      dispatcher_type = PyRef::borrow(reinterpret_cast<PyObject*>(Py_TYPE(sum.get())));
  }
};

const Maps* maps() {
  static const Maps* made = nullptr;
  if (!made && numpy_is_loaded()) made = new Maps;
  return made;
}

bool is_scalar_type(PyObject* object) {
  const numpy_access::Api* api = numpy_access::api();
  return api && PyType_Check(object) &&
         PyType_IsSubtype(reinterpret_cast<PyTypeObject*>(object), api->generic_type);
}

// A constant NumPy scalar as a 0-dim value of its own dtype.
Value* scalar_constant(Executor& ex, PyObject* scalar) {
  PyRef dtype_object = PyRef::steal(PyObject_GetAttrString(scalar, "dtype"));
  PyRef item = PyRef::steal(PyObject_CallMethod(scalar, "item", nullptr));
  DType dtype;
  if (!dtype_object || !item || !dtype_of_numpy_object(dtype_object.get(), &dtype)) {
    PyErr_Clear();
    return nullptr;
  }
  std::optional<Arg> number = number_argument(ex.constant(std::move(item)));
  return number ? append_call1(ex, "core.full", {std::vector<Sym>{}, *number, dtype}) : nullptr;
}

// is_int_of_subclass as the 0-dim value that it is to NumPy; null for others.
Value* int_of_subclass(Executor& ex, const ValuePtr& value) {
  const std::optional<Arg> number = is_int_of_subclass(value) ? number_argument(value) : std::nullopt;
  return number ? append_call1(ex, "core.full", {std::vector<Sym>{}, *number, DType::kI64}) : nullptr;
}

PyObject* keyword_of(const CallArgs& args, const char* name, ValuePtr* value) {
  for (const Keyword& keyword : args.keywords)
    if (PyUnicode_CompareWithASCIIString(keyword.name.get(), name) == 0) {
      *value = keyword.value;
      return keyword.name.get();
    }
  return nullptr;
}

void erase_keyword(CallArgs& args, const char* name) {
  std::erase_if(args.keywords,
                [&](const Keyword& k) { return PyUnicode_CompareWithASCIIString(k.name.get(), name) == 0; });
}

// numpy.add(a, b, out): a ufunc's results may follow its operands.
std::shared_ptr<NumpyValue> take_out(Executor& ex, const OpDef& op, CallArgs& args, bool is_ufunc) {
  ValuePtr out;
  if (keyword_of(args, "out", &out)) {
    erase_keyword(args, "out");
    if (out->type() == &PyTuple_Type) {
      auto items = out->unpack(ex);
      if (!items || items->size() != 1) break_graph("CD0501", "out= of several arrays");
      out = items->front();
    }
  } else if (is_ufunc && op.family == graph::Family::kPointwise) {
    size_t operands = 0;
    for (const graph::Param& param : op.parsed[0].params) operands += param.kind == graph::ParamKind::kTensor;
    if (args.positional.size() == operands + 1) {
      out = args.positional.back();
      args.positional.pop_back();
    }
  }
  if (!out || is_none(out)) return nullptr;
  auto array = std::dynamic_pointer_cast<NumpyValue>(out);
  if (!array || array->is_scalar()) break_graph("CD0501", "out=");
  return array;
}

// Keywords that NumPy's own Python hands on without a value.
void erase_missing(CallArgs& args) {
  PyObject* missing = library_object("numpy", "_NoValue");
  std::erase_if(args.keywords, [&](const Keyword& k) { return k.value->real_object() == missing; });
}

void refuse_ufunc_options(CallArgs& args) {
  static constexpr const char* kOptions[] = {"where", "casting", "order", "subok", "signature", "extobj"};
  for (const char* option : kOptions) {
    ValuePtr value;
    if (!keyword_of(args, option, &value)) continue;
    bool trivial = constant_object(value) == Py_True && std::string_view(option) != "casting" &&
                   std::string_view(option) != "order";
    if (!trivial && !is_none(value)) break_graph("CD0501", option);
    erase_keyword(args, option);
  }
}

// casting="unsafe": the result is cast to what out= is of, whatever that may lose. False: it is the usual "same_kind", or another.
bool take_casting(CallArgs& args) {
  ValuePtr casting;
  if (!keyword_of(args, "casting", &casting)) return false;
  PyObject* text = constant_object(casting);
  const auto is = [&](const char* rule) {
    return text && PyUnicode_Check(text) && PyUnicode_CompareWithASCIIString(text, rule) == 0;
  };
  if (is("unsafe") || is("same_kind")) erase_keyword(args, "casting");
  return is("unsafe");
}

// numpy.add(a, b, out=x, where=mask): elements of x where the mask is false stay. Null: there is none.
Value* take_mask(Executor& ex, CallArgs& args) {
  ValuePtr where;
  if (!keyword_of(args, "where", &where)) return nullptr;
  Value* mask = graph_value(where);
  if (!mask || mask->type.dtype != DType::kBool) return nullptr;
  erase_keyword(args, "where");
  return mask;
}

// The result, of which the `mask` may choose, is written to `out`, cast as NumPy's "same_kind" allows.
ValuePtr write_out(Executor& ex, const std::shared_ptr<NumpyValue>& out, Value* result, Value* mask,
                   bool is_unsafe) {
  if (is_unsafe) result = append_call1(ex, "core.cast", {result, out->array_type().dtype});
  if (!graph::can_cast_in_place(graph::Framework::kNumpy, result->type.dtype, out->array_type().dtype))
    break_graph("CD0403", "out= of another kind of dtype");
  if (mask) {
    result = append_call1(ex, "core.cast", {result, out->array_type().dtype});
    result = append_call1(ex, "where", {mask, result, out->value()});
  }
  append_call1(ex, "copy", {out->value(), result}, true);
  return out;
}

// ndarray.squeeze gives the array itself where there is nothing to squeeze.
ValuePtr unsqueezed_argument(const OpDef& op, const CallArgs& args, const std::vector<Value*>& results) {
  if (op.name != "np.squeeze" || args.positional.empty()) return nullptr;
  auto array = std::dynamic_pointer_cast<NumpyValue>(args.positional[0]);
  return array && array->rank() == results.at(0)->type.rank() ? array : nullptr;
}

// x.take([0, 2]): of a sequence where an array is wanted an array is made.
void arrays_of_sequences(Executor& ex, const OpDef& op, CallArgs& args) {
  const std::vector<graph::Param>& params = op.parsed[0].params;
  for (size_t i = 0; i < std::min(params.size(), args.positional.size()); ++i)
    if (params[i].kind == graph::ParamKind::kTensor && sequence_items(ex, args.positional[i]))
      args.positional[i] = call_numpy_function(ex, "asarray", {args.positional[i]});
}

// numpy.roll(x, numpy.int64(1)): where an int is wanted NumPy takes the scalar's.
void ints_of_numpys(Executor& ex, const OpDef& op, CallArgs& args) {
  const std::vector<graph::Param>& params = op.parsed[0].params;
  for (size_t i = 0; i < std::min(params.size(), args.positional.size()); ++i) {
    PyObject* constant = constant_object(args.positional[i]);
    const bool wants_ints =
        params[i].kind == graph::ParamKind::kInt || params[i].kind == graph::ParamKind::kIntList;
    if (wants_ints && constant && is_numpy_integer(constant))
      args.positional[i] = ex.constant(checked(PyNumber_Index(constant)));
  }
}

bool is_view_or_factory(const OpDef& op, const graph::Node* node) {
  if (node && graph::result_alias(*node) != graph::Alias::kNone) return true;
  static constexpr std::string_view kArrays[] = {"zeros_like", "ones_like", "full_like", "np.full_like",
                                                 "empty_like", "core.full", "where",     "np.tensordot",
                                                 "np.roll",    "np.pad"};
  return std::find(std::begin(kArrays), std::end(kArrays), op.name) != std::end(kArrays);
}

}  // namespace

const OpDef* find_numpy_operator(std::string_view path) {
  const Maps* all = maps();
  if (!all) return nullptr;
  auto found = all->by_path.find(std::string(path));
  return found == all->by_path.end() ? nullptr : found->second;
}

Value* numpy_graph_value(Executor& ex, const ValuePtr& value) {
  if (Value* held = graph_value(value)) return held;
  if (Value* number = graph_value_of_number(ex, value)) return number;
  PyObject* object = constant_object(value);
  return object && numpy_access::is_scalar(object) ? scalar_constant(ex, object) : nullptr;
}

bool is_numpy_scalar_constant(const ValuePtr& value) {
  if (dynamic_cast<NumpyNumberValue*>(value.get())) return true;
  PyObject* object = constant_object(value);
  return object && numpy_access::is_scalar(object);
}

bool numpy_dtype_like(PyObject* object, DType* dtype) {
  if (!numpy_is_loaded()) return false;
  if (dtype_of_numpy_object(object, dtype)) return true;
  if (!PyUnicode_Check(object) && !is_scalar_type(object) &&
      object != reinterpret_cast<PyObject*>(&PyFloat_Type) &&
      object != reinterpret_cast<PyObject*>(&PyLong_Type) &&
      object != reinterpret_cast<PyObject*>(&PyBool_Type))
    return false;
  PyRef made = PyRef::steal(PyObject_CallOneArg(library_object("numpy", "dtype"), object));
  if (!made) return PyErr_Clear(), false;
  return dtype_of_numpy_object(made.get(), dtype);
}

ValuePtr call_numpy_operator(Executor& ex, const OpDef& op, bool in_place, const CallArgs& given) {
  const FrameworkRules rules(ex, graph::Framework::kNumpy);
  CallArgs args = given;
  erase_missing(args);
  std::shared_ptr<NumpyValue> out = take_out(ex, op, args, true);
  Value* mask = out && op.family == graph::Family::kPointwise ? take_mask(ex, args) : nullptr;
  const bool is_unsafe = out && take_casting(args);
  refuse_ufunc_options(args);
  arrays_of_sequences(ex, op, args);
  ints_of_numpys(ex, op, args);
  for (ValuePtr& value : args.positional) {
    if (graph_value(value)) continue;
    Value* held = numpy_graph_value(ex, value);
    if (!held && op.family == graph::Family::kPointwise) held = int_of_subclass(ex, value);
    if (held) value = make_numpy_result(ex, held);
  }
  // A view of a scalar, or of a number of Python's, is one of a copy: nothing writes to these.
  if (op.view || op.alias)
    for (ValuePtr& value : args.positional)
      if (Value* number = graph_number(ex, value)) value = make_numpy_result(ex, number);
  if (op.view || op.alias)
    for (ValuePtr& value : args.positional)
      if (auto scalar = std::dynamic_pointer_cast<NumpyValue>(value); scalar && scalar->is_scalar())
        value = make_numpy_result(ex, append_call1(ex, "clone", {scalar->value()}));
  BoundCall call = bind_call(ex, op, args, Convention::kNumpy, in_place);
  const graph::Schema& schema = op.parsed[call.overload];
  std::vector<Value*> results = append_call(ex, op, std::move(call), in_place);
  if (in_place) return args.positional.at(0);
  if (out) return write_out(ex, out, results.at(0), mask, is_unsafe);
  if (ValuePtr itself = unsqueezed_argument(op, given, results)) return itself;
  // m[::-1, ...] of no dims is m[()]: a scalar.
  if (op.name == "np.flip" && results.at(0)->type.rank() == 0)
    return make_numpy_result(ex, append_call1(ex, "clone", {results[0]}));
  if (schema.num_results == 1 && !schema.result_is_list)
    return is_view_or_factory(op, results.at(0)->node) ? numpy_array_value(ex, results[0])
                                                       : make_numpy_result(ex, results[0]);
  std::vector<ValuePtr> items;
  for (Value* result : results) items.push_back(make_numpy_result(ex, result));
  // numpy.split gives a list, numpy.divmod and the like a tuple.
  return schema.result_is_list ? make_list(ex, std::move(items)) : make_tuple(ex, std::move(items));
}

ValuePtr call_numpy_named(Executor& ex, const char* path, std::vector<ValuePtr> args, bool in_place) {
  const OpDef* op = find_numpy_operator(path);
  if (!op) break_graph("CD0500", path);
  return call_numpy_operator(ex, *op, in_place, CallArgs{.positional = std::move(args), .keywords = {}});
}

// ---- callables

namespace {

// What ufunc.reduce is, for the ufuncs whose reduction is a function of NumPy's too.
const OpDef* reduction_of(const OpDef& ufunc) {
  struct Row {
    const char *ufunc, *function;
  };
  static constexpr Row kRows[] = {{"numpy.add", "numpy.sum"},         {"numpy.multiply", "numpy.prod"},
                                  {"numpy.maximum", "numpy.max"},     {"numpy.minimum", "numpy.min"},
                                  {"numpy.logical_and", "numpy.all"}, {"numpy.logical_or", "numpy.any"}};
  for (const Row& row : kRows)
    if (find_numpy_operator(row.ufunc) == &ufunc) return find_numpy_operator(row.function);
  return nullptr;
}

// numpy.add.reduce(x, axis=0): numpy.sum with another default.
class UfuncReduce final : public SymbolicValue {
 public:
  UfuncReduce(ValuePtr ufunc, const OpDef& op) : ufunc_(std::move(ufunc)), op_(op) {}
  PyTypeObject* type() const override { return &PyCFunction_Type; }
  std::string describe() const override { return ufunc_->describe() + ".reduce"; }
  ValuePtr call(Executor& ex, const CallArgs& args) override {
    CallArgs all = args;
    ValuePtr axis;
    if (all.positional.size() < 2 && !keyword_of(all, "axis", &axis))
      all.keywords.push_back({checked(PyUnicode_FromString("axis")), ex.constant_int(0)});
    PyRef target = checked(PyObject_GetAttrString(ufunc_->real_object(), "reduce"));
    return numpy_call(ex, "call_function", std::move(target), all,
                      [&] { return call_numpy_operator(ex, op_, false, all); });
  }
  std::optional<bool> truth(Executor&) override { return true; }
  RecipePtr recipe(Executor& ex) override {
    if (!recipe_)
      recipe_ = call_recipe(library_object("builtins", "getattr"),
                            {ufunc_->recipe(ex), make_recipe(RecipeKind::kConstant, interned("reduce"))});
    return recipe_;
  }

 private:
  ValuePtr ufunc_;
  const OpDef& op_;
  RecipePtr recipe_;
};

// numpy.maximum.accumulate, at, outer, reduceat, and reduce where no function of NumPy's is the same.
class UfuncMethod final : public SymbolicValue {
 public:
  UfuncMethod(ValuePtr ufunc, PyObject* name)
      : ufunc_(std::move(ufunc)),
        name_(PyRef::borrow(name)),
        method_(checked(PyObject_GetAttr(ufunc_->real_object(), name))) {}
  PyTypeObject* type() const override { return Py_TYPE(method_.get()); }
  std::string describe() const override { return ufunc_->describe() + "." + PyUnicode_AsUTF8(name_.get()); }
  ValuePtr call(Executor& ex, const CallArgs& args) override {
    if (PyUnicode_CompareWithASCIIString(name_.get(), "at") == 0)
      return write_by_numpy_library(ex, method_.get(), args);
    if (!is_plain_outer(args))
      return recorded_numpy_library(ex, "call_function", method_, method_.get(), args);
    return numpy_call(ex, "call_function", method_, args, [&] { return outer(ex, args); });
  }
  std::optional<bool> truth(Executor&) override { return true; }
  RecipePtr recipe(Executor& ex) override {
    if (!recipe_)
      recipe_ = call_recipe(library_object("builtins", "getattr"),
                            {ufunc_->recipe(ex), make_recipe(RecipeKind::kConstant, name_.get())});
    return recipe_;
  }

 private:
  bool is_plain_outer(const CallArgs& args) const {
    const auto is_array = [](const ValuePtr& value) {
      const auto* array = dynamic_cast<ArrayValue*>(value.get());
      return is_numpy_array(value) && array && array->rank() > 0;
    };
    return PyUnicode_CompareWithASCIIString(name_.get(), "outer") == 0 && args.keywords.empty() &&
           args.positional.size() == 2 && std::ranges::all_of(args.positional, is_array);
  }
  // ufunc(a[..., None, None], b), a None for each dim of b.
  ValuePtr outer(Executor& ex, const CallArgs& args) {
    std::vector<ValuePtr> key = {ex.constant(PyRef::borrow(Py_Ellipsis))};
    key.resize(1 + static_cast<ArrayValue&>(*args.positional[1]).rank(), ex.none());
    return ufunc_->call(ex, positional({args.positional[0]->get_item(ex, make_tuple(ex, std::move(key))),
                                        args.positional[1]}));
  }

  ValuePtr ufunc_;
  PyRef name_, method_;
  RecipePtr recipe_;
};

class NumpyCallable final : public SymbolicValue {
 public:
  NumpyCallable(PyRef object, const OpDef* op, NumpySpecial special, SourcePtr from)
      : object_(std::move(object)), op_(op), special_(special) {
    source = std::move(from);
  }
  PyTypeObject* type() const override { return Py_TYPE(object_.get()); }
  std::string describe() const override {
    PyRef name = PyRef::steal(PyObject_GetAttrString(object_.get(), "__name__"));
    if (!name) PyErr_Clear();
    return std::string("numpy.") +
           (name && PyUnicode_Check(name.get()) ? PyUnicode_AsUTF8(name.get()) : "function");
  }
  PyObject* real_object() const override { return object_.get(); }
  std::optional<PyRef> as_constant() const override { return object_; }
  std::optional<bool> truth(Executor&) override { return true; }
  bool is_same_object(const SymbolicValue& other) const override {
    return other.real_object() == object_.get();
  }
  RecipePtr recipe(Executor& ex) override {
    if (!recipe_) recipe_ = make_recipe(RecipeKind::kConstant, object_.get());
    return recipe_;
  }
  ValuePtr call(Executor& ex, const CallArgs& args) override;
  ValuePtr get_attribute(Executor& ex, PyObject* name) override;

 private:
  ValuePtr call_implementation(Executor& ex, const CallArgs& args);
  ValuePtr call_complex(Executor& ex, const CallArgs& args);
  ValuePtr take_complex_out(CallArgs& args) const;
  ValuePtr call_instead(Executor& ex, const GraphBreak& broken, const CallArgs& args);
  bool is_own_ufunc() const {
    return is_ufunc() &&
           loaded_object("numpy." + text_attribute(object_.get(), "__name__")).get() == object_.get();
  }
  bool is_ufunc() const { return reinterpret_cast<PyObject*>(type()) == library_object("numpy", "ufunc"); }
  PyRef object_;
  const OpDef* op_;
  NumpySpecial special_;
  RecipePtr recipe_;
};

bool only_constants(const CallArgs& args) {
  for (const ValuePtr& value : args.positional)
    if (!value->as_constant()) return false;
  for (const Keyword& keyword : args.keywords)
    if (!keyword.value->as_constant()) return false;
  return true;
}

ValuePtr NumpyCallable::call(Executor& ex, const CallArgs& args) {
  if (holds_tensor(ex, args)) {
    const auto call = [&](const CallArgs& arrays) { return NumpyCallable::call(ex, arrays); };
    if (ValuePtr result = call_with_tensors(ex, object_.get(), args, call)) return result;
    return call_implementation(ex, args);
  }
  if (ValuePtr result = call_complex(ex, args)) return result;
  if (special_) {
    try {
      return special_(ex, object_.get(), args);
    } catch (const GraphBreak&) {
      if (!is_numpy_library_function(object_.get())) throw;
    }
  }
  // numpy.sqrt(2.0) of constants is a constant.
  if (only_constants(args)) return made_by_numpy(ex, object_.get(), args);
  if (op_) {
    try {
      return numpy_call(ex, "call_function", object_, args,
                        [&] { return call_numpy_operator(ex, *op_, false, args); });
    } catch (const GraphBreak& broken) {
      if (ValuePtr result = call_instead(ex, broken, args)) return result;
      throw;
    }
  }
  // A ufunc of NumPy's own gives what its operands' sizes decide; one that numpy.frompyfunc makes runs the program's code.
  if (is_own_ufunc() || is_numpy_library_function(object_.get())) {
    try {
      return recorded_numpy_library(ex, "call_function", object_, object_.get(), args);
    } catch (const GraphBreak&) {  // its Python may be captured
    }
  }
  return call_implementation(ex, args);
}

// An array or number of the graph's, or a list that holds one.
static bool holds_computed(Executor& ex, const ValuePtr& value) {
  check_stack();  // a list may hold itself
  if (graph_value(value) || dynamic_cast<ComplexArray*>(value.get())) return true;
  const auto items = sequence_items(ex, value);
  return items && std::ranges::any_of(*items, [&](const ValuePtr& item) { return holds_computed(ex, item); });
}

// Where something is complex: by the function's rule, else in NumPy's library, else by the function's Python. Null: nothing is, or
// constants are all that there is.
ValuePtr NumpyCallable::call_complex(Executor& ex, const CallArgs& given) {
  if (!any_complex(ex, given) || (only_constants(given) && !special_)) return nullptr;
  const std::string name = text_attribute(object_.get(), "__name__");
  const bool converts = special_ && (name == "array" || name == "asarray" || name == "asanyarray");
  if (converts && !given.positional.empty() && !holds_computed(ex, given.positional[0])) return nullptr;
  CallArgs args = given;
  const ValuePtr out = is_ufunc() ? take_complex_out(args) : nullptr;
  ValuePtr result = try_complex_rule(ex, object_.get(), args);
  if (!result && special_) return nullptr;
  const PyRef implementation = PyRef::steal(PyObject_GetAttrString(object_.get(), "_implementation"));
  PyErr_Clear();
  const bool is_python = implementation && PyFunction_Check(implementation.get());
  if (!result && (op_ || is_own_ufunc() || is_numpy_library_function(object_.get()) || !is_python)) {
    try {
      result = recorded_numpy_library(ex, "call_function", object_, object_.get(), args);
    } catch (const GraphBreak&) {
      if (!is_python) throw;  // its Python may be captured
    }
  }
  if (!result) result = call_implementation(ex, args);
  return out ? complex_polyfill(ex, "write", {out, result}) : result;
}

// The out= of a ufunc, taken out of the arguments; null: none.
ValuePtr NumpyCallable::take_complex_out(CallArgs& args) const {
  const auto operands = static_cast<size_t>(integer_attribute(object_.get(), "nin"));
  ValuePtr out;
  if (args.positional.size() == operands + 1) {
    out = args.positional.back();
    args.positional.pop_back();
  } else if (keyword_of(args, "out", &out)) {
    erase_keyword(args, "out");
  }
  ValuePtr where;
  if (out && keyword_of(args, "where", &where)) break_graph("CD0501", "where of complex arrays");
  if (out && out->type() == &PyTuple_Type) break_graph("CD0501", "out= as a tuple");
  return out && is_none(out) ? nullptr : out;
}

// What the operator of the table does not take: where= of a reduction is left to NumPy's library, and other arguments to it or
// to the function's Python. Null: neither takes them.
ValuePtr NumpyCallable::call_instead(Executor& ex, const GraphBreak& broken, const CallArgs& args) {
  ValuePtr out;
  if (keyword_of(args, "out", &out)) return nullptr;
  const bool has_no_rule = broken.record.id == "CD0401" || broken.record.id == "CD0404";
  try {
    if (is_ufunc()) {
      const auto operands = static_cast<size_t>(integer_attribute(object_.get(), "nin"));
      if (!is_own_ufunc() || args.positional.size() != operands ||
          !(has_no_rule || broken.record.id == "CD0501"))
        return nullptr;
      return recorded_numpy_library(ex, "call_function", object_, object_.get(), args);
    }
    if (broken.record.id == "CD0501" || (has_no_rule && is_numpy_library_function(object_.get())))
      return recorded_numpy_library(ex, "call_function", object_, object_.get(), args);
    return has_no_rule ? call_implementation(ex, args) : nullptr;
  } catch (const GraphBreak&) {
    return nullptr;
  }
}

// A function that dispatches: its Python implementation is inlined.
ValuePtr NumpyCallable::call_implementation(Executor& ex, const CallArgs& args) {
  PyRef implementation = PyRef::steal(PyObject_GetAttrString(object_.get(), "_implementation"));
  if (!implementation) PyErr_Clear();
  if (implementation && PyFunction_Check(implementation.get()))
    return ex.wrap(implementation.get(), constant_source(implementation.get()))->call(ex, args);
  break_graph("CD0500", describe());
}

ValuePtr NumpyCallable::get_attribute(Executor& ex, PyObject* name) {
  std::string_view text = PyUnicode_AsUTF8(name);
  if (text == "reduce" && op_)
    if (const OpDef* reduction = reduction_of(*op_))
      return std::make_shared<UfuncReduce>(shared_from_this(), *reduction);
  static constexpr std::string_view kMethods[] = {"accumulate", "at", "outer", "reduce", "reduceat"};
  if (is_own_ufunc() && std::ranges::find(kMethods, text) != std::end(kMethods))
    return std::make_shared<UfuncMethod>(shared_from_this(), name);
  PyRef value = PyRef::steal(PyObject_GetAttr(object_.get(), name));
  if (!value) {
    PyErr_Clear();
    return SymbolicValue::get_attribute(ex, name);
  }
  // resolve_dtypes ...: C methods.
  if (PyCallable_Check(value.get())) return make_unknown_method(shared_from_this(), name, nullptr);
  return ex.wrap(value.get(), constant_source(value.get()));
}

// numpy.float32, numpy.int64 ...: calls convert.
class ScalarTypeValue final : public SymbolicValue {
 public:
  // `dtype`: unset for complex numbers.
  ScalarTypeValue(PyRef object, std::optional<DType> dtype, SourcePtr from)
      : object_(std::move(object)), dtype_(dtype) {
    source = std::move(from);
  }
  PyTypeObject* type() const override { return Py_TYPE(object_.get()); }
  std::string describe() const override {
    return std::string("numpy.") + (dtype_ ? runtime::info(*dtype_).name : "complex number");
  }
  PyObject* real_object() const override { return object_.get(); }
  std::optional<PyRef> as_constant() const override { return object_; }
  std::optional<bool> truth(Executor&) override { return true; }
  bool is_same_object(const SymbolicValue& other) const override {
    return other.real_object() == object_.get();
  }
  // type's own: a class is equal to itself; a dtype, which may be asked next, says whether it is this one.
  ValuePtr compare(Executor& ex, int py_op, const ValuePtr& other) override {
    if ((py_op != Py_EQ && py_op != Py_NE) || !is_same_object(*other)) return nullptr;
    return make_bool(ex, py_op == Py_EQ);
  }
  RecipePtr recipe(Executor&) override {
    if (!recipe_) recipe_ = make_recipe(RecipeKind::kConstant, object_.get());
    return recipe_;
  }
  ValuePtr get_attribute(Executor& ex, PyObject* name) override {
    PyRef value = PyRef::steal(PyObject_GetAttr(object_.get(), name));
    if (value) return ex.constant(std::move(value));
    PyErr_Clear();
    return SymbolicValue::get_attribute(ex, name);
  }
  ValuePtr call(Executor& ex, const CallArgs& args) override {
    if (only_constants(args)) return made_by_numpy(ex, object_.get(), args);
    ValuePtr given = args.positional.size() == 1 ? args.positional[0] : nullptr;
    if (!dtype_ || (given && is_complex_operand(ex, given))) {
      if (dtype_ || !given || !args.keywords.empty()) break_graph("CD0500", describe());
      return complex_polyfill(ex, "number", {given, shared_from_this()});
    }
    if (given && dtype_ == DType::kI64 && ex.state().request.is_native)
      if (const ValuePtr index = given->as_index(ex)) return make_numpy_number(ex, index, *dtype_);
    if (given && is_tensor(given)) given = array_of_tensor(ex, given);
    auto* array = dynamic_cast<NumpyValue*>(given.get());
    auto* number = dynamic_cast<DynamicFloatValue*>(given.get());
    if (!number && !(array && args.keywords.empty())) break_graph("CD0500", describe());
    return numpy_call(ex, "call_function", object_, args, [&] {
      return make_numpy_result(
          ex, append_call1(ex, "core.cast", {array ? array->value() : number->value(), *dtype_}));
    });
  }

 private:
  PyRef object_;
  std::optional<DType> dtype_;
  RecipePtr recipe_;
};

bool is_random(PyObject* object) {
  if (!PyCFunction_Check(object)) return false;
  PyObject* self = PyCFunction_GET_SELF(object);
  return self && std::string_view(Py_TYPE(self)->tp_name).starts_with("numpy.random");
}

}  // namespace

ValuePtr call_numpy_function(Executor& ex, const char* name, std::vector<ValuePtr> args) {
  PyObject* function = library_object("numpy", name);
  return ex.wrap(function, constant_source(function))->call(ex, positional(std::move(args)));
}

ValuePtr wrap_numpy_callable(Executor& ex, PyObject* object, const SourcePtr& source) {
  const Maps* all = maps();
  if (!all) return nullptr;
  if (is_scalar_type(object)) {
    DType dtype;
    const bool is_real = numpy_dtype_like(object, &dtype);
    if (!is_real && object != library_object("numpy", "complex64") &&
        object != library_object("numpy", "complex128"))
      return nullptr;
    add_guard(ex, GuardKind::kIdentity, source, object);
    return std::make_shared<ScalarTypeValue>(PyRef::borrow(object),
                                             is_real ? std::optional(dtype) : std::nullopt, source);
  }
  auto special = all->special.find(object);
  auto op = all->by_object.find(object);
  const bool known = special != all->special.end() || op != all->by_object.end();
  PyObject* type = reinterpret_cast<PyObject*>(Py_TYPE(object));
  if (!known && !is_numpy_library_function(object) && type != all->ufunc_type.get() &&
      type != all->dispatcher_type.get() && !is_random(object))
    return nullptr;
  if (PyFunction_Check(object) && !known && !is_numpy_library_function(object)) return nullptr;
  add_guard(ex, GuardKind::kIdentity, source, object);
  return std::make_shared<NumpyCallable>(PyRef::borrow(object),
                                         op == all->by_object.end() ? nullptr : op->second,
                                         special == all->special.end() ? nullptr : special->second, source);
}

}  // namespace cdynamo::symbolic
