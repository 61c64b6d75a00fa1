// The scalar code of kernels for one thread of a GPU.
#pragma once

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

  Scalar constant_at(std::span<const double> table, Scalar index) override;

  // The value of the lane whose number differs in the bits of `mask`, of any dtype.
  llvm::Value* from_lane(llvm::Value* value, int mask);

 private:
  llvm::Value* to_integer(llvm::Value* v, DType dtype) override;
  llvm::Value* opaque(llvm::Value* value) override;
  Scalar exact(Prim prim, const Scalar* operands, int count);
  llvm::Value* call_exact(Prim prim, const Scalar* operands, int count);
  Scalar long_division(Scalar a, Scalar b);

  int exact_copies_ = 0;
};

}  // namespace cdynamo::lowering::gpu
