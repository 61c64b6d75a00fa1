// The operators of BINARY_OP, as CPython numbers them (NB_* of opcode.h, whose macros clash with bytecode.h's
// names). The same in 3.11 to 3.13.
#pragma once

namespace cdynamo::symbolic {

enum NumberOp : int {
  kAdd,
  kAnd,
  kFloorDivide,
  kLshift,
  kMatrixMultiply,
  kMultiply,
  kRemainder,
  kOr,
  kPower,
  kRshift,
  kSubtract,
  kTrueDivide,
  kXor,
  kInplaceAdd,
  kInplaceAnd,
  kInplaceFloorDivide,
  kInplaceLshift,
  kInplaceMatrixMultiply,
  kInplaceMultiply,
  kInplaceRemainder,
  kInplaceOr,
  kInplacePower,
  kInplaceRshift,
  kInplaceSubtract,
  kInplaceTrueDivide,
  kInplaceXor,
};

}  // namespace cdynamo::symbolic
