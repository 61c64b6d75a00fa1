// Mathematical functions as scalar code, for any device: polynomials on the primitives that a device must
// have.
//
// `emit_math` expands one prim (exp, sin, erf, pow ...) into arithmetic, comparisons, selects and bit
// operations, for float32 and float64. Results are within 2 ULP, save pow, lgamma and digamma (see their
// files); NaN, infinities, signed zeros and subnormal numbers are C's. Range reduction of huge trigonometric
// arguments is left to `rare`.
#pragma once

#include <limits>
#include <optional>
#include <span>

#include "graph/scalar.h"

namespace cdynamo::lowering::math {

using graph::DType;
using graph::Prim;
using graph::Scalar;

class MathBuilder : public graph::ScalarBuilder {
 public:
  // `common`, but C's `prim` of the operand in lanes where `condition` holds. Costs a test where it holds
  // nowhere.
  virtual Scalar rare(Scalar condition, Scalar common, Prim prim, const Scalar* operands, int count) = 0;
  // x * 2^n rounded once, for an integral n of x's dtype; overflows to infinity and underflows gradually.
  virtual Scalar scale(Scalar x, Scalar n);
  // The same where 2^n is a normal number.
  virtual Scalar scale_normal(Scalar x, Scalar n);
  // n where x = m * 2^n and |m| is in [0.75, 1.5), and m itself; for positive normal x.
  struct Split {
    Scalar mantissa, exponent;
  };
  virtual Split split(Scalar x);
  // table[index] as a float64, for an int32 index into it.
  virtual Scalar constant_at(std::span<const double> table, Scalar index);
  // The device's own code for a function of one operand, where it has any.
  virtual std::optional<Scalar> own(Prim, Scalar) { return std::nullopt; }
  // What |x| never exceeds, as `note_bound` was told of it (NaN aside): ranges need not be reduced then.
  virtual double bound(Scalar) const { return std::numeric_limits<double>::infinity(); }
  virtual void note_bound(Scalar, double) {}
};

// Whether `prim` is one that emit_math expands.
bool is_math(Prim prim);
Scalar emit_math(MathBuilder& b, Prim prim, const Scalar* operands, int count);

// What `rare` stands for on a device without C's functions: right for all arguments, however slow. Of the functions that `rare`
// is asked for, but for k_rem, which takes a loop.
Scalar emit_exact(MathBuilder& b, Prim prim, const Scalar* operands, int count);

// C's function for `prim` of float32 or float64, for `rare` and for scalar fallbacks: float(*)(float[,
// float]) or the double one. Null where C has none. `name` is a name that generated code may import (see
// runtime::define_symbols).
struct LibmEntry {
  Prim prim;
  const char* name_f32;
  void* f32;
  const char* name_f64;
  void* f64;
};
const LibmEntry* find_libm(Prim prim);
// Helpers that call such a function for the lanes whose bit is set: void(result, x, y or null, mask, lanes,
// function).
const char* lanes_helper_name(bool f64, int operands);
// Makes all of them known to the JIT.
void define_libm_symbols();

}  // namespace cdynamo::lowering::math
