// The scalar code of kernels for one thread of a GPU.
#pragma once

#include <llvm/ADT/SmallVector.h>
#include <llvm/IR/Intrinsics.h>
#include <llvm/IR/ValueMap.h>

#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "lowering/codegen/code_builder.h"

namespace cdynamo::lowering::gpu {

using graph::DType;
using graph::Prim;
using graph::Scalar;

class LaneBuilder final : public emit::CodeBuilder {
 public:
  explicit LaneBuilder(llvm::IRBuilder<>& ir) : CodeBuilder(ir) {}

  // A branch to code that is right everywhere (lowering/math/exact.cpp).
  Scalar rare(Scalar condition, Scalar common, Prim prim, const Scalar* operands, int count) override;

  using Operands = llvm::SmallVector<Scalar, 2>;
  using Emit = std::function<llvm::Value*(const Operands&)>;

  // The values that `emit` makes of the operands of each of several points, with one branch for all that is rare among them: what is
  // common is not taken apart by branches. Behind the branch all are made again, in a loop: the code for what is rare, which is long
  // and takes time to assemble, stands there once. `emit` has no effects but instructions.
  std::vector<llvm::Value*> together(const std::vector<Operands>& points, const Emit& emit);

  Scalar scale(Scalar x, Scalar n) override;
  Scalar constant_at(std::span<const double> table, Scalar index) override;
  std::optional<Scalar> own(Prim prim, Scalar x) override;
  double bound(Scalar x) const override;
  void note_bound(Scalar x, double bound) override;

  // The value of the lane whose number differs in the bits of `mask`, of any dtype.
  llvm::Value* from_lane(llvm::Value* value, int mask);
  // Of the lane `by` below; the lane's own where there is none.
  llvm::Value* from_below(llvm::Value* value, int by);
  // Of lane `lane` (i32).
  llvm::Value* from_lane_at(llvm::Value* value, llvm::Value* lane);

 private:
  llvm::Value* shuffle(llvm::Value* value, llvm::Intrinsic::ID kind, llvm::Value* which, int clamp);
  llvm::Value* to_integer(llvm::Value* v, DType dtype) override;
  llvm::Value* opaque(llvm::Value* value) override;
  // One instruction, from sm_80 on.
  llvm::Value* round_to_bfloat16(llvm::Value* v, bool) override { return truncate(v, ir_.getBFloatTy()); }
  std::vector<llvm::Value*> one_by_one(const std::vector<Operands>& points,
                                       const std::vector<llvm::Value*>& common, const Emit& emit);
  llvm::Value* emit_rare(Prim prim, const Operands& operands);
  // What `inside` gives where the condition holds, else `otherwise`.
  std::vector<llvm::Value*> branch(llvm::Value* condition, const std::vector<llvm::Value*>& otherwise,
                                   const std::function<std::vector<llvm::Value*>()>& inside);
  Scalar exact(Prim prim, const Scalar* operands, int count);
  llvm::Value* call_exact(Prim prim, const Scalar* operands, int count);
  Scalar long_division(Scalar a, Scalar b);

  int exact_copies_ = 0;
  llvm::ValueMap<llvm::Value*, double> bounds_;
  // While `together` collects them: the conditions of what is rare.
  std::vector<llvm::Value*>* collected_ = nullptr;
};

}  // namespace cdynamo::lowering::gpu
