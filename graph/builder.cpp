#include "graph/builder.h"

#include <algorithm>

#include "graph/broadcast.h"
#include "graph/converted_numbers.h"
#include "graph/core.h"
#include "graph/pointwise.h"
#include "graph/promotion.h"
#include "graph/reference.h"
#include "graph/strides.h"

namespace cdynamo::graph {

static std::vector<TensorType> types_of(const std::vector<Value*>& values) {
  std::vector<TensorType> types;
  for (Value* value : values) types.push_back(value->type);
  return types;
}

// The one device of tensors that are operands. Tensors without dims on the CPU may be with others.
static std::optional<Device> device_of_operands(const OpDef& op, const std::vector<Arg>& args) {
  std::optional<Device> device;
  bool has_dims = false;
  auto visit = [&](const Value* value) {
    if (!value) return;
    const TensorType& type = value->type;
    if (device && !(type.device == *device)) {
      const bool number = type.device == Device() && type.rank() == 0;
      if (number) return;
      if (!(*device == Device()) || has_dims)
        throw Unsupported(std::string(op.name) + " of tensors on different devices");
    }
    device = type.device;
    has_dims |= type.rank() > 0;
  };
  for (const Arg& arg : args) {
    if (const auto* value = std::get_if<Value*>(&arg)) visit(*value);
    if (const auto* list = std::get_if<std::vector<Value*>>(&arg))
      for (const Value* value : *list) visit(value);
  }
  return device;
}

// Runs the body of a composite in a graph of its own, at captured level so that strides come out as eager's.
static std::vector<TensorType> infer_from_body(Graph& graph, const OpDef& op, const Args& args,
                                               Device device) {
  Graph scratch(graph.sym);
  scratch.framework = graph.framework;
  scratch.torch_float = graph.torch_float;
  Builder builder(scratch, Level::kCaptured);
  builder.set_device(device);
  std::vector<TensorType> types = types_of(op.body(builder, args));
  // What a body returns after the results is the new content of the arguments that the call writes to.
  const size_t results = args.schema().num_results;
  if (!args.schema().result_is_list && types.size() > results) types.resize(results);
  return types;
}

static void check_in_place(Graph& graph, const OpDef& op, const std::vector<Arg>& args,
                           std::vector<TensorType>& types) {
  const auto* self = args.empty() ? nullptr : std::get_if<Value*>(&args[0]);
  if (!self || !*self) throw InternalError("in-place call of " + std::string(op.name) + " without a tensor");
  const TensorType& target = (*self)->type;
  if (!can_cast_in_place(graph.framework, types.at(0).dtype, target.dtype))
    runtime_error(std::string("result type ") + runtime::info(types[0].dtype).name +
                  " can't be cast to the desired output type " + runtime::info(target.dtype).name);
  bool same = types[0].sizes.size() == target.sizes.size();
  for (size_t i = 0; same && i < target.sizes.size(); ++i)
    same = graph.sym->guard_eq(types[0].sizes[i], target.sizes[i], "in-place");
  if (!same)
    runtime_error("output with shape " + sizes_text(target.sizes) + " doesn't match the broadcast shape " +
                  sizes_text(types[0].sizes));
  types[0] = target;
}

// Results are where the operands are, or where a factory's device= says.
void Builder::place(const OpDef& op, const std::vector<Arg>& args, std::vector<TensorType>& types) const {
  if (op.places_results || op.family == Family::kLibrary) return;
  const Device device = device_of_results(op, args);
  for (TensorType& type : types) type.device = device;
}

Device Builder::device_of_results(const OpDef& op, const std::vector<Arg>& args) const {
  Device device = device_of_operands(op, args).value_or(device_);
  for (const Arg& arg : args)
    if (const auto* given = std::get_if<Device>(&arg)) device = *given;
  return device;
}

std::vector<TensorType> Builder::infer(const OpDef& op, int overload, const std::vector<Arg>& args,
                                       bool in_place) {
  std::vector<TensorType> types;
  Args view(op.parsed.at(overload), args);
  if (op.family == Family::kPointwise && !op.infer) {
    types = {analyze_pointwise(graph_, op, overload, args).result};
  } else {
    if (op.check) op.check(graph_, view);
    if (op.infer)
      types = op.infer(graph_, view);
    else if (op.body)
      types = infer_from_body(graph_, op, view, device_of_results(op, args));
    else
      throw Unsupported(std::string(op.name) + " has no rule for the types of its results");
  }
  if (!types.empty()) check_converted_numbers(graph_, op, view, types[0].dtype);
  if (op.strides) op.strides(graph_, view, types);
  if (in_place) check_in_place(graph_, op, args, types);
  place(op, args, types);
  return types;
}

// NumPy gives a new array of nothing strides of 0, which the order of a result that it is an operand of does not go by.
static void drop_strides_of_nothing(const Node& node) {
  if (result_alias(node) != Alias::kNone) return;
  for (Value* result : node.results)
    if (std::ranges::find(result->type.sizes, Sym(0)) != result->type.sizes.end())
      std::ranges::fill(result->type.strides, Sym(0));
}

std::vector<Value*> Builder::append(const OpDef& op, int overload, std::vector<Arg> args,
                                    std::vector<TensorType> types, bool in_place) {
  place(op, args, types);
  if (level_ == Level::kCore) gather_operands(op, args, types);
  Node* node = graph_.add_node(&op, overload, std::move(args), std::move(types));
  node->in_place = in_place;
  node->location = location_;
  node->user_call = user_call_;
  node->region = region_;
  if (level_ == Level::kCaptured && graph_.framework == Framework::kNumpy && !in_place)
    drop_strides_of_nothing(*node);
  return node->results;
}

static Value* as_operand(Builder& b, const Arg& arg, DType dtype, const TensorType& result) {
  const auto* value = std::get_if<Value*>(&arg);
  const Builder::OnDevice on_device(b, result.device);
  if (!value) return full(b, result.sizes, arg, dtype).value;
  return expand(cast(to_device(wrap(b, *value), result.device), dtype), result.sizes).value;
}

// Core graphs: 0-dim tensors of the CPU among operands of another device are sent there.
void Builder::gather_operands(const OpDef& op, std::vector<Arg>& args, const std::vector<TensorType>& types) {
  if (op.places_results || op.family == Family::kLibrary || types.empty()) return;
  const Device device = types[0].device;
  const auto send = [&](Value*& value) {
    if (value && value->type.rank() == 0 && !(value->type.device == device))
      value = to_device(wrap(*this, value), device).value;
  };
  for (Arg& arg : args) {
    if (auto* value = std::get_if<Value*>(&arg)) send(*value);
    if (auto* list = std::get_if<std::vector<Value*>>(&arg))
      for (Value*& value : *list) send(value);
  }
}

static DType dtype_to_compute(Framework framework, const OpDef& op, const Arg& operand, size_t index,
                              DType dtype) {
  if (framework != Framework::kTorch || !runtime::is_half(dtype) || op.wide_scalar == WideScalar::kNone)
    return dtype;
  const auto* value = std::get_if<Value*>(&operand);
  const bool is_second = index > 0 || op.wide_scalar == WideScalar::kEither;
  const bool is_wide =
      !value ? is_second : (index > 0 && (*value)->type.rank() == 0 && is_float((*value)->type.dtype));
  return is_wide ? runtime::compute_type(dtype) : dtype;
}

std::vector<Value*> Builder::call_core(const OpDef& op, int overload, std::vector<Arg> args) {
  if (op.family == Family::kPointwise && !op.infer) {
    PointwiseCall call = analyze_pointwise(graph_, op, overload, args);
    std::vector<Arg> canonical = canonical_args(op, overload, args);
    for (size_t i = 0; i < call.operands.size(); ++i) {
      const DType dtype = dtype_to_compute(graph_.framework, op, call.operands[i], i, call.operand_dtypes[i]);
      canonical[call.params[i]] = as_operand(*this, call.operands[i], dtype, call.result);
    }
    // x + alpha * y: eager rounds alpha to the operands' half type first.
    const int alpha = op.rounded_number.empty() ? -1 : op.parsed[0].find(op.rounded_number);
    if (alpha >= 0 && runtime::is_half(call.operand_dtypes[0]))
      if (double* number = std::get_if<double>(&canonical[alpha]))
        *number = round_to(*number, call.operand_dtypes[0]);
    call.result.strides = contiguous_strides(call.result.sizes);
    return append(op, 0, std::move(canonical), {call.result}, false);
  }
  Args view(op.parsed.at(overload), args);
  if (op.check) op.check(graph_, view);
  if (op.body) return op.body(*this, view);
  if (!is_core(op)) throw Unsupported(std::string(op.name) + " is not a core operator and has no body");
  std::vector<TensorType> types = op.infer(graph_, view);
  for (TensorType& type : types) type.strides = contiguous_strides(type.sizes);
  return append(op, overload, std::move(args), std::move(types), false);
}

// Random operators draw in the order of memory, which is lost in a core graph: the first operand's, or that of a
// new tensor like it, outermost dim first. Row-major order is left out.
static void give_memory_order(const Graph& graph, const Schema& schema, std::vector<Arg>& args,
                              bool in_place) {
  SymContext& sym = *graph.sym;
  const int at = schema.find("memory_order");
  const auto* self = at < 0 || args.empty() ? nullptr : std::get_if<Value*>(&args[0]);
  if (!self || !*self) return;
  TensorType type = (*self)->type;
  if (!in_place) type.strides = preserved_strides(graph, type);
  if (is_contiguous(sym, type)) return;
  std::vector<Sym> order(type.sizes.size());
  for (size_t d = 0; d < order.size(); ++d) order[d] = Sym(d);
  std::stable_sort(order.begin(), order.end(), [&](const Sym& a, const Sym& b) {
    return sym.guard(Relation::kLt, type.strides[b.constant()], type.strides[a.constant()], "memory order");
  });
  args[at] = std::move(order);
}

std::vector<Value*> Builder::call(const OpDef& op, int overload, std::vector<Arg> args, bool in_place) {
  const Schema& schema = op.parsed.at(overload);
  if (args.size() != schema.params.size())
    throw InternalError(schema.text + ": " + std::to_string(args.size()) + " arguments were given");
  if (level_ == Level::kCaptured) {
    give_memory_order(graph_, schema, args, in_place);
    std::vector<TensorType> types = infer(op, overload, args, in_place);
    return append(op, overload, std::move(args), std::move(types), in_place);
  }
  Value* target = in_place ? std::get<Value*>(args.at(0)) : nullptr;
  std::vector<Value*> results = call_core(op, overload, std::move(args));
  if (target)
    results.at(0) = expand(cast(wrap(*this, results[0]), target->type.dtype), target->type.sizes).value;
  return results;
}

std::vector<Value*> Builder::call(std::string_view name, std::vector<Arg> args) {
  const OpDef& def = op(name);
  const Schema& schema = def.parsed[0];
  for (size_t i = args.size(); i < schema.params.size(); ++i) args.push_back(schema.params[i].default_value);
  return call(def, 0, std::move(args));
}

}  // namespace cdynamo::graph
