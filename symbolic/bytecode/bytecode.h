// Bytecode without a Python version: what the decoder makes of a code object, and what the assembler makes
// one from.
//
// Each supported minor version (3.11, 3.12, 3.13) has a table (symbolic/opcode_table_3xx.cpp) that maps its
// opcodes to the canonical `Op` below, and back. Inline caches and EXTENDED_ARG do not appear; specialised
// and instrumented opcodes are mapped to their plain form; jump arguments are indices of instructions.
// Everything above this header is written once.
//
//   Program program = decode(code_object);                 // borrowed PyCodeObject*
//   program.code.push_back(make(Op::POP_TOP));              // rewrite
//   program.code.push_back(load_const(PyRef::borrow(object)));
//   PyRef new_code = assemble(code_object, program);        // with the same names, layout and flags
//
// Opcodes. Where a version fuses several (LOAD_FAST_LOAD_FAST, RETURN_CONST, BINARY_SLICE,
// JUMP_IF_TRUE_OR_POP, FORMAT_VALUE …) the decoder splits them; where it spreads one meaning over several
// (KW_NAMES + PRECALL + CALL) it is one instruction. The parts of a split one share `offset`. Between any two
// instructions the value stack is the one that CPython has at that place, slot for slot, but for END_FOR,
// END_SEND and CLEANUP_THROW, whose bookkeeping is left out.
//
// Calls. Below the arguments of CALL, CALL_KW and CALL_FUNCTION_EX are two slots, `lower` and `upper`, one
// meaning in all versions:
//   lower is NULL:   upper is called (3.11 and 3.12 push the NULL first)
//   upper is NULL:   lower is called (3.13)
//   neither is NULL: lower is called, with upper as the first argument before the others
// LOAD_METHOD that finds no method, and code that is made here, put the NULL where kNullIsLower says.
#pragma once

#include <Python.h>

#include <cstdint>
#include <string>
#include <vector>

#include "symbolic/interop/py_ref.h"

namespace cdynamo::symbolic {

// Canonical opcodes: the union of what 3.11 to 3.13 can express, one name for one meaning. The table itself
// is symbolic/bytecode/opcodes.def, one row an opcode: name, kind of argument, stack effects.
enum class Op : uint16_t {
#define CDYNAMO_OP(name, ...) name,
#include "symbolic/bytecode/opcodes.def"
#undef CDYNAMO_OP
};
inline constexpr int kNumOps = 0
#define CDYNAMO_OP(name, ...) +1
#include "symbolic/bytecode/opcodes.def"
#undef CDYNAMO_OP
    ;

// What `Instruction::arg` is.
enum class ArgKind : uint8_t {
  kNone,
  kConst,  // index in co_consts, or `value` holds the object
  kName,   // index in co_names, or `value` holds the name
  kLocal,  // slot: index in co_localsplusnames, which is co_varnames, then the cellvars that are no
           // arguments, then co_freevars
  kCount,  // how many stack items, or which one
  kFlags,  // as the row in opcodes.def says
  kJump,   // index of the target instruction
};

// Where a call without `self` has its NULL (see above).
inline constexpr bool kNullIsLower = PY_VERSION_HEX < 0x030D0000;

const char* op_name(Op op);
ArgKind op_arg_kind(Op op);
// By how much the stack grows (negative: shrinks). `jump`: when it jumps to its target.
int op_stack_effect(Op op, int arg, bool jump = false);
inline bool is_jump(Op op) { return op_arg_kind(op) == ArgKind::kJump; }
// END_FOR and END_SEND: what FOR_ITER and SEND jump to, and nothing else goes to. On 3.12+ these two jumps and
// their landings share bookkeeping of the stack, which canonical code leaves out, so assemble() refuses one
// without the other.
inline bool is_landing(Op op) { return op == Op::END_FOR || op == Op::END_SEND; }
// False after JUMP, RETURN_VALUE, RAISE_VARARGS and RERAISE.
bool falls_through(Op op);

struct Instruction {
  Op op;
  int32_t arg = 0;  // see ArgKind; for a jump, the index of the target instruction
  int32_t arg2 =
      0;  // CALL_KW: index in co_consts of the names (a tuple of str); others as the row in opcodes.def says
  int32_t offset = -1;  // byte offset in the original co_code; -1 when made by cdynamo
  int32_t handler =
      -1;  // index in Program::handlers of the innermost exception handler that covers it; -1: none
  // Source position: 1-based line; -1 unknown. Columns are 0-based byte offsets as in co_positions().
  int32_t line = -1, end_line = -1, column = -1, end_column = -1;
  // For what is made by cdynamo: the constant of LOAD_CONST, the name (str) of an opcode that takes one, the
  // names of CALL_KW. The assembler adds it to co_consts or co_names and `arg` (for CALL_KW: `arg2`) is not
  // looked at.
  PyRef value;
};

Instruction make(Op op, int arg = 0);
Instruction load_const(PyRef object);
Instruction with_name(Op op, const char* name);  // LOAD_GLOBAL, LOAD_ATTR, LOAD_METHOD, STORE_ATTR …
Instruction call_kw(int num_args, PyRef names);
// Makes the callable on top of the stack the two slots of a call: PUSH_NULL, and SWAP where the version wants
// it lower.
void append_push_null(std::vector<Instruction>& code);

// One row of the exception table: where control goes, how deep the stack is cut, whether the offset of the
// raising instruction is pushed. On entry the stack is: `depth` items, the offset (an int) if push_lasti, the
// exception.
struct Handler {
  int32_t target = 0;  // index of an instruction
  int32_t depth = 0;
  bool push_lasti = false;
};

struct Program {
  std::vector<Instruction> code;
  std::vector<Handler> handlers;
};

// Decodes `code`. Never fails on a code object that CPython itself made; throws PythonError (SystemError) on
// others.
Program decode(PyCodeObject* code);

// What the assembler may change besides the instructions; what is left empty is taken from `original`.
struct CodeOptions {
  std::string name;                   // co_name and the last part of co_qualname
  std::vector<std::string> varnames;  // co_varnames, arguments first
  std::vector<std::string> cellvars, freevars;
  int argcount = -1, posonly = -1, kwonly = -1;  // as co_argcount …: argcount includes posonly
  int flags = -1;
  bool replace_layout =
      false;  // true: varnames/cellvars/freevars and the counts above stand for the original's
};

// A new code object from `program`: names and constants of `original` keep their indices and new ones are
// appended; line table, exception table, inline caches, EXTENDED_ARG and the stack size are computed.
// Instructions are jumped to by index. Throws PythonError where CPython refuses, and SystemError for what the
// running version cannot express (LOAD_FAST_AND_CLEAR on 3.11, a FOR_ITER that jumps backwards or not to an
// END_FOR …).
PyRef assemble(PyCodeObject* original, const Program& program, const CodeOptions& options = {});

// The stack depth before each instruction, -1 where control never comes.
std::vector<int> stack_depths(const Program& program);

}  // namespace cdynamo::symbolic
