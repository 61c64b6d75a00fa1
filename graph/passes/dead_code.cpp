// Dead code: nodes of a core graph whose results nobody reads. Random ops stay, because the numbers of
// those after them depend on them, unless `keep_random` is false; calls of the framework stay: what they do is not known.
#include <iterator>
#include <vector>

#include "graph/op.h"
#include "graph/passes.h"

namespace cdynamo::graph {

bool eliminate_dead_code(Graph& core, bool keep_random) {
  std::vector<bool> live(core.next_value_id());
  for (const Value* output : core.outputs) live[output->id] = true;
  for (const Graph::Mutation& mutation : core.mutations) live[mutation.value->id] = true;
  bool changed = false;
  for (auto it = core.nodes.end(); it != core.nodes.begin();) {
    --it;
    Node& node = **it;
    const Effects effects = node.op->effects;
    bool needed = effects == Effects::kUnknown || (effects == Effects::kDraws && keep_random);
    for (const Value* result : node.results) needed |= live[result->id];
    if (needed) {
      for_each_operand(node, [&](Value* operand) { live[operand->id] = true; });
    } else {
      it = core.nodes.erase(it);
      changed = true;
    }
  }
  return changed;
}

}  // namespace cdynamo::graph
