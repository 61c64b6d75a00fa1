// Common subexpressions: a node that computes what an earlier one has computed is replaced by it. Random
// random ops and calls of the framework are never merged.
#include <string>

#include "absl/container/flat_hash_map.h"
#include "graph/passes.h"
#include "graph/passes/node_key.h"
#include "graph/passes/rewrite.h"

namespace cdynamo::graph {

bool eliminate_common_subexpressions(Graph& core, bool for_training) {
  absl::flat_hash_map<std::string, Value*> seen;
  NodeKey key([](const Value* value) { return value->id; },
              [](NodeKey& out, const Sym& size) {
                out.add_number(reinterpret_cast<intptr_t>(size.node()));
                if (size.is_constant()) out.add_number(size.constant());
              });
  const auto earlier = [&](Builder&, Node& node) -> Value* {
    if (node.op->family == Family::kRandom || node.op->family == Family::kLibrary || node.results.size() != 1)
      return nullptr;
    key.add(node);
    const auto [found, is_new] = seen.emplace(key.take(), node.results[0]);
    if (is_new) return nullptr;
    Node& first = *found->second->node;
    first.is_merged |= node.is_merged || first.user_call != node.user_call;
    return found->second;
  };
  return rewrite_nodes(core, earlier, /*outputs_stay=*/for_training);
}

}  // namespace cdynamo::graph
