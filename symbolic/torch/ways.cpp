// What polyfills/control_flow.py calls around the ways of torch.cond: see symbolic/tensors/ways.h.
#include "symbolic/tensors/ways.h"

#include "symbolic/torch/callables.h"
#include "symbolic/torch/tensor.h"
#include "symbolic/values/value_tools.h"

namespace cdynamo::symbolic {
namespace {

constexpr SpecialRow kWayRows[] = {
    // enter_way(condition, if_true)
    {"cdynamo.polyfills.rules.enter_way",
     [](Executor& ex, PyObject*, const CallArgs& args) -> ValuePtr {
       graph::Value* condition = graph_value(args.positional.at(0));
       if (!condition) break_graph("CD0404", "cond on what is no tensor of one element");
       enter_way(ex, condition, constant_object(args.positional.at(1)) == Py_True);
       return ex.none();
     }},
    {"cdynamo.polyfills.rules.leave_way",
     [](Executor& ex, PyObject*, const CallArgs&) -> ValuePtr {
       leave_way(ex);
       return ex.none();
     }},
};

}  // namespace

std::span<const SpecialRow> way_rules() { return kWayRows; }

}  // namespace cdynamo::symbolic
