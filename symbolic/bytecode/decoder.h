// The decoder's steps, for the assembler: code units to raw instructions, one raw instruction to canonical
// ones.
#pragma once

#include <vector>

#include "symbolic/bytecode/opcode_table.h"

namespace cdynamo::symbolic {

// An instruction as it stands in co_code. All places are byte offsets.
struct RawInstruction {
  const RawOpcode* row;
  int arg;
  int start;   // of its first EXTENDED_ARG, or of itself
  int offset;  // of the opcode
  int end;     // after its inline caches
};

// `co_code` of the code object, without specialisation. Throws PythonError (SystemError) for an unknown
// opcode.
std::vector<RawInstruction> read_raw(PyCodeObject* code);

// A canonical opcode with its arguments. Of a jump `arg` is the byte offset of the target.
struct Piece {
  Op op = Op::NOP;
  int arg = 0;
  int arg2 = 0;
};
struct Expansion {
  Piece pieces[5];
  int size = 0;
  void add(Op op, int arg = 0, int arg2 = 0) { pieces[size++] = {op, arg, arg2}; }
};

// What `raw` stands for, taken alone. Empty for KW_NAMES and PRECALL, which belong to the instruction after
// them.
Expansion expand(PyCodeObject* code, const RawInstruction& raw);

}  // namespace cdynamo::symbolic
