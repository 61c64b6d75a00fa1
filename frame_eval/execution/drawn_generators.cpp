#include "frame_eval/execution/drawn_generators.h"

#include <algorithm>

#include "graph/op.h"
#include "graph/ops/random.h"
#include "symbolic/interop/loaded_object.h"

namespace cdynamo::frame_eval {
namespace {

using symbolic::checked;

// The generator that draws on a device use.
PyRef generator_of(runtime::Device device) {
  if (device.type == runtime::DeviceType::kCPU)
    return PyRef::borrow(symbolic::library_object("torch", "default_generator"));
  PyObject* all = symbolic::library_object("torch.cuda", "default_generators");
  return checked(PySequence_GetItem(all, device.index));
}

template <typename T>
void add(std::vector<T>& list, const T& item) {
  if (std::ranges::find(list, item) == list.end()) list.push_back(item);
}

}  // namespace

DrawnGenerators::DrawnGenerators(const graph::Graph& graph) {
  for (const auto& node : graph.nodes) {
    if (!graph::draws_random_numbers(*node->op)) continue;
    const graph::Args args(node->op->parsed[node->overload], node->args);
    const bool has_own = args.schema().find("generator") >= 0 && args.has("generator");
    if (!has_own) {
      add(devices_, node->results[0]->type.device);
      continue;
    }
    const auto input = std::ranges::find(graph.inputs, args.value("generator"));
    if (input == graph.inputs.end()) throw graph::InternalError("a generator that is no input of the graph");
    add(inputs_, static_cast<int>(input - graph.inputs.begin()));
  }
}

DrawnGenerators::Saved DrawnGenerators::save(const std::vector<PyObject*>& inputs) const {
  Saved saved;
  const auto save_one = [&](PyRef generator) {
    PyRef state = checked(PyObject_CallMethod(generator.get(), "get_state", nullptr));
    saved.states_.emplace_back(std::move(generator), std::move(state));
  };
  for (const runtime::Device device : devices_) save_one(generator_of(device));
  for (const int input : inputs_) save_one(PyRef::borrow(inputs[input]));
  return saved;
}

void DrawnGenerators::Saved::put_back() const {
  for (const auto& [generator, state] : states_)
    checked(PyObject_CallMethod(generator.get(), "set_state", "O", state.get()));
}

}  // namespace cdynamo::frame_eval
