#include "frame_eval/execution/training_function.h"

#include <algorithm>
#include <functional>
#include <numeric>

#include "frame_eval/execution/executable_call.h"
#include "frame_eval/execution/training_saved.h"
#include "frame_eval/reports/graph_description.h"
#include "graph/autograd/autograd.h"
#include "graph/op.h"
#include "graph/passes.h"
#include "graph/strides.h"
#include "runtime/host/arena.h"
#include "symbolic/interop/grad_mode.h"
#include "symbolic/interop/python_side.h"
#include "symbolic/interop/tensor_access.h"
#include "symbolic/torch/library_call.h"

namespace cdynamo::frame_eval {

using symbolic::grad_mode_is_enabled;
using symbolic::python_side;
using symbolic::PythonSide;
namespace {

using graph::Gradient;
using graph::Graph;
using graph::SavedValue;

// The obstacle to reading it, or empty.
std::string read_plain(PyObject* tensor, runtime::TensorView& view) {
  symbolic::TensorInfo info;
  if (!symbolic::read_tensor(tensor, &info)) return "what is no tensor";
  if (info.obstacle.empty()) view = info.view;
  return info.obstacle;
}

bool read_view(PyObject* tensor, runtime::TensorView& view) {
  const std::string obstacle = read_plain(tensor, view);
  if (!obstacle.empty()) raise(PyExc_RuntimeError, "a compiled backward got " + obstacle);
  return obstacle.empty();
}

std::vector<int64_t> evaluate(const graph::SymContext& sym, const std::vector<graph::Sym>& extents,
                              const std::vector<int64_t>& symbols) {
  std::vector<int64_t> values;
  for (const graph::Sym& extent : extents) values.push_back(sym.evaluate(extent, symbols.data()));
  return values;
}

// {name: value}
PyRef symbol_values(const graph::SymContext& sym, const std::vector<int64_t>& symbols) {
  PyRef values = symbolic::checked(PyDict_New());
  for (size_t i = 0; i < std::min(symbols.size(), sym.symbols().size()); ++i) {
    const PyRef value = symbolic::checked(PyLong_FromLongLong(symbols[i]));
    if (PyDict_SetItemString(values.get(), sym.symbols()[i].name.c_str(), value.get()) < 0)
      throw symbolic::PythonError{};
  }
  return values;
}

// Whether compiled code that was made for this type may read the tensor.
bool is_of_type(PyObject* tensor, const graph::TensorType& type, const graph::SymContext& sym,
                const std::vector<int64_t>& symbols) {
  runtime::TensorView view;
  if (!read_plain(tensor, view).empty() || view.dtype != type.dtype || view.rank != type.rank()) return false;
  const std::vector<int64_t> sizes = evaluate(sym, type.sizes, symbols),
                             strides = evaluate(sym, type.strides, symbols);
  for (int d = 0; d < view.rank; ++d)
    if (view.sizes[d] != sizes[d] || (sizes[d] > 1 && view.strides[d] != strides[d])) return false;
  return true;
}

// The tensor with these strides (dense), by operations that autograd follows.
PyRef with_strides(PyObject* tensor, const std::vector<int64_t>& strides) {
  std::vector<size_t> order(strides.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return strides[a] > strides[b]; });
  PyRef forwards = PyRef::steal(PyTuple_New(order.size())), back = PyRef::steal(PyTuple_New(order.size()));
  if (!forwards || !back) return {};
  for (size_t i = 0; i < order.size(); ++i) {
    PyTuple_SET_ITEM(forwards.get(), i, PyLong_FromSize_t(order[i]));
    PyTuple_SET_ITEM(back.get(), order[i], PyLong_FromSize_t(i));
  }
  PyRef turned = PyRef::steal(PyObject_CallMethod(tensor, "permute", "(O)", forwards.get()));
  if (turned) turned = PyRef::steal(PyObject_CallMethod(turned.get(), "contiguous", nullptr));
  return turned ? PyRef::steal(PyObject_CallMethod(turned.get(), "permute", "(O)", back.get())) : PyRef();
}

graph::History freed_history(const Graph& function, const std::vector<bool>& input_wanted,
                             const std::vector<bool>& output_freed) {
  graph::History freed;
  for (size_t i = 0; i < output_freed.size(); ++i)
    if (output_freed[i]) freed.outputs.push_back(static_cast<int>(i));
  if (freed.outputs.empty()) return freed;
  const std::vector<bool> behind = graph::inputs_behind(function, output_freed);
  for (size_t i = 0; i < input_wanted.size(); ++i)
    if (input_wanted[i] && behind[i]) freed.inputs.push_back(static_cast<int>(i));
  return freed;
}

}  // namespace

std::shared_ptr<TrainingFunction> TrainingFunction::make(
    std::unique_ptr<Graph> function, std::vector<bool> input_wanted, std::vector<bool> output_differentiable,
    std::vector<bool> input_has_history, const graph::PartitionOptions& options, CompileFn compile,
    const std::vector<bool>& output_freed) {
  auto made = std::make_shared<TrainingFunction>();
  made->freed_ = freed_history(*function, input_wanted, output_freed);
  for (int output : made->freed_.outputs) output_differentiable[output] = false;
  made->options_ = options;
  made->compile_ = std::move(compile);
  // The engine goes on from a node to all that it has edges to: there are none to what only came in.
  // Where no gradient flows at all the results have a history all the same.
  std::vector<bool> behind = graph::inputs_behind(*function, output_differentiable);
  if (std::ranges::none_of(behind, std::identity())) behind.assign(behind.size(), true);
  for (size_t i = 0; i < input_wanted.size(); ++i) input_wanted[i] = input_wanted[i] && behind[i];
  made->plan_ = graph::make_training(std::move(function), std::move(input_wanted),
                                     std::move(output_differentiable), options);
  made->plan_.input_has_history = std::move(input_has_history);
  made->group_of_output_ = graph::output_groups(made->plan_);
  made->overwritten_ = graph::overwritten_inputs(made->plan_);
  made->forward_ = made->compile_("forward", *made->plan_.forward);
  made->make_parts();
  made->known_guards_ = made->plan_.function->sym->guards().size();
  return made;
}

// Backwards are compiled now, while what they assume of sizes can still become guards.
void TrainingFunction::make_parts() {
  const size_t saved = plan_.saved.size();
  Mask is_read(saved);  // by the backward of any part
  std::vector<Mask> reads;
  for (graph::History& history : graph::histories(plan_)) {
    if (history.outputs.empty() && !freed_.outputs.empty()) continue;
    NodePart part{.history = std::move(history)};
    Mask outputs(plan_.output_differentiable.size()), inputs(plan_.input_wanted.size());
    for (int output : part.history.outputs) outputs[output] = true;
    for (int input : part.history.inputs) inputs[input] = true;
    reads.push_back(backward_of(outputs, inputs).reads);
    for (size_t i = 0; i < saved; ++i) is_read[i] = is_read[i] || reads.back()[i];
    parts_.push_back(std::move(part));
  }
  int groups = 0;
  for (int group : group_of_output_) groups = std::max(groups, group + 1);
  for (size_t i = 0; i < parts_.size(); ++i) {
    NodePart& part = parts_[i];
    // What only higher derivatives read is kept by each.
    for (size_t k = 0; k < saved; ++k)
      if (reads[i][k] || !is_read[k]) part.saved.push_back(static_cast<int>(k));
    part.saves_input.resize(plan_.function->inputs.size());
    for (int index : part.saved)
      if (plan_.saved[index].kind == SavedValue::kInput) part.saves_input[plan_.saved[index].index] = true;
    part.elsewhere.assign(groups, true);
    bool is_free = false;  // an output whose gradients meet nothing that is saved
    for (int output : part.history.outputs) {
      const int group = group_of_output_[output];
      if (group >= 0) part.elsewhere[group] = false;
      is_free |= group < 0;
    }
    const auto own = std::ranges::count(part.elsewhere, false);
    part.is_one_group = own == 1 && !is_free;
    part.frees_nothing = own == 0;
    part.saves_nothing = part.frees_nothing && part.saved.empty();
  }
}

PyRef TrainingFunction::backward(int history, PyObject* node, const Mask& needed, ForwardCall& forward,
                                 PyObject* const* cotangents, Py_ssize_t count) {
  const NodePart& part = parts_[history];
  const std::vector<int64_t>& symbols = forward.symbols;
  if (needed.size() != part.history.inputs.size()) {
    if (PyErr_Occurred()) return {};
    return raise(PyExc_SystemError, "an autograd node has another number of inputs");
  }
  const Mask gradients = wanted_gradients(part, needed);
  Cotangents incoming;
  if (!read_cotangents(part, cotangents, count, symbols, incoming)) return {};
  if (incoming.tensors.empty()) return passed_by(part, node, forward);
  const bool is_compiled = incoming.are_plain && !grad_mode_is_enabled();
  CompiledBackward* compiled =
      is_compiled ? &backward_for(part, incoming.defined, gradients, symbols) : nullptr;
  PyObject* const filler = incoming.tensors.at(0).get();
  if (compiled && compiled->may_repeat) {  // and frees nothing
    const bool kept = part.saves_nothing ? release(part, node, nullptr, forward, incoming.defined)
                                         : keep_all(part, node, forward);
    PyRef none = kept ? all_saved(part, nullptr, filler) : PyRef();
    return none ? run(part, *compiled, std::move(none), incoming, symbols) : PyRef();
  }
  for (size_t i = 0; !forward.freed.empty() && i < incoming.defined.size(); ++i)
    if (incoming.defined[i] && group_of_output_[i] >= 0 && forward.freed[group_of_output_[i]])
      return raise_second_time();
  // Read in any case: raises where they were freed, or written to since.
  PyRef saved = read_saved(part, node, forward, compiled ? &compiled->reads : nullptr);
  if (!saved) return {};
  PyRef all = all_saved(part, saved.get(), filler);
  if (!all) return {};
  if (!incoming.are_plain) return run_in_python(part, node, all.get(), gradients, incoming, forward);
  if (!compiled) return run_differentiably(part, node, all.get(), gradients, incoming, forward);
  if (!release(part, node, saved.get(), forward, incoming.defined)) return {};
  saved = PyRef();
  return run(part, *compiled, std::move(all), incoming, symbols);
}

TrainingFunction::Mask TrainingFunction::wanted_gradients(const NodePart& part,
                                                          const std::vector<bool>& needed) const {
  Mask gradients(plan_.input_wanted.size());
  for (size_t i = 0; i < needed.size(); ++i) gradients[part.history.inputs[i]] = needed[i];
  return gradients;
}

bool TrainingFunction::read_cotangents(const NodePart& part, PyObject* const* cotangents, Py_ssize_t count,
                                       const std::vector<int64_t>& symbols, Cotangents& result) const {
  if (count != static_cast<Py_ssize_t>(part.history.outputs.size())) {
    raise(PyExc_SystemError, "an autograd node got another number of gradients than it has outputs");
    return false;
  }
  result.defined.assign(plan_.output_differentiable.size(), false);
  for (Py_ssize_t i = 0; i < count; ++i) {
    if (cotangents[i] == Py_None) continue;
    const graph::TensorType& expected = plan_.function->outputs[part.history.outputs[i]]->type;
    runtime::TensorView view;
    PyRef tensor = PyRef::borrow(cotangents[i]);
    if (read_plain(cotangents[i], view).empty()) {
      const std::vector<int64_t> strides = evaluate(*plan_.function->sym, expected.strides, symbols);
      bool same = view.rank == static_cast<int>(strides.size());
      for (int d = 0; same && d < view.rank; ++d) same = view.strides[d] == strides[d];
      if (!same) tensor = with_strides(cotangents[i], strides);
      if (!tensor) return false;
    } else {
      result.are_plain = false;
    }
    result.defined[part.history.outputs[i]] = true;
    result.tensors.push_back(std::move(tensor));
  }
  return true;
}

TrainingFunction::CompiledBackward& TrainingFunction::backward_of(const Mask& cotangents,
                                                                  const Mask& gradients) {
  const std::pair<Mask, Mask> masks(cotangents, gradients);
  if (const auto known = backwards_.find(masks); known != backwards_.end()) return known->second;
  // Logs call Python while it is compiled: another thread, which may need the same one, does not find half of it.
  CompiledBackward made{
      .plan = graph::make_backward(plan_, cotangents, gradients), .executable = nullptr, .reads = {}};
  std::vector<bool> read(made.plan.graph->next_value_id());
  for (const auto& node : made.plan.graph->nodes)
    graph::for_each_operand(*node, [&](graph::Value*& operand) { read[operand->id] = true; });
  for (const graph::Value* output : made.plan.graph->outputs) read[output->id] = true;
  for (size_t i = 0; i < plan_.saved.size(); ++i) made.reads.push_back(read[made.plan.graph->inputs[i]->id]);
  made.may_repeat = std::ranges::none_of(made.reads, std::identity()) &&
                    !graph::saves_on_the_way(plan_, cotangents, gradients);
  made.executable = compile_("backward", *made.plan.graph);
  made.num_guards = plan_.function->sym->guards().size();
  return backwards_.try_emplace(masks, std::move(made)).first->second;
}

// The one for all gradients was compiled with the forward. One for some is compiled late, and may assume more of the sizes than
// the guards of its forward did.
TrainingFunction::CompiledBackward& TrainingFunction::backward_for(const NodePart& part,
                                                                   const Mask& cotangents,
                                                                   const Mask& gradients,
                                                                   const std::vector<int64_t>& symbols) {
  CompiledBackward& some = backward_of(cotangents, gradients);
  if (failed_guard(some.num_guards, symbols).empty()) return some;
  Mask all(gradients.size(), false);
  for (int input : part.history.inputs) all[input] = true;
  CompiledBackward& whole = backward_of(cotangents, all);
  check_guards(whole.num_guards, symbols);
  return whole;
}

// What the sizes' context has come to assume since the forward was compiled, up to that many guards, and these sizes do not
// meet; empty: nothing.
std::string TrainingFunction::failed_guard(size_t num_guards, const std::vector<int64_t>& symbols) const {
  const graph::SymContext& sym = *plan_.function->sym;
  for (size_t i = known_guards_; !symbols.empty() && i < num_guards; ++i)
    if (!graph::holds(sym, sym.guards()[i], symbols.data())) return sym.guards()[i].reason;
  return {};
}

void TrainingFunction::check_guards(size_t num_guards, const std::vector<int64_t>& symbols) const {
  const std::string failed = failed_guard(num_guards, symbols);
  if (!failed.empty()) throw graph::Unsupported("the backward of these sizes: " + failed);
}

PyRef TrainingFunction::run(const NodePart& part, CompiledBackward& compiled, PyRef saved,
                            const Cotangents& cotangents, const std::vector<int64_t>& symbols) const {
  std::vector<PyRef> inputs;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(saved.get()); ++i)
    inputs.push_back(PyRef::borrow(PyTuple_GET_ITEM(saved.get(), i)));
  saved = PyRef();
  for (const PyRef& cotangent : cotangents.tensors) inputs.push_back(cotangent);
  std::vector<runtime::TensorView> views(inputs.size());
  for (size_t i = 0; i < inputs.size(); ++i)
    if (!read_view(inputs[i].get(), views[i])) return {};
  const std::vector<PyRef> fresh =
      execute_releasing(*compiled.executable, std::move(inputs), views, symbols.data());
  if (fresh.size() != compiled.executable->outputs.size() || PyErr_Occurred()) return {};

  PyRef result = PyRef::steal(PyTuple_New(static_cast<Py_ssize_t>(part.history.inputs.size())));
  if (!result) return {};
  std::vector<int> position(plan_.output_differentiable.size(), -1);  // of a cotangent among those defined
  for (size_t i = 0, next = 0; i < position.size(); ++i)
    if (cotangents.defined[i]) position[i] = static_cast<int>(next++);
  const graph::SymContext& sym = *plan_.function->sym;
  for (size_t i = 0; i < part.history.inputs.size(); ++i) {
    const Gradient& gradient = compiled.plan.gradients[part.history.inputs[i]];
    PyRef tensor = PyRef::borrow(Py_None);
    if (gradient.kind == Gradient::kFresh)
      tensor = fresh[gradient.index];
    else if (gradient.kind == Gradient::kCotangent)
      tensor = cotangents.tensors[position[gradient.index]];
    if (gradient.is_view && gradient.kind != Gradient::kNone) {
      const std::vector<int64_t> sizes = evaluate(sym, gradient.sizes, symbols),
                                 strides = evaluate(sym, gradient.strides, symbols);
      tensor = symbolic::as_strided_view(tensor.get(), sizes.data(), strides.data(),
                                         static_cast<int>(sizes.size()),
                                         sym.evaluate(gradient.offset, symbols.data()));
      if (!tensor) return {};
    }
    PyTuple_SET_ITEM(result.get(), i, tensor.release());
  }
  return result;
}

// Higher derivatives and gradients of tensors that are not plain are computed from the inputs again.
bool TrainingFunction::read_inputs_again(PyObject* node, PyObject* saved, const std::vector<int>& draws,
                                         const std::vector<bool>& reads, const Cotangents& cotangents,
                                         const ForwardCall& forward, std::vector<PyRef>& inputs) const {
  PyRef kept = kept_by(node);
  if (!kept) return false;
  if (kept.get() == Py_None) {
    raise_second_time();
    return false;
  }
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(kept.get()); ++i) {
    inputs.push_back(PyRef::borrow(PyTuple_GET_ITEM(kept.get(), i)));
    if (reads[i] && !is_of_type(inputs.back().get(), plan_.function->inputs[i]->type, *plan_.function->sym,
                                forward.symbols)) {
      raise(PyExc_RuntimeError,
            "an input of a compiled function, which create_graph=True reads again, has another dtype, shape "
            "or layout now");
      return false;
    }
    if (!reads[i] || forward.versions[i] < 0 || version_of(inputs.back().get()) == forward.versions[i])
      continue;
    raise(PyExc_RuntimeError,
          "one of the variables needed for gradient computation has been modified by an inplace operation: "
          "an input of a compiled function, which create_graph=True reads again");
    return false;
  }
  inputs.insert(inputs.end(), cotangents.tensors.begin(), cotangents.tensors.end());
  for (int draw : draws) inputs.push_back(PyRef::borrow(PyTuple_GET_ITEM(saved, draw)));
  return true;
}

// The node's results from tensors that are gradients of these inputs of the function.
PyRef TrainingFunction::gradient_tuple(const NodePart& part, const std::vector<int>& inputs,
                                       PyObject* const* tensors) const {
  std::vector<PyObject*> by_input(plan_.input_wanted.size(), Py_None);
  for (size_t i = 0; i < inputs.size(); ++i) by_input[inputs[i]] = tensors[i];
  PyRef result = PyRef::steal(PyTuple_New(static_cast<Py_ssize_t>(part.history.inputs.size())));
  for (size_t i = 0; result && i < part.history.inputs.size(); ++i)
    PyTuple_SET_ITEM(result.get(), i, Py_NewRef(by_input[part.history.inputs[i]]));
  return result;
}

PyRef TrainingFunction::run_in_python(const NodePart& part, PyObject* node, PyObject* saved,
                                      const Mask& gradients, const Cotangents& cotangents,
                                      const ForwardCall& forward) {
  const graph::GradientFunction function =
      graph::make_gradient_function(plan_, cotangents.defined, gradients);
  check_guards(plan_.function->sym->guards().size(), forward.symbols);
  std::vector<PyRef> inputs;
  if (!read_inputs_again(node, saved, function.draws, function.reads, cotangents, forward, inputs)) return {};
  if (!grad_mode_is_enabled()) graph::remove_detach(*function.graph);
  PyRef list = symbolic::checked(PyList_New(0));
  for (const PyRef& input : inputs) append(list, input);
  PyRef description = describe_core(
      *function.graph, static_cast<const symbolic::LibraryCalls*>(forward_->library_context.get()));
  PyRef graph = symbolic::checked(PyObject_CallOneArg(python_side(PythonSide::kGraph), description.get()));
  const PyRef sizes = symbol_values(*plan_.function->sym, forward.symbols);
  PyRef outputs = symbolic::checked(PyObject_CallMethod(graph.get(), "run", "OO", list.get(), sizes.get()));
  return gradient_tuple(part, function.outputs, PySequence_Fast_ITEMS(outputs.get()));
}

TrainingFunction::GradientGraph& TrainingFunction::gradient_graph(const Mask& cotangents,
                                                                  const Mask& gradients,
                                                                  const std::vector<int64_t>& symbols) {
  const std::pair<Mask, Mask> masks(cotangents, gradients);
  if (const auto known = gradient_graphs_.find(masks); known != gradient_graphs_.end()) {
    check_guards(known->second.num_guards, symbols);
    return known->second;
  }
  graph::GradientFunction function = graph::make_gradient_function(plan_, cotangents, gradients);
  std::vector<bool> wanted = plan_.input_wanted;
  wanted.resize(function.graph->inputs.size() - function.draws.size(), true);
  wanted.resize(function.graph->inputs.size(), false);
  std::vector<bool> differentiable(function.graph->outputs.size(), true);
  GradientGraph made{
      .function = nullptr, .draws = function.draws, .outputs = function.outputs, .reads = function.reads};
  made.function =
      make(std::move(function.graph), std::move(wanted), std::move(differentiable), {}, options_, compile_);
  made.num_guards = plan_.function->sym->guards().size();
  check_guards(made.num_guards, symbols);
  return gradient_graphs_.try_emplace(masks, std::move(made)).first->second;
}

PyRef TrainingFunction::run_differentiably(const NodePart& part, PyObject* node, PyObject* saved,
                                           const Mask& gradients, const Cotangents& cotangents,
                                           const ForwardCall& forward) {
  const std::vector<int64_t>& symbols = forward.symbols;
  GradientGraph* found = nullptr;
  try {
    found = &gradient_graph(cotangents.defined, gradients, symbols);
  } catch (const graph::NoDerivative&) {
    return run_in_python(part, node, saved, gradients, cotangents,
                         forward);  // PyTorch differentiates it again
  }
  GradientGraph& compiled = *found;
  std::vector<PyRef> held_inputs;
  if (!read_inputs_again(node, saved, compiled.draws, compiled.reads, cotangents, forward, held_inputs))
    return {};
  std::vector<PyObject*> inputs, gradient_tensors;
  for (const PyRef& input : held_inputs) inputs.push_back(input.get());
  const std::shared_ptr<TrainingFunction> held = compiled.function;
  std::vector<PyRef> outputs;
  if (!held->call(inputs, symbols, outputs)) return {};
  for (const PyRef& output : outputs) gradient_tensors.push_back(output.get());
  gradient_tensors.resize(compiled.outputs.size());  // without what its own backward saves
  PyRef result = gradient_tuple(part, compiled.outputs, gradient_tensors.data());
  if (!result || !plan_.once_differentiable) return result;
  return PyRef::steal(PyObject_CallOneArg(python_side(PythonSide::kOnceDifferentiable), result.get()));
}

bool TrainingFunction::call(const std::vector<PyObject*>& inputs, const std::vector<int64_t>& symbols,
                            std::vector<PyRef>& outputs) {
  std::vector<runtime::TensorView> views(inputs.size());
  for (size_t i = 0; i < inputs.size(); ++i)
    if (!read_view(inputs[i], views[i])) return false;
  std::vector<void*> data(forward_->outputs.size());
  for (size_t i = 0; i < data.size(); ++i) {
    outputs.push_back(make_output(forward_->outputs[i], symbols.data(), &data[i]));
    if (!outputs.back()) return false;
  }
  std::vector<int64_t> read = symbols;  // once more, from the same tensors
  runtime::Call call{.inputs = views.data(), .symbols = read.data(), .outputs = data.data()};
  if (forward_->reads_symbols) call.read_symbols = read.data();
  const runtime::FrugalArenas frugal(true);
  return execute(*forward_, call, inputs) && attach(inputs.data(), symbols, outputs);
}

}  // namespace cdynamo::frame_eval
