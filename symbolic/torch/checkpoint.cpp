// torch.utils.checkpoint during capture: the function is inlined, and what it appends is a region (graph.h:
// Node::region) whose values the partitioner does not keep. Which checkpoints are captured is said in
// python/cdynamo/polyfills/autograd.py.
#include "graph/op.h"
#include "symbolic/torch/callables.h"
#include "symbolic/values/value_tools.h"

namespace cdynamo::symbolic {
namespace {

// enter_checkpoint(preserve_rng_state)
ValuePtr enter_checkpoint(Executor& ex, PyObject*, const CallArgs& args) {
  PyObject* preserve = args.positional.size() == 1 ? constant_object(args.positional[0]) : nullptr;
  if (preserve != Py_True && preserve != Py_False) break_graph("CD0401", "torch.utils.checkpoint.checkpoint");
  // A checkpoint within one belongs to it.
  int region = ex.isolated_region() ? ex.isolated_region()->region : 0;
  if (!region) region = preserve == Py_True ? ++tensor_capture(ex).regions : -++tensor_capture(ex).regions;
  ex.enter_isolated_region("a checkpoint", region);
  return ex.none();
}

ValuePtr leave_checkpoint(Executor& ex, PyObject*, const CallArgs&) {
  ex.leave_isolated_region();
  return ex.none();
}

constexpr SpecialRow kCheckpointRows[] = {
    {"cdynamo.polyfills.rules.enter_checkpoint", enter_checkpoint},
    {"cdynamo.polyfills.rules.leave_checkpoint", leave_checkpoint},
};

}  // namespace

std::span<const SpecialRow> checkpoint_rules() { return kCheckpointRows; }

}  // namespace cdynamo::symbolic
