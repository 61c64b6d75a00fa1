// torch.vmap during capture. python/cdynamo/polyfills/batching.py calls the function with values that stand for one example;
// what is said here is how the nodes that it leaves become a graph of their own, an argument of the node func.vmap,
// which computes them of the whole batch (graph/passes/batching.h). jacrev, jacfwd and hessian are such batches of derivatives.
#include <algorithm>

#include "absl/container/flat_hash_set.h"
#include "graph/op.h"
#include "symbolic/capture/executor_state.h"
#include "symbolic/capture/value_factories.h"
#include "symbolic/torch/backward_graph.h"
#include "symbolic/torch/callables.h"
#include "symbolic/torch/tensor.h"
#include "symbolic/values/value_tools.h"

namespace cdynamo::symbolic {
namespace {

using graph::Value;

constexpr const char* kRegion = "torch.vmap";

[[noreturn]] void refuse_vmap(const char* why) { break_graph("CD0404", std::string("torch.vmap ") + why); }

std::vector<Value*> batched_values(Executor& ex, const ValuePtr& tuple) {
  std::vector<Value*> values;
  for (const ValuePtr& item : items_of(ex, tuple)) {
    Value* value = dynamic_cast<TensorValue*>(item.get()) ? graph_value(item) : nullptr;
    if (!value) refuse_vmap("of what is no tensor of the graph");
    values.push_back(value);
  }
  return values;
}

// What a call changes while it lasts.
class VmapScope {
 public:
  explicit VmapScope(Executor& ex) : ex_(ex), capture_(torch_capture(ex)) {}
  ~VmapScope() {
    while (ex_.state().isolated_regions.size() > regions_before_) ex_.leave_isolated_region();
    capture_.batches.resize(batches_before_);
  }

 private:
  Executor& ex_;
  TensorCapture& capture_;
  const size_t regions_before_ = ex_.state().isolated_regions.size(),
               batches_before_ = capture_.batches.size();
};

// One call of the user's; backends in Python could not call what it is given.
template <const char* name>
ValuePtr call(Executor& ex, PyObject* callable, const CallArgs& args) {
  if (!ex.state().request.is_native) refuse_vmap("for a backend in Python");
  return recorded_call(ex, "call_function", PyRef::borrow(callable), args, [&]() -> ValuePtr {
    const VmapScope scope(ex);
    try {
      return polyfill(ex, PythonSide::kTorchPolyfills, name)->call(ex, args);
    } catch (const PythonRaise&) {
      refuse_vmap("of a function that raises");
    }
  });
}

// enter_batch(): what follows is computed of one example, until stop_batch().
ValuePtr enter_batch(Executor& ex, PyObject*, const CallArgs&) {
  ex.enter_isolated_region(kRegion, ex.isolated_region() ? ex.isolated_region()->region : 0);
  ex.state().isolated_regions.back().may_write_objects = true;  // eager calls the function once, too
  const graph::Graph& graph = ex.graph();
  tensor_capture(ex).batches.push_back({graph.nodes.size(), 0, graph.next_value_id(), {}});
  return ex.none();
}

Value* add_example(Executor& ex, graph::TensorType type, bool requires_grad) {
  TensorCapture& capture = tensor_capture(ex);
  Value* example = ex.graph().new_value(nullptr, -1, std::move(type));
  example->name = "example_" + std::to_string(example->id);
  example->requires_grad = requires_grad;
  capture.batches.back().examples.push_back(example);
  return example;
}

// example_of(tensor): one of the batch along its first dim.
ValuePtr example_of(Executor& ex, PyObject*, const CallArgs& args) {
  const Value* batch = batched_values(ex, make_tuple(ex, {args.positional.at(0)})).at(0);
  graph::TensorType type = batch->type;
  type.sizes.erase(type.sizes.begin());
  type.strides.erase(type.strides.begin());
  return make_tensor(ex, add_example(ex, std::move(type), batch->requires_grad));
}

// example_like(tensor): one of a batch of such tensors, which is made later.
ValuePtr example_like(Executor& ex, PyObject*, const CallArgs& args) {
  graph::TensorType type = batched_values(ex, make_tuple(ex, {args.positional.at(0)})).at(0)->type;
  type.strides = graph::contiguous_strides(type.sizes);
  return make_tensor(ex, add_example(ex, std::move(type), false));
}

ValuePtr stop_batch(Executor& ex, PyObject*, const CallArgs&) {
  tensor_capture(ex).batches.back().end_node = ex.graph().nodes.size();
  ex.leave_isolated_region();
  return ex.none();
}

// place_of(tensor, among): which of these it is; None: none.
ValuePtr place_of(Executor& ex, PyObject*, const CallArgs& args) {
  const Value* value = graph_value(args.positional.at(0));
  const std::vector<ValuePtr> among = items_of(ex, args.positional.at(1));
  const auto found = std::ranges::find_if(
      among, [&](const ValuePtr& other) { return value && graph_value(other) == value; });
  return found == among.end() ? ex.none()
                              : ex.constant(PyRef::steal(PyLong_FromLongLong(found - among.begin())));
}

bool is_aten(const graph::Node& node) {
  return graph::Args(node.op->parsed[node.overload], node.args).string("name").starts_with("aten::");
}

// Where eager refuses, or gives something else than new tensors.
class Checker {
 public:
  Checker(const TensorCapture& capture, const TensorCapture::Batch& batch)
      : capture_(capture), batch_(batch) {
    varying_.insert(batch.examples.begin(), batch.examples.end());
  }

  void check(graph::Node& node) {
    if (node.op->family == graph::Family::kLibrary && !is_aten(node))
      refuse_vmap("of what is not in the operator table, and no operator of PyTorch's own");
    if (node.framework == graph::Framework::kNumpy || node.op->name == "from_numpy")
      refuse_vmap("of NumPy's functions");
    if (node.op->effects == graph::Effects::kDraws || node.op->family == graph::Family::kRandom)
      refuse_vmap("of random numbers");
    bool any = false;
    graph::for_each_operand(node, [&](Value*& operand) { any |= varies(operand); });
    if (node.in_place) {
      const Value* base = base_of(capture_, std::get<Value*>(node.args.at(0)));
      if (std::ranges::find(batch_.examples, base) != batch_.examples.end())
        refuse_vmap("of a function that writes to its argument");
      if (any && !varying_.contains(base)) refuse_vmap("that writes a batch to what is none");
    }
    if (any) varying_.insert(node.results.begin(), node.results.end());
  }
  // Eager expands what does not vary: each example has the same memory.
  void check_output(const Value* output, bool varies_in_eager) const {
    if (varies_in_eager && !varies(output)) refuse_vmap("that gives what is the same for all");
    const Value* base = base_of(capture_, output);
    const bool is_example = std::ranges::find(batch_.examples, base) != batch_.examples.end();
    if (is_example || base->id < batch_.first_value)
      refuse_vmap("that gives a view of what is there already");
  }

 private:
  bool varies(const Value* value) const {
    return varying_.contains(value) || varying_.contains(base_of(capture_, value));
  }

  const TensorCapture& capture_;
  const TensorCapture::Batch& batch_;
  absl::flat_hash_set<const Value*> varying_;
};

// The rules of graph/passes/batching.cpp, tried while the graph can still break.
void try_to_batch(Executor& ex, const std::vector<graph::Arg>& args) {
  graph::Graph scratch(ex.graph().sym);
  scratch.framework = ex.graph().framework;
  scratch.torch_float = ex.graph().torch_float;
  graph::Builder builder(scratch, graph::Level::kCore);
  std::vector<graph::Arg> given = args;
  for (graph::Arg& arg : given)
    if (auto* values = std::get_if<std::vector<Value*>>(&arg))
      for (Value*& value : *values) value = scratch.add_input(value->type, value->name);
  try {
    builder.call(graph::op("func.vmap"), 0, std::move(given));
  } catch (const graph::Unsupported& error) {
    break_graph("CD0404", "torch.vmap: " + error.message);
  } catch (const graph::UserError& error) {
    break_graph("CD0403", "torch.vmap: " + error.message);
  }
}

// leave_batch(tensors, outputs, all_vary): what `outputs`, of one example, are for all; `tensors`: the batches of the
// examples.
ValuePtr leave_batch(Executor& ex, PyObject*, const CallArgs& args) {
  TensorCapture& capture = tensor_capture(ex);
  const std::vector<Value*> batched = batched_values(ex, args.positional.at(0)),
                            outputs = batched_values(ex, args.positional.at(1));
  const TensorCapture::Batch batch = std::move(capture.batches.back());
  capture.batches.pop_back();
  if (batched.size() != batch.examples.size()) refuse_vmap("of another number of examples");
  auto node = std::next(ex.graph().nodes.begin(), static_cast<ptrdiff_t>(batch.first_node));
  Checker checker(capture, batch);
  for (const Value* example : batch.examples) capture.of_one_example.insert(example->id);
  for (size_t i = batch.first_node; i < batch.end_node; ++i, ++node) {
    checker.check(**node);
    for (const Value* result : (*node)->results) capture.of_one_example.insert(result->id);
  }
  const bool all_vary = constant_object(args.positional.at(2)) == Py_True;
  for (const Value* output : outputs) checker.check_output(output, all_vary);
  std::vector<bool> requires_grad;
  for (const Value* output : outputs) requires_grad.push_back(output->requires_grad);
  BackwardGraph body = take_nodes(ex.graph(), batch.first_node, batch.end_node, {batch.examples, {}, outputs},
                                  ex.state().user_call);
  if (outputs.empty()) return make_tuple(ex, {});
  std::vector<graph::Arg> given{std::move(body.graph), batched, std::move(body.saved)};
  try_to_batch(ex, given);
  const std::vector<Value*> results =
      append_call(ex, graph::op("func.vmap"), {.overload = 0, .args = std::move(given)});
  std::vector<ValuePtr> tensors;
  for (size_t i = 0; i < results.size(); ++i) {
    results[i]->requires_grad = results[i]->requires_grad && requires_grad[i];
    tensors.push_back(make_tensor(ex, results[i]));
  }
  return make_tuple(ex, std::move(tensors));
}

constexpr char kVmap[] = "func_vmap", kJacrev[] = "jacrev_call", kJacfwd[] = "jacfwd_call";

constexpr SpecialRow kVmapRows[] = {
    {"torch._functorch.vmap.vmap_impl", call<kVmap>},
    {"cdynamo.polyfills.rules.called_jacrev", call<kJacrev>},
    {"cdynamo.polyfills.rules.called_jacfwd", call<kJacfwd>},
    {"cdynamo.polyfills.rules.enter_batch", enter_batch},
    {"cdynamo.polyfills.rules.example_of", example_of},
    {"cdynamo.polyfills.rules.example_like", example_like},
    {"cdynamo.polyfills.rules.place_of", place_of},
    {"cdynamo.polyfills.rules.stop_batch", stop_batch},
    {"cdynamo.polyfills.rules.leave_batch", leave_batch},
};

}  // namespace

std::span<const SpecialRow> vmap_rules() { return kVmapRows; }

}  // namespace cdynamo::symbolic
