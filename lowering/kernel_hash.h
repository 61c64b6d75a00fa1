// Structural identity of kernels, and what their scalar code costs.
//
// Two kernels with equal `serialize` text are the same machine code: names, source lines and the plan's buffer numbers are
// left out, and scalar code (of operators, of reductions) is written out primitive by primitive, so that a
// change in the operator table changes the text.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "lowering/loop_ir.h"

namespace cdynamo::lowering {

std::string serialize(const Kernel& kernel);

// A 128-bit hash for the names of functions and cache entries; equal texts give equal hashes in every process.
struct Hash128 {
  uint64_t low = 0, high = 0;
  std::string hex() const;
  friend bool operator==(const Hash128&, const Hash128&) = default;
};
Hash128 hash_bytes(std::string_view bytes);

// Rough cycles of one execution of a statement on one vector register of float32.
double statement_cost(const Stmt& stmt, const Kernel& kernel);

}  // namespace cdynamo::lowering
