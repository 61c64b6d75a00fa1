// The scalar code of kernels on vectors of x86: CodeBuilder with what SIMD registers have and have not, and C's functions
// for the lanes that polynomials leave to them.
#pragma once

#include <map>
#include <utility>

#include "lowering/codegen/code_builder.h"

namespace cdynamo::lowering::emit {

class VectorBuilder final : public CodeBuilder {
 public:
  VectorBuilder(llvm::IRBuilder<>& ir, bool has_avx512) : CodeBuilder(ir), has_avx512_(has_avx512) {}

  Scalar rare(Scalar condition, Scalar common, Prim prim, const Scalar* operands, int count) override;
  Scalar scale(Scalar x, Scalar n) override;
  Scalar scale_normal(Scalar x, Scalar n) override;
  Split split(Scalar x) override;

 private:
  std::optional<Scalar> scale_at_once(Scalar x, Scalar n);
  llvm::Value* to_integer(llvm::Value* v, DType dtype) override;
  llvm::Value* integer_divide(Prim prim, DType dtype, llvm::Value* a, llvm::Value* b) override;
  llvm::Value* extremum(bool min, llvm::Value* a, llvm::Value* b) override;
  llvm::Value* opaque(llvm::Value* value) override;
  llvm::Value* call_lanes(const math::LibmEntry& entry, DType dtype, llvm::Value* common, llvm::Value* mask,
                          llvm::ArrayRef<llvm::Value*> operands);
  llvm::Value* spill_slot(llvm::Type* type, int which);
  template <typename F>
  llvm::Value* by_register(llvm::ArrayRef<llvm::Value*> operands, int register_lanes, const F& function);

  bool has_avx512_;
  std::map<std::pair<llvm::Type*, int>, llvm::Value*> spill_slots_;
};

}  // namespace cdynamo::lowering::emit
