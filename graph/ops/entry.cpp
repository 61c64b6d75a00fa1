#include "graph/ops/entry.h"

#include "graph/promotion.h"

namespace cdynamo::graph {

DType common_dtype(Graph& graph, std::initializer_list<const Arg*> operands) {
  std::vector<PromotedOperand> promoted;
  for (const Arg* arg : operands) promoted.push_back(promoted_operand(*arg));
  return result_type(graph.framework, graph.default_float, promoted);
}

DType common_dtype(Graph& graph, const Args& args) {
  return common_dtype(graph, {&args["self"], &args["other"]});
}

bool is_bool(const Arg& arg) { return promoted_operand(arg).dtype == DType::kBool; }

}  // namespace cdynamo::graph
