// Where each buffer of the plan lives: the caller's inputs and outputs, or one arena a call in which buffers
// whose lives do not overlap share bytes.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "lowering/fusion/fusion.h"
#include "runtime/plan_executable.h"

namespace cdynamo::lowering {

// What the steps use: buffers by their ids (values' ids, temporaries, copies).
struct BufferUse {
  DType dtype;
  Sym bytes;
  int first_step = -1, last_step = -1;  // in the order of execution
};

struct ArenaPlan {
  std::map<int, Sym> offsets;  // by buffer id: bytes
  Sym bytes;
  std::string text;  // for the report
};

// `uses`: of the buffers that live in the arena. Lives are whole steps; offsets are multiples of 64.
ArenaPlan plan_arena(const LoweringContext& context, const std::map<int, BufferUse>& uses);

// Sym -> SizeId of a plan, equal expressions once.
class SizeTable {
 public:
  runtime::SizeId add(const Sym& size);
  std::vector<runtime::SizeExpr> take() { return std::move(sizes_); }

 private:
  std::vector<runtime::SizeExpr> sizes_;
  std::vector<std::pair<Sym, runtime::SizeId>> known_;
};
runtime::SizeExpr size_expr(const Sym& size);

}  // namespace cdynamo::lowering
