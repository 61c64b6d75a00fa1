// ScalarBuilder on LLVM IR, for every target: one handle is a scalar (uniform over the lanes) or a vector of lanes, and
// operands of both kinds mix: a uniform operand is broadcast where a vector one meets it. Constants are
// always uniform.
//
// bool is i1; half types never appear (kernels hold them as float32, rounded by `round_to`). What processors do each in
// their own way is virtual.
#pragma once

#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/ValueMap.h>

#include "lowering/math/math.h"

namespace cdynamo::lowering::emit {

using graph::DType;
using graph::Prim;
using graph::Scalar;

class CodeBuilder : public math::MathBuilder {
 public:
  // New instructions go to `ir`'s insertion point, which `rare` moves to a later block.
  explicit CodeBuilder(llvm::IRBuilder<>& ir) : ir_(ir) {}

  Scalar constant(double value, DType dtype) override;
  Scalar constant_int(int64_t value, DType dtype) override;
  Scalar prim(Prim prim, const Scalar* operands, int count) override;
  Scalar cast(Scalar value, DType dtype) override;
  Scalar select(Scalar condition, Scalar yes, Scalar no) override;
  Scalar bitcast(Scalar value, DType dtype) override;

  // Rounds a float32 to a half dtype and back. `short_nans`: no NaN has a bit set that the half dtype drops.
  Scalar round_to(Scalar value, DType half, bool short_nans = false);
  // float32 <-> the 16 bits of a half dtype. `narrow` rounds to nearest even.
  llvm::Value* widen_half(llvm::Value* bits, DType half);
  // What `widen_half` gave, or a `select` of such values, gets its own bits back: what is only moved keeps its NaNs' digits.
  llvm::Value* narrow_half(llvm::Value* value, DType half, bool short_nans = false);

  llvm::IRBuilder<>& ir() { return ir_; }
  llvm::Value* splat(llvm::Value* value, int lanes);
  llvm::Type* type(DType dtype, int lanes = 1);          // of a register
  llvm::Type* storage_type(DType dtype, int lanes = 1);  // in memory: bool is i8, half types are i16
  // Whether any lane of a bool is true, as i1.
  llvm::Value* any(llvm::Value* condition);

  static llvm::Value* value(Scalar s) { return static_cast<llvm::Value*>(s.handle); }
  static Scalar wrap(llvm::Value* value, DType dtype) { return {value, dtype}; }
  static int lanes(llvm::Value* value);

 protected:
  // C's conversion to an integer of at least 32 bits, for what is in its range; the rest as the processor has it.
  virtual llvm::Value* to_integer(llvm::Value* v, DType dtype) = 0;
  llvm::Value* to_any_integer(llvm::Value* v, DType dtype);
  // b == 0 gives 0, the least integer over -1 wraps.
  virtual llvm::Value* integer_divide(Prim prim, DType dtype, llvm::Value* a, llvm::Value* b);
  // A float32 as the 16 bits of the nearest bfloat16.
  virtual llvm::Value* round_to_bfloat16(llvm::Value* v, bool short_nans);
  // By LLVM's own conversion to `half`, a type of 16 bits.
  llvm::Value* truncate(llvm::Value* v, llvm::Type* half);
  // The lesser or the greater of two floats, NaN where either is.
  virtual llvm::Value* extremum(bool min, llvm::Value* a, llvm::Value* b);
  // Opaque to what LLVM knows of the operation that made it.
  virtual llvm::Value* opaque(llvm::Value* value) { return value; }

  llvm::IRBuilder<>& ir_;

 private:
  llvm::Value* binary(Prim prim, DType dtype, llvm::Value* a, llvm::Value* b);
  llvm::Value* unary(Prim prim, DType dtype, llvm::Value* a);
  llvm::Value* float_remainder(DType dtype, llvm::Value* a, llvm::Value* b);

  // A half value in memory's form.
  struct HalfBits {
    DType half;
    llvm::Value* bits;
  };
  const HalfBits* half_bits(llvm::Value* wide) const;
  // The bits of a value that `half` holds exactly; null: nothing says that it is one.
  llvm::Value* exact_bits(llvm::Value* wide, DType half);

  llvm::ValueMap<llvm::Value*, HalfBits> half_bits_;  // of float32 registers
};

}  // namespace cdynamo::lowering::emit
