// The opcodes of the Python version that this is built for, as data: number, inline cache entries, and how
// the opcode corresponds to canonical ones. decoder.cpp and encoder.cpp read the table;
// symbolic/opcode_table_3xx.cpp hold the rows.
#pragma once

#include <cstdint>
#include <span>

#include "symbolic/bytecode/bytecode.h"

namespace cdynamo::symbolic {

// How a raw opcode with argument `a` corresponds to canonical instructions.
enum class Shape : uint8_t {
  kPlain,          // op(a)
  kForward,        // op, jumps forward by a code units
  kBackward,       // op, jumps backward; arg2 of a JUMP is `extra`
  kPair,           // op(a >> 4), op2(a & 15)
  kReturnConst,    // LOAD_CONST(a), RETURN_VALUE
  kSlice,          // BUILD_SLICE(2), op
  kJumpOrPop,      // COPY(1), op to the target, POP_TOP
  kMakeFunction,   // MAKE_FUNCTION, SET_FUNCTION_ATTRIBUTE for each bit of a, the highest first
  kFormatValue,    // conversion a & 3, spec on the stack if a & 4
  kCompare,        // COMPARE_OP(a >> extra), TO_BOOL if 3.13's flag is set
  kLoadGlobal,     // LOAD_GLOBAL(a >> 1), with PUSH_NULL if a & 1
  kLoadAttr,       // LOAD_ATTR(a >> 1), or LOAD_METHOD if a & 1
  kLoadSuperAttr,  // LOAD_SUPER_ATTR(a >> 2), or LOAD_SUPER_METHOD if a & 1; arg2 is bit 1
  kIntrinsic,      // op where a is `extra`: one row for each intrinsic
  kWithPop,        // op, POP_TOP
  kClassDeref,     // LOAD_LOCALS, op(a)
  kLoadFast,       // LOAD_FAST(a), or LOAD_CLOSURE where the slot holds a cell
  kCallKw,         // the LOAD_CONST before it holds the names: CALL_KW(a)
  kKwNames,        // the CALL after it is a CALL_KW
  kPrecall,        // comes with the CALL after it
  kCall,           // CALL(a), where a PRECALL comes before it
  kEndFor,         // END_FOR with the POP_TOP after it
  kExtendedArg,
};

struct RawOpcode {
  const char* name;  // CPython's
  uint8_t number;
  uint8_t caches;  // code units after the instruction
  Shape shape;
  Op op;
  Op op2 = Op::NOP;
  int16_t extra = 0;
};

// Intrinsics have one row each under the number of their CALL_INTRINSIC_n; 3.13's flag of COMPARE_OP is below
// its shift.
struct OpcodeTable {
  std::span<const RawOpcode> rows;
  int compare_bool_flag;  // 0: there is none
};
extern const OpcodeTable kOpcodeTable;

// The row for a raw opcode; for intrinsics, the one with that argument. Null: unknown.
const RawOpcode* find_raw(int number, int arg);
// The row of this shape that gives `op`; null: the version has none.
const RawOpcode* find_shape(Shape shape, Op op);

}  // namespace cdynamo::symbolic
