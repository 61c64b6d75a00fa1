// torch.while_loop on a condition that only the graph knows. polyfills/control_flow.py calls condition and body once, with values that
// stand for what is carried; what is said here is how the calls that they leave become programs of their own
// (python/cdynamo/_library/loop.py), which one node runs as often as the condition says.
#include <algorithm>

#include "graph/ops/random.h"
#include "symbolic/capture/value_factories.h"
#include "symbolic/interop/python_side.h"
#include "symbolic/tensors/user_call.h"
#include "symbolic/torch/autograd_call.h"
#include "symbolic/torch/callables.h"
#include "symbolic/torch/tensor.h"
#include "symbolic/values/value_tools.h"

namespace cdynamo::symbolic {
namespace {

using graph::Value;

constexpr const char* kLoop = "torch.while_loop";

[[noreturn]] void refuse_loop(const std::string& why) {
  break_graph("CD0404", std::string(kLoop) + " " + why);
}

std::vector<Value*> carried_values(Executor& ex, const ValuePtr& tuple) {
  std::vector<Value*> values;
  for (const ValuePtr& item : items_of(ex, tuple)) {
    Value* value = dynamic_cast<TensorValue*>(item.get()) ? graph_value(item) : nullptr;
    if (!value || value->type.weak) refuse_loop("of what is no tensor of the graph");
    values.push_back(value);
  }
  return values;
}

ValuePtr calls_so_far(Executor& ex) { return ex.constant_int(PyList_GET_SIZE(ex.user_calls())); }

// begin_loop(carried): what stands for each tensor in one turn, the number of nodes and of the program's calls so far.
ValuePtr begin_loop(Executor& ex, PyObject*, const CallArgs& args) {
  std::vector<ValuePtr> examples;
  ex.enter_isolated_region(kLoop, ex.isolated_region() ? ex.isolated_region()->region : 0);
  for (const Value* carried : carried_values(ex, args.positional.at(0))) {
    Value* example = ex.graph().new_value(nullptr, -1, carried->type);
    example->name = "carried_" + std::to_string(example->id);
    examples.push_back(make_tensor(ex, example));
  }
  return make_tuple(ex, {make_tuple(ex, std::move(examples)),
                         ex.constant_int(static_cast<int64_t>(ex.graph().nodes.size())), calls_so_far(ex)});
}

// calls_of_loop(): of the program's, so far.
ValuePtr calls_of_loop(Executor& ex, PyObject*, const CallArgs&) { return calls_so_far(ex); }

void check_node(const TensorCapture& capture, const graph::Node& node, const std::vector<Value*>& examples) {
  if (node.framework == graph::Framework::kNumpy) refuse_loop("over NumPy's functions");
  if (node.op->effects == graph::Effects::kDraws || graph::draws_random_numbers(*node.op))
    refuse_loop("over random numbers");
  if (!node.in_place) return;
  const Value* base = base_of(capture, std::get<Value*>(node.args.at(0)));
  if (std::ranges::find(examples, base) != examples.end()) refuse_loop("that writes to what it carries");
}

bool same_type(Executor& ex, const graph::TensorType& a, const graph::TensorType& b) {
  const auto same = [&](const std::vector<graph::Sym>& left, const std::vector<graph::Sym>& right) {
    return std::ranges::equal(left, right, [&](const graph::Sym& x, const graph::Sym& y) {
      return ex.graph().sym->guard_eq(x, y, kLoop);
    });
  };
  return a.dtype == b.dtype && a.device == b.device && a.rank() == b.rank() && same(a.sizes, b.sizes) &&
         same(a.strides, b.strides);
}

// The nodes from the `first`-th on belong to one turn, not to the graph.
void remove_nodes(Executor& ex, size_t first, const std::vector<Value*>& examples) {
  TensorCapture& capture = tensor_capture(ex);
  auto& nodes = ex.graph().nodes;
  const auto begin = std::next(nodes.begin(), static_cast<ptrdiff_t>(first));
  for (auto node = begin; node != nodes.end(); ++node) check_node(capture, **node, examples);
  for (const Value* example : examples) capture.of_one_example.insert(example->id);
  for (auto node = begin; node != nodes.end(); ++node)
    for (Value* result : (*node)->results) {
      capture.of_one_example.insert(result->id);
      result->node = nullptr;
    }
  nodes.erase(begin, nodes.end());
}

// The program's calls from the `first`-th on are the turn's.
PyRef take_calls(Executor& ex, Py_ssize_t first) {
  PyObject* calls = ex.user_calls();
  const Py_ssize_t end = PyList_GET_SIZE(calls);
  PyRef taken = checked(PyList_GetSlice(calls, first, end));
  if (PyList_SetSlice(calls, first, end, nullptr) < 0) throw PythonError{};
  return taken;
}

Py_ssize_t number_of(const ValuePtr& value) { return PyLong_AsSsize_t(constant_object(value)); }

// cdynamo._library.loop.Loop of the turn, and the values from outside of it that it reads.
std::pair<PyRef, std::vector<Value*>> made_loop(Executor& ex, const CallArgs& args) {
  const Py_ssize_t first = number_of(args.positional.at(3)), middle = number_of(args.positional.at(4));
  PyObject* make = find_python_side(PythonSide::kLoop);
  if (!make) {
    PyErr_Clear();
    refuse_loop("in this version of PyTorch");
  }
  const PyRef examples = encode_value(ex, args.positional.at(1)),
              condition = encode_value(ex, args.positional.at(5)),
              results = encode_value(ex, args.positional.at(6)), calls = take_calls(ex, first),
              split = checked(PyLong_FromSsize_t(middle - first));
  PyRef loop = checked(PyObject_CallFunctionObjArgs(make, calls.get(), split.get(), examples.get(),
                                                    condition.get(), results.get(), nullptr));
  if (PyUnicode_Check(loop.get())) refuse_loop(PyUnicode_AsUTF8(loop.get()));
  std::vector<Value*> outside;
  const PyRef ids = checked(PyObject_GetAttrString(loop.get(), "outside"));
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(ids.get()); ++i)
    outside.push_back(ex.graph().value(static_cast<int>(PyLong_AsLong(PyList_GET_ITEM(ids.get(), i)))));
  return {std::move(loop), std::move(outside)};
}

// end_loop(carried, examples, nodes, calls, calls of the condition too, condition, results): what is carried in the end.
ValuePtr end_loop(Executor& ex, PyObject*, const CallArgs& args) {
  ex.leave_isolated_region();
  const std::vector<Value*> carried = carried_values(ex, args.positional.at(0)),
                            examples = carried_values(ex, args.positional.at(1)),
                            results = carried_values(ex, args.positional.at(6));
  std::vector<graph::TensorType> types;
  for (size_t i = 0; i < results.size(); ++i) {
    types.push_back(carried.at(i)->type);
    if (!same_type(ex, results[i]->type, types.back())) refuse_loop("that changes dtypes, sizes or strides");
  }
  auto [loop, outside] = made_loop(ex, args);
  remove_nodes(ex, static_cast<size_t>(number_of(args.positional.at(2))), examples);
  std::vector<Value*> operands = carried;
  operands.insert(operands.end(), outside.begin(), outside.end());
  return append_autograd_call(ex, std::move(loop), operands, std::move(types));
}

constexpr SpecialRow kLoopRows[] = {
    {"cdynamo.polyfills.rules.begin_loop", begin_loop},
    {"cdynamo.polyfills.rules.calls_of_loop", calls_of_loop},
    {"cdynamo.polyfills.rules.end_loop", end_loop},
};

}  // namespace

std::span<const SpecialRow> loop_rules() { return kLoopRows; }

}  // namespace cdynamo::symbolic
