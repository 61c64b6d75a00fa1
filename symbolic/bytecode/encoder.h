// The first half of the assembler: canonical instructions to those of the running version.
#pragma once

#include <vector>

#include "symbolic/bytecode/decoder.h"

namespace cdynamo::symbolic {

// An instruction of the running version before it has a place. EXTENDED_ARG and inline caches are implied.
struct RawUnit {
  const RawOpcode* row;
  int arg;
  int target;  // index of a canonical instruction; -1: no jump
  int source;  // index of the canonical instruction that it comes from: its position and handler
};

struct Encoding {
  std::vector<RawUnit> units;
  std::vector<int> unit_of;  // by canonical instruction, and one past the last: its first unit
};

// `code`: with `value`s resolved to indices. What comes unchanged from `original` gets the opcode that it had
// there.
Encoding encode(PyCodeObject* original, const std::vector<Instruction>& code,
                const std::vector<Handler>& handlers);

}  // namespace cdynamo::symbolic
