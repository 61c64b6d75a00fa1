// Dead code: nodes of a core graph whose results nobody reads. Draws of random numbers stay, for the numbers
// that are drawn after them, unless they were drawn before; calls of the framework stay, for what we do not know of them.
#include <iterator>
#include <vector>

#include "graph/op.h"
#include "graph/passes.h"

namespace cdynamo::graph {

bool eliminate_dead_code(Graph& core, bool keep_draws) {
  std::vector<bool> live(core.next_value_id());
  for (const Value* output : core.outputs) live[output->id] = true;
  for (const Graph::Mutation& mutation : core.mutations) live[mutation.value->id] = true;
  bool changed = false;
  for (auto it = core.nodes.end(); it != core.nodes.begin();) {
    --it;
    Node& node = **it;
    bool needed = (node.op->family == Family::kRandom && keep_draws) || node.op->name == "core.library";
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
