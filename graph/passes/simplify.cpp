// simplify: the rewrites of rewrites.cpp and constant folding, until nothing changes.
#include "graph/passes.h"
#include "graph/passes/constant_folding.h"
#include "graph/passes/rewrite.h"

namespace cdynamo::graph {

bool simplify(Graph& core, bool for_training) {
  static const RewriteSet* const before =
      new RewriteSet({view_rewrites(), algebra_rewrites(), differentiable_selection_rewrites()});
  static const RewriteSet* const after =
      new RewriteSet({view_rewrites(), unit_view_rewrites(), algebra_rewrites(), selection_rewrites()});
  const RewriteSet* const rewrites = for_training ? before : after;
  constexpr int kMaxSweeps = 16;  // each sweep shortens chains; a graph settles in two or three
  bool changed = false;
  for (int sweep = 0; sweep < kMaxSweeps; ++sweep) {
    const auto simpler = [&](Builder& builder, Node& node) -> Value* {
      if (Value* constant = fold_constants(builder, node)) return constant;
      return rewrites->apply(builder, node);
    };
    if (!rewrite_nodes(core, simpler, /*outputs_stay=*/for_training)) break;
    eliminate_dead_code(core);
    changed = true;
  }
  return changed;
}

}  // namespace cdynamo::graph
