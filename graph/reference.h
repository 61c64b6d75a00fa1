// The reference ScalarBuilder: scalar code on doubles and int64s. It folds constants, is what tests compare
// with, and is what the interpreter computes with. float32 functions are computed in double and rounded.
//
//   ReferenceBuilder b;
//   Scalar y = op.scalar(b, operands, args);     // operands from b.constant(...)
//   double value = b.real(y);
#pragma once

#include "graph/scalar.h"

namespace cdynamo::graph {

class ReferenceBuilder final : public ScalarBuilder {
 public:
  Scalar constant(double value, DType dtype) override;
  Scalar constant_int(int64_t value, DType dtype) override;
  Scalar prim(Prim prim, const Scalar* operands, int count) override;
  Scalar cast(Scalar value, DType dtype) override;
  Scalar select(Scalar condition, Scalar yes, Scalar no) override;
  Scalar bitcast(Scalar value, DType dtype) override;

  // Values are held in the handles themselves: a Scalar stays valid for ever.
  static double real(Scalar value);      // of any dtype
  static int64_t integer(Scalar value);  // of an integer dtype or bool; the bits of a uint64
};

// To the nearest value of a float dtype (half types included), as a double.
double round_to(double value, DType dtype);
// What an integer dtype or bool keeps of a number.
int64_t wrap_to(int64_t value, DType dtype);
// C's conversion as the hardware does it.
int64_t real_to_integer(double value, DType dtype);
// The number that the bits of an integer dtype stand for.
double integer_to_real(int64_t value, DType dtype);

}  // namespace cdynamo::graph
