// The statements of the loop IR that every target emits alike: scalar code on registers.
#pragma once

#include <span>

#include "lowering/codegen/code_builder.h"
#include "lowering/loops/loop_ir.h"

namespace cdynamo::lowering::emit {

// kConstant, kPrim, kCast, kSelect and kOp; null for the others. `short_nans`: bfloat16 operands' NaNs have no bit that rounding
// drops.
llvm::Value* emit_scalar_statement(CodeBuilder& builder, const Stmt& stmt, std::span<const Scalar> operands,
                                   bool short_nans = false);

// A reduction's running result; `index` only where the reduction returns one.
struct Accumulated {
  llvm::Value* value = nullptr;
  llvm::Value* index = nullptr;
};

// accumulated = combine(accumulated, next). An index follows its value; among equal values the lowest wins, for which `next` need
// only be compared where it may have come earlier (`in_any_order`).
void combine(CodeBuilder& builder, const graph::ReductionDef& reduction, DType dtype, Accumulated next,
             Accumulated& accumulated, bool in_any_order);

// What the order of a reduction's operations means for its result.
enum class ReductionClass { kSelects, kAdds, kOther };
ReductionClass class_of(const graph::ReductionDef& reduction);
// Whether the length of the chain and its order show in the result.
bool rounds(const Stmt& stmt, DType dtype);

}  // namespace cdynamo::lowering::emit
