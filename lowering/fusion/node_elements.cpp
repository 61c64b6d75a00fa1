// Elements of one node, by its kind: ElementEmitter's other half.
#include <utility>

#include "lowering/fusion/element_emitter.h"

namespace cdynamo::lowering {
namespace {

// A ScalarBuilder that catches the constant which a reduction's identity is.
class ConstantCatcher : public graph::ScalarBuilder {
 public:
  using Scalar = graph::Scalar;
  Stmt stmt{.kind = StmtKind::kConstant};
  Scalar constant(double value, DType dtype) override {
    stmt.dtype = dtype;
    stmt.value = value;
    stmt.int_value = runtime::is_float(dtype) ? 0 : static_cast<int64_t>(value);
    return {nullptr, dtype};
  }
  Scalar constant_int(int64_t value, DType dtype) override {
    stmt.dtype = dtype;
    stmt.int_value = value;
    stmt.value = static_cast<double>(value);
    return {nullptr, dtype};
  }
  Scalar prim(graph::Prim, const Scalar*, int) override {
    throw CannotFuse{"a reduction's identity is not a constant"};
  }
  Scalar cast(Scalar, DType) override { throw CannotFuse{"a reduction's identity is not a constant"}; }
  Scalar select(Scalar, Scalar, Scalar) override {
    throw CannotFuse{"a reduction's identity is not a constant"};
  }
  Scalar bitcast(Scalar, DType) override { throw CannotFuse{"a reduction's identity is not a constant"}; }
};

}  // namespace

int ElementEmitter::reduce_register(const Node& node, int operand) {
  const Value& result = *node.results[0];
  const graph::ReductionDef* definition = node.op->reduction;
  if (!definition) throw graph::InternalError("no reduction definition: " + std::string(node.op->name));
  const DType accumulator =
      definition->returns_index ? DType::kI64 : runtime::compute_type(result.type.dtype);
  if (!definition->returns_index) operand = cast(operand, accumulator);
  return emit_here({.kind = StmtKind::kReduce,
                    .dtype = accumulator,
                    .operands = {operand},
                    .node = &node,
                    .reduction = definition},
                   true);
}

int ElementEmitter::or_identity(const graph::ReductionDef& reduction, int reg, int mask, DType accumulator) {
  ConstantCatcher identity;
  reduction.identity(identity, accumulator);
  reg = cast(reg, accumulator);
  return emit(
      {.kind = StmtKind::kSelect, .dtype = accumulator, .operands = {mask, reg, emit(identity.stmt)}});
}

int ElementEmitter::reduce(const Node& node, const std::vector<Index>& operand_index) {
  const Value& operand = *args_of(node).value("self");
  const int mask = row_mask();
  int reg = element(operand, operand_index, mask);
  if (mask >= 0)
    reg = or_identity(*node.op->reduction, reg, mask, runtime::compute_type(node.results[0]->type.dtype));
  if (!axes_.has_rows())
    return node.op->reduction->returns_index ? constant(0)
                                             : cast(reg, runtime::compute_type(node.results[0]->type.dtype));
  return reduce_register(node, reg);
}

void ElementEmitter::finish_reduction(const Node& node, const std::vector<Index>& index, int accumulator) {
  const Value& result = *node.results[0];
  remember(result, index, -1, cast(accumulator, result.type.dtype));
}

int ElementEmitter::number(DType dtype, double value) {
  if (runtime::is_float(dtype)) return emit({.kind = StmtKind::kConstant, .dtype = dtype, .value = value});
  return emit({.kind = StmtKind::kConstant, .dtype = dtype, .int_value = static_cast<int64_t>(value)});
}

int ElementEmitter::compute(const Node& node, const Value& value, const std::vector<Index>& index, int mask) {
  const CoreKind kind = context_.kind(node);
  switch (kind) {
    case CoreKind::kFull: return full(node);
    case CoreKind::kIota: return cast(index_register(index[args_of(node).constant("dim")]), value.type.dtype);
    case CoreKind::kPointwise:
    case CoreKind::kCast: return pointwise(node, index, mask);
    case CoreKind::kConcat:
    case CoreKind::kSliceScatter:
    case CoreKind::kDiagonalScatter: return choose(node, index, mask);
    case CoreKind::kGather:
    case CoreKind::kIndex: return indirect(node, index, mask);
    case CoreKind::kReduction: {
      // finish_reduction() made it known at its place; any other place is another kernel's.
      if (Known* known = find(value, index, -1)) return known->reg;
      throw CannotFuse{"a reduction is read other than by its own row"};
    }
    default: return view(node, index, mask);
  }
}

int ElementEmitter::full(const Node& node) {
  const DType dtype = node.results[0]->type.dtype;
  const graph::Arg& value = args_of(node)["value"];
  if (const Sym* size = std::get_if<Sym>(&value); size && !size->is_constant())
    return cast(size_register(*size), dtype);
  const DType compute = runtime::compute_type(dtype);
  Stmt stmt{.kind = StmtKind::kConstant, .dtype = compute};
  if (const Sym* size = std::get_if<Sym>(&value)) {
    stmt.int_value = size->constant();
    stmt.value = static_cast<double>(size->constant());
  } else if (const double* number = std::get_if<double>(&value)) {
    stmt.value = *number;
    // Out of range is undefined in C++; the value is wanted only where it is in range.
    stmt.int_value = *number >= -9.2e18 && *number <= 9.2e18 ? static_cast<int64_t>(*number) : 0;
  } else {
    stmt.int_value = std::get<bool>(value);
    stmt.value = stmt.int_value;
  }
  if (dtype == DType::kBool) stmt.int_value = stmt.value != 0;
  return cast(emit(std::move(stmt)), dtype);
}

int ElementEmitter::pointwise(const Node& node, const std::vector<Index>& index, int mask) {
  refuse_repetition(node, index);
  std::vector<int> operands;
  graph::for_each_operand(const_cast<Node&>(node),
                          [&](Value*& operand) { operands.push_back(element(*operand, index, mask)); });
  const DType dtype = node.results[0]->type.dtype;
  if (context_.kind(node) == CoreKind::kCast) return cast(operands.at(0), dtype);
  return emit({.kind = StmtKind::kOp, .dtype = dtype, .operands = std::move(operands), .node = &node});
}

int ElementEmitter::view(const Node& node, const std::vector<Index>& index, int mask) {
  const Access access = accesses(node, index, scope()).at(0);
  int inside = -1;
  for (const Condition& where : access.where) inside = all_of(inside, condition(where));
  const int reg = element(*access.operand, access.index, all_of(mask, inside));
  if (inside < 0) return reg;
  const DType dtype = node.results[0]->type.dtype;
  const int fill = cast(number(runtime::compute_type(dtype), fill_value(node)), dtype);
  return emit({.kind = StmtKind::kSelect, .dtype = dtype, .operands = {inside, reg, fill}, .node = &node});
}

// Concatenation and slice writes: the first operand whose conditions hold.
int ElementEmitter::choose(const Node& node, const std::vector<Index>& index, int mask) {
  const std::vector<Access> choices = accesses(node, index, scope());
  const DType dtype = node.results[0]->type.dtype;
  int result = -1;
  for (size_t i = choices.size(); i-- > 0;) {
    int inside = -1;
    for (const Condition& where : choices[i].where) inside = all_of(inside, condition(where));
    const int reg = element(*choices[i].operand, choices[i].index, all_of(mask, inside));
    const bool always = result < 0 || inside < 0;
    result = always ? reg
                    : emit({.kind = StmtKind::kSelect,
                            .dtype = dtype,
                            .operands = {inside, reg, result},
                            .node = &node});
  }
  return result;
}

int ElementEmitter::indirect(const Node& node, const std::vector<Index>& index, int mask) {
  const graph::Args args = args_of(node);
  const Value& self = *args.value("self");
  const std::vector<Access> reads = accesses(node, index, scope());
  std::vector<Index> at;
  std::vector<int> checked_dims;
  if (context_.kind(node) == CoreKind::kGather) {
    at = index;
    checked_dims = {static_cast<int>(args.constant("dim"))};
  } else {
    at.assign(self.type.rank(), Index{});
    const size_t indexed = reads.size(), shape_rank = reads[0].index.size();
    for (size_t d = indexed; d < at.size(); ++d) at[d] = index[shape_rank + d - indexed];
    for (size_t d = 0; d < indexed; ++d) checked_dims.push_back(static_cast<int>(d));
  }
  for (size_t i = 0; i < reads.size(); ++i) {
    const Sym& size = self.type.sizes[checked_dims[i]];
    if (size == Sym()) throw graph::Unsupported("indexing into a dimension of size 0");
    at[checked_dims[i]] = register_index(
        check_index(element(*reads[i].operand, reads[i].index, mask), size, mask, index_error_kind(args)));
  }
  return element(self, at, mask);
}

}  // namespace cdynamo::lowering
