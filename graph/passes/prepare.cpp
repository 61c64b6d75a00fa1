// The pipeline from a captured graph to the core graph that lowering reads.
//
//   functionalize                      functionalize.cpp, view_step.cpp   writes and views become values; decomposition
//   expand_regroups                    regroup.cpp                        view(dtype) of another width
//   simplify                           simplify.cpp, rewrites.cpp         exact algebra, views, constant folding
//   recognize_attention                recognize_attention.cpp            matmul, scale, mask, softmax, matmul -> core.sdpa
//   sum_where_selected                 selections.cpp                     x[mask].sum()
//   compress_selected                  selections.cpp                     x[mask]
//   eliminate_common_subexpressions    common_subexpressions.cpp
//   eliminate_dead_code                dead_code.cpp
//   verify                             verify.cpp
#include "graph/op.h"
#include "graph/passes.h"
#include "graph/time_budget.h"

namespace cdynamo::graph {

Prepared prepare(const Graph& captured, const DumpFn& dump, bool for_training,
                 const GainsByAttention& gains) {
  if (dump) dump("captured", captured);
  Prepared prepared = functionalize(captured);
  if (dump) dump("functionalize", *prepared.core);
  expand_regroups(*prepared.core);
  if (for_training)
    remove_inner_copies(*prepared.core);
  else
    remove_detach(*prepared.core);
  optimize(*prepared.core, dump, for_training, gains);
  return prepared;
}

void optimize(Graph& core, const DumpFn& dump, bool for_training, const GainsByAttention& gains) {
  const auto done = [&](const char* stage) {
    TimeBudget::check();
    if (dump) dump(stage, core);
  };
  eliminate_dead_code(core);
  simplify(core, for_training);
  done("simplify");

  eliminate_common_subexpressions(core, for_training);
  if (recognize_attention(core, for_training, gains)) simplify(core, for_training);
  done("recognize_attention");
  if (sum_where_selected(core)) simplify(core, for_training);
  done("sum_where_selected");
  if (compress_selected(core)) simplify(core, for_training);
  done("compress_selected");

  while (eliminate_common_subexpressions(core, for_training) && simplify(core, for_training)) {
  }
  done("eliminate_common_subexpressions");

  eliminate_dead_code(core);
  done("eliminate_dead_code");

  const std::vector<std::string> broken = verify(core, /*core=*/true);
  if (!broken.empty())
    throw InternalError("the core graph is not sound: " + broken[0] + "\n" + print_readable(core));
}

}  // namespace cdynamo::graph
