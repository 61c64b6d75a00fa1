#include "graph/ops/numpy_rules.h"

#include <algorithm>

#include "graph/promotion.h"
#include "graph/strides.h"

namespace cdynamo::graph {

Tensor numpy_array(Builder& b, const Args& args, std::string_view name) {
  const Arg& arg = args[name];
  if (const auto* value = std::get_if<Value*>(&arg)) {
    if (!(*value)->type.weak) return wrap(b, *value);
    // A number that the graph holds has the dtype of an array, as others have below.
    Value* array = b.call1("core.cast", {*value, (*value)->type.dtype});
    array->type.weak = false;
    return wrap(b, array);
  }
  if (std::holds_alternative<double>(arg)) return full(b, {}, arg, DType::kF64);
  if (std::holds_alternative<bool>(arg)) return full(b, {}, arg, DType::kBool);
  if (std::holds_alternative<Sym>(arg)) return full(b, {}, arg, DType::kI64);
  throw Unsupported("numpy: " + std::string(name) + " that is neither an array nor a number");
}

Dims numpy_axes(const Args& args, int64_t rank) {
  if (args.has("out")) throw Unsupported("numpy: out= in front of other arguments");
  // Ufuncs take 0 and -1 for an array without axes.
  if (rank == 0 && args.has("axis"))
    for (int64_t axis : args.constants("axis"))
      if (axis != 0 && axis != -1) value_error("axis is out of bounds for array of dimension 0");
  if (rank == 0 || !args.has("axis")) return wrap_dims({}, rank);
  return wrap_dims(args.constants("axis"), rank, /*empty_is_all=*/false);
}

int64_t numpy_axis(const Args& args, int64_t rank) {
  return wrap_dim(args.constant("axis"), rank, /*allow_zero_dim=*/false);
}

bool numpy_keepdims(const Args& args) {
  return args.schema().find("keepdims") >= 0 && args.boolean("keepdims");
}

DType numpy_sum_dtype(const Args& args, DType dtype) {
  if (args.has("dtype")) return *args.dtype("dtype");
  if (is_float(dtype)) return dtype;
  return is_unsigned(dtype) ? DType::kU64 : DType::kI64;
}

DType numpy_float_dtype(DType dtype) { return is_float(dtype) ? dtype : DType::kF64; }

DType numpy_common_dtype(Graph& graph, const std::vector<Tensor>& arrays) {
  std::vector<PromotedOperand> operands;
  for (const Tensor& array : arrays) operands.push_back({array.dtype(), array.type().weak, array.rank() > 0});
  return result_type(graph.framework, graph.default_float(), operands);
}

Tensor numpy_flat(Tensor x) { return reshape(x, {x.type().numel()}); }

std::vector<Sym> numpy_fortran_or_c(SymContext& sym, const TensorType& array, const std::vector<Sym>& sizes) {
  const bool row_major = is_contiguous(sym, array) || !is_column_major(sym, array);
  return row_major ? contiguous_strides(sizes) : column_major_strides(sizes);
}

std::vector<Sym> numpy_operand_strides(SymContext& sym, const TensorType& result,
                                       const std::vector<Arg>& operands) {
  std::vector<const TensorType*> types;
  bool casts = false;
  for (const Arg& operand : operands) {
    const auto* value = std::get_if<Value*>(&operand);
    if (!value || !*value) continue;
    types.push_back(&(*value)->type);
    casts |= types.back()->rank() > 0 && types.back()->dtype != result.dtype;
  }
  return numpy_ufunc_strides(sym, result.sizes, types, casts);
}

void ufunc_order(Graph& graph, const Args& args, std::vector<TensorType>& results) {
  if (graph.framework == Framework::kNumpy)
    results[0].strides = numpy_operand_strides(*graph.sym, results[0], args.all());
}

OpDef numpy_function(std::string_view name, std::vector<std::string_view> schemas, BodyFn body,
                     std::vector<std::string_view> more_names, StridesFn strides) {
  more_names.insert(more_names.begin(), name);
  return {.name = name,
          .family = Family::kComposite,
          .schemas = std::move(schemas),
          .numpy_names = std::move(more_names),
          .body = body,
          .strides = strides,
          .in_place_variant = false};
}

OpDef numpy_view(std::string_view name, std::vector<std::string_view> schemas, BodyFn body, AliasFn alias) {
  OpDef op = numpy_function(name, std::move(schemas), body, {}, nullptr);
  op.view = alias == nullptr;
  op.alias = alias;
  return op;
}

}  // namespace cdynamo::graph
