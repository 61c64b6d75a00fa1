// Bytecode without a Python version: what the decoder makes of a code object, and what the assembler makes one from.
//
// Each supported minor version (3.11, 3.12, 3.13) has a table that maps its opcodes to the canonical `Op` below, and
// back. Inline caches and EXTENDED_ARG do not appear; specialised and instrumented opcodes are mapped to their plain
// form; jump arguments are indices of instructions. Everything above this header is written once.
//
//   std::vector<Instruction> code = decode(code_object);        // borrowed PyCodeObject*
//   ... rewrite ...
//   PyRef new_code = assemble(code_object, program);            // a new code object with the same names and flags
#pragma once

#include <Python.h>

#include <cstdint>
#include <string>
#include <vector>

#include "symbolic/py_ref.h"

namespace cdynamo::symbolic {

// Canonical opcodes: the union of what 3.11 to 3.13 can express, one name for one meaning. Where a version fuses two
// (LOAD_FAST_LOAD_FAST, RETURN_CONST, 3.13's TO_BOOL + POP_JUMP ...) the decoder splits them into the plain sequence;
// where a version spells one thing in several ways (JUMP_BACKWARD_NO_INTERRUPT, POP_JUMP_FORWARD_IF_TRUE ...) it
// picks the plain one. The table itself is symbolic/opcodes.def, one row an opcode: name, stack effect, which kind of argument.
enum class Op : uint16_t {
#define CDYNAMO_OP(name, ...) name,
#include "symbolic/opcodes.def"
#undef CDYNAMO_OP
};

const char* op_name(Op op);

struct Instruction {
  Op op;
  int32_t arg = 0;        // index of const/name/local/cell, count, flags; for a jump, the index of the target instruction
  int32_t offset = -1;    // byte offset in the original co_code; -1 when made by cdynamo
  int32_t handler = -1;   // index in Program::handlers of the innermost exception handler that covers it; -1: none
  // Source position: 1-based line; -1 unknown. Columns are 0-based byte offsets as in co_positions().
  int32_t line = -1, end_line = -1, column = -1, end_column = -1;
  PyRef value;            // for LOAD_CONST made by cdynamo: the object itself; the assembler adds it to co_consts
};

// One row of the exception table: where control goes, how deep the stack is cut, whether the offset of the raising
// instruction is pushed.
struct Handler {
  int32_t target = 0;  // index of an instruction
  int32_t depth = 0;
  bool push_lasti = false;
};

struct Program {
  std::vector<Instruction> code;
  std::vector<Handler> handlers;
};

// Decodes `code`. Never fails on a code object that CPython itself made.
Program decode(PyCodeObject* code);

// What the assembler may change besides the instructions; what is left empty is taken from `original`.
struct CodeOptions {
  std::string name;                     // co_name and the last part of co_qualname
  std::vector<std::string> varnames;    // co_varnames, arguments first
  std::vector<std::string> cellvars, freevars;
  int argcount = -1, posonly = -1, kwonly = -1;
  int flags = -1;
  bool replace_layout = false;          // true: varnames/cellvars/freevars and the counts above stand for the original's
};

// A new code object from `program`: names and constants of `original` keep their indices and new ones are appended;
// line table, exception table, inline caches, EXTENDED_ARG and the stack size are computed. Instructions are jumped
// to by index. Throws PythonError where CPython refuses.
PyRef assemble(PyCodeObject* original, const Program& program, const CodeOptions& options = {});

}  // namespace cdynamo::symbolic
