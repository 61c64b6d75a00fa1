// Calls of the operators of the table under NumPy's rules: out=, where= and the other options of ufuncs, what operands are made of,
// and what results are.
#include <algorithm>
#include <string>

#include "graph/promotion.h"
#include "symbolic/interop/loaded_object.h"
#include "symbolic/numpy/callables.h"
#include "symbolic/tensors/data_numbers.h"
#include "symbolic/values/sequence.h"
#include "symbolic/values/value_tools.h"

namespace cdynamo::symbolic {

using graph::Arg;
using graph::DType;
using graph::OpDef;
using graph::Sym;
using graph::Value;

namespace {

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

// What is no element-wise operator fills its out=: nothing is broadcast to it, and what sums have for a dtype goes by it.
void require_same_type(const NumpyValue& out, const Value& result) {
  if (out.array_type().sizes != result.type.sizes || out.array_type().dtype != result.type.dtype)
    break_graph("CD0501", "out= of another dtype or shape");
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

// ndarray.squeeze gives the array or scalar itself where there is nothing to squeeze.
ValuePtr unsqueezed_argument(const OpDef& op, const CallArgs& args, const std::vector<Value*>& results) {
  if (op.name != "np.squeeze" || args.positional.empty()) return nullptr;
  if (dynamic_cast<NumpyNumberValue*>(args.positional[0].get())) return args.positional[0];
  auto array = std::dynamic_pointer_cast<NumpyValue>(args.positional[0]);
  return array && array->rank() == results.at(0)->type.rank() ? array : nullptr;
}

// x.take([0, 2]), concatenate((x, [1.0])): of a sequence where an array is wanted an array is made.
void arrays_of_sequences(Executor& ex, const OpDef& op, CallArgs& args) {
  const auto make = [&](ValuePtr& value) {
    const bool is_sequence = sequence_items(ex, value).has_value();
    if (is_sequence) value = call_numpy_function(ex, "asarray", {value});
    return is_sequence;
  };
  const std::vector<graph::Param>& params = op.parsed[0].params;
  for (size_t i = 0; i < std::min(params.size(), args.positional.size()); ++i) {
    if (params[i].kind == graph::ParamKind::kTensor) make(args.positional[i]);
    if (params[i].kind != graph::ParamKind::kTensorList) continue;
    std::optional<std::vector<ValuePtr>> items = sequence_items(ex, args.positional[i]);
    if (items && std::ranges::count_if(*items, make) > 0)
      args.positional[i] = make_tuple(ex, std::move(*items));
  }
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

// is_int_of_subclass as the 0-dim value that it is to NumPy; null for others.
Value* int_of_subclass(Executor& ex, const ValuePtr& value) {
  const std::optional<Arg> number = is_int_of_subclass(value) ? number_argument(value) : std::nullopt;
  return number ? append_call1(ex, "core.full", {std::vector<Sym>{}, *number, DType::kI64}) : nullptr;
}

// A Python int takes the dtype of the arrays beside it; it is too large for a Sym.
Value* beside_uint64(Executor& ex, const OpDef& op, const CallArgs& args, const ValuePtr& number) {
  const bool fits = op.family == graph::Family::kPointwise &&
                    std::ranges::all_of(args.positional, [](const ValuePtr& value) {
                      const Value* array = graph_value(value);
                      return array ? array->type.dtype == DType::kU64 : is_upper_uint64(value);
                    });
  if (!fits) break_graph("CD0404", std::string(op.name) + " of an int beyond int64");
  return upper_uint64(ex, number);
}

// Of numbers of Python's NumPy makes scalars of its own, whose dtype counts from there on. `first`: the id of what is made since.
Value* of_numpy(Executor& ex, Value* result, int first) {
  if (!result->type.weak) return result;
  if (result->id < first) result = append_call1(ex, "clone", {result});
  result->type.weak = false;
  return result;
}

}  // namespace

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
    if (!held && is_upper_uint64(value)) held = beside_uint64(ex, op, args, value);
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
  const int first = ex.graph().next_value_id();
  std::vector<Value*> results = append_call(ex, op, std::move(call), in_place);
  for (Value*& result : results) result = of_numpy(ex, result, first);
  if (in_place) return args.positional.at(0);
  if (out && op.family != graph::Family::kPointwise) require_same_type(*out, *results.at(0));
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

}  // namespace cdynamo::symbolic
