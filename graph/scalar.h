// Scalar code that is tied to no device: the body of a pointwise operator, written once against ScalarBuilder.
//
//   Scalar silu(ScalarBuilder& b, Scalar x) {
//     return b.div(x, b.add(b.constant(1.0, x.dtype), b.exp(b.neg(x))));
//   }
//
// Implementations: CPU vectors of LLVM IR, GPU lanes, and a reference interpreter on doubles and int64s that
// also folds constants and is what tests compare with. Values of half types never appear: operators compute
// in float32.
#pragma once

#include <cstdint>

#include "runtime/types.h"

namespace cdynamo::graph {

using runtime::DType;

// A handle whose meaning the builder knows.
struct Scalar {
  void* handle = nullptr;
  DType dtype = DType::kF32;
};

// What a device must be able to do, one row each in graph/prims.def: name, number of operands, meaning.
// Arithmetic is on operands of one dtype; comparisons give bool; `div` of integers truncates towards zero.
enum class Prim : uint8_t {
#define CDYNAMO_PRIM(name, arity, doc) k_##name,
#include "graph/prims.def"
#undef CDYNAMO_PRIM
  kCount
};

class ScalarBuilder {
 public:
  virtual ~ScalarBuilder() = default;
  virtual Scalar constant(double value, DType dtype) = 0;
  virtual Scalar constant_int(int64_t value, DType dtype) = 0;
  virtual Scalar prim(Prim prim, const Scalar* operands, int count) = 0;
  virtual Scalar cast(Scalar value, DType dtype) = 0;                  // C's conversion; to bool: != 0
  virtual Scalar select(Scalar condition, Scalar yes, Scalar no) = 0;  // condition is bool
  virtual Scalar bitcast(Scalar value, DType dtype) = 0;               // same width

  // One method for each row of prims.def: b.add(x, y), b.exp(x), b.lt(x, y) …
#define CDYNAMO_PRIM_1(name) \
  Scalar name(Scalar a) { return prim(Prim::k_##name, &a, 1); }
#define CDYNAMO_PRIM_2(name)                  \
  Scalar name(Scalar a, Scalar b) {           \
    Scalar operands[] = {a, b};               \
    return prim(Prim::k_##name, operands, 2); \
  }
#define CDYNAMO_PRIM_3(name)                  \
  Scalar name(Scalar a, Scalar b, Scalar c) { \
    Scalar operands[] = {a, b, c};            \
    return prim(Prim::k_##name, operands, 3); \
  }
#define CDYNAMO_PRIM(name, arity, doc) CDYNAMO_PRIM_##arity(name)
#include "graph/prims.def"
#undef CDYNAMO_PRIM
#undef CDYNAMO_PRIM_1
#undef CDYNAMO_PRIM_2
#undef CDYNAMO_PRIM_3
};

}  // namespace cdynamo::graph
