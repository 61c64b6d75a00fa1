// Structural identity of kernels, and what their scalar code costs.
//
// Two kernels with equal `serialize` text are the same machine code: names, source lines and the plan's
// buffer numbers are left out, and scalar code (of operators, of reductions) is written out primitive by
// primitive, so that a change in the operator table changes the text.
#pragma once

#include <string>

#include <vector>

#include "graph/sizes/sym.h"
#include "lowering/loops/loop_ir.h"

namespace cdynamo::lowering {

std::string serialize(const Kernel& kernel);

// What is known of the symbols in kernels' sizes. Code depends on that as well: what emission computes of sizes (quotients,
// remainders) is simplified by it.
class SizeFacts {
 public:
  explicit SizeFacts(const graph::SymContext& context);
  // As text; empty where all sizes are constants.
  std::string about(const Kernel& kernel) const;

 private:
  const graph::SymContext& context_;
  std::vector<std::vector<bool>> mentioned_;  // by guard: the symbols
};

// Rough cycles of one execution of a statement on sixteen float32.
double statement_cost(const Stmt& stmt, const Kernel& kernel);

}  // namespace cdynamo::lowering
