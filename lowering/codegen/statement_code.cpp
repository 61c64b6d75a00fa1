#include "lowering/codegen/statement_code.h"

#include "graph/op.h"
#include "graph/reference.h"

namespace cdynamo::lowering::emit {

using namespace llvm;

namespace {

Value* emit_op(CodeBuilder& builder, const Stmt& stmt, std::span<const Scalar> operands, bool short_nans) {
  const graph::Node& node = *stmt.node;
  graph::Args args(node.op->parsed.at(node.overload), node.args);
  Scalar result = node.op->scalar(builder, operands.data(), args);
  if (stmt.dtype != DType::kBF16) return CodeBuilder::value(builder.cast(result, stmt.dtype));
  return CodeBuilder::value(builder.round_to(builder.cast(result, DType::kF32), stmt.dtype, short_nans));
}

}  // namespace

Value* emit_scalar_statement(CodeBuilder& builder, const Stmt& stmt, std::span<const Scalar> operands,
                             bool short_nans) {
  switch (stmt.kind) {
    case StmtKind::kConstant:
      return CodeBuilder::value(runtime::is_float(stmt.dtype)
                                    ? builder.cast(builder.constant(stmt.value, stmt.dtype), stmt.dtype)
                                    : builder.constant_int(stmt.int_value, stmt.dtype));
    case StmtKind::kPrim: {
      Scalar result = builder.prim(stmt.prim, operands.data(), static_cast<int>(operands.size()));
      return CodeBuilder::value(runtime::is_half(stmt.dtype) ? builder.round_to(result, stmt.dtype) : result);
    }
    case StmtKind::kCast: return CodeBuilder::value(builder.cast(operands[0], stmt.dtype));
    case StmtKind::kSelect: return CodeBuilder::value(builder.select(operands[0], operands[1], operands[2]));
    case StmtKind::kOp: return emit_op(builder, stmt, operands, short_nans);
    default: throw graph::InternalError("emission: unknown statement");
  }
}

void combine(CodeBuilder& builder, const graph::ReductionDef& reduction, DType dtype, Accumulated next,
             Accumulated& accumulated, bool in_any_order) {
  IRBuilder<>& ir = builder.ir();
  Value* best = accumulated.value;
  Value* joined = CodeBuilder::value(
      reduction.combine(builder, CodeBuilder::wrap(best, dtype), CodeBuilder::wrap(next.value, dtype)));
  if (reduction.returns_index) {
    const bool f = runtime::is_float(dtype);
    auto same = [&](Value* a, Value* b) {
      if (!f) return ir.CreateICmpEQ(a, b);
      return ir.CreateOr(ir.CreateFCmpOEQ(a, b),
                         ir.CreateAnd(ir.CreateFCmpUNO(a, a), ir.CreateFCmpUNO(b, b)));
    };
    Value* take = ir.CreateNot(same(joined, best));
    if (in_any_order) {
      Value* earlier = ir.CreateICmpSLT(next.index, accumulated.index);
      take = ir.CreateOr(take, ir.CreateAnd(same(next.value, best), earlier));
    } else {
      // The identity itself may be the winning value: the first element is always taken.
      Value* none = ConstantInt::get(accumulated.index->getType(), INT64_MAX);
      take = ir.CreateOr(take, ir.CreateICmpEQ(accumulated.index, none));
    }
    accumulated.index = ir.CreateSelect(take, next.index, accumulated.index);
  }
  accumulated.value = joined;
}

// Found by trying: of 2 and 3 an extremum gives one back, and only a sum gives 5.
ReductionClass class_of(const graph::ReductionDef& reduction) {
  graph::ReferenceBuilder builder;
  const double joined = graph::ReferenceBuilder::real(
      reduction.combine(builder, builder.constant(2, DType::kF64), builder.constant(3, DType::kF64)));
  if (joined == 2 || joined == 3) return ReductionClass::kSelects;
  return joined == 5 ? ReductionClass::kAdds : ReductionClass::kOther;
}

// Whether the length of the chain and its order show in the result.
bool rounds(const Stmt& stmt, DType dtype) {
  return runtime::is_float(dtype) && class_of(*stmt.reduction) != ReductionClass::kSelects;
}

}  // namespace cdynamo::lowering::emit
