#include "frame_eval/execution/training_function.h"

#include <algorithm>
#include <functional>
#include <numeric>

#include "frame_eval/execution/executable_call.h"
#include "frame_eval/reports/graph_description.h"
#include "graph/autograd/autograd.h"
#include "graph/autograd/eager_graph.h"
#include "graph/op.h"
#include "graph/passes.h"
#include "graph/strides.h"
#include "runtime/host/arena.h"
#include "symbolic/interop/python_side.h"
#include "symbolic/interop/tensor_access.h"
#include "symbolic/torch/library_call.h"

namespace cdynamo::frame_eval {

using symbolic::python_side;
using symbolic::PythonSide;
namespace {

using graph::Gradient;
using graph::Graph;
using graph::SavedValue;

class State : public NodeState {
 public:
  State(std::shared_ptr<TrainingFunction> function, TrainingFunction::ForwardCall forward)
      : function_(std::move(function)), forward_(std::move(forward)) {}
  PyRef backward(PyObject* node, PyObject* const* cotangents, Py_ssize_t count) override {
    return function_->backward(node, forward_, cotangents, count);
  }

 private:
  std::shared_ptr<TrainingFunction> function_;
  TrainingFunction::ForwardCall forward_;
};

PyRef raise(PyObject* type, const std::string& message) {
  PyErr_SetString(type, message.c_str());
  return {};
}

PyRef raise_second_time() {
  return raise(
      PyExc_RuntimeError,
      "Trying to backward through the graph a second time (or directly access saved tensors after they "
      "have already been freed). Saved intermediate values of the graph are freed when you call "
      ".backward() or autograd.grad(). Specify retain_graph=True if you need to backward through the "
      "graph a second time or if you need to access saved tensors after calling backward.");
}

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

// Counts the writes to a tensor; -1 where it has no such count.
int64_t version_of(PyObject* tensor) {
  static PyObject* name = PyUnicode_InternFromString("_version");
  PyRef version = PyRef::steal(PyObject_GetAttr(tensor, name));
  const int64_t value = version ? PyLong_AsLongLong(version.get()) : -1;
  if (PyErr_Occurred()) PyErr_Clear();
  return value;
}

// The tensor as it is now: where `.data` is assigned later, the original is another, and eager's operators mostly hold views.
PyRef alias_of(PyObject* tensor) {
  static PyObject* name = PyUnicode_InternFromString("detach");
  return PyRef::steal(PyObject_CallMethodNoArgs(tensor, name));
}

std::vector<int64_t> evaluate(const graph::SymContext& sym, const std::vector<graph::Sym>& extents,
                              const std::vector<int64_t>& symbols) {
  std::vector<int64_t> values;
  for (const graph::Sym& extent : extents) values.push_back(sym.evaluate(extent, symbols.data()));
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

}  // namespace

std::shared_ptr<TrainingFunction> TrainingFunction::make(std::unique_ptr<Graph> function,
                                                         std::vector<bool> input_wanted,
                                                         std::vector<bool> output_differentiable,
                                                         const graph::PartitionOptions& options,
                                                         CompileFn compile) {
  auto made = std::make_shared<TrainingFunction>();
  made->options_ = options;
  made->compile_ = std::move(compile);
  // The engine goes on from a node to all that it has edges to: there are none to what only came in.
  // Where no gradient flows at all the results have a history all the same.
  std::vector<bool> behind = graph::inputs_behind(*function, output_differentiable);
  if (std::ranges::none_of(behind, std::identity())) behind.assign(behind.size(), true);
  for (size_t i = 0; i < input_wanted.size(); ++i) {
    input_wanted[i] = input_wanted[i] && behind[i];
    if (input_wanted[i]) made->node_inputs_.push_back(static_cast<int>(i));
  }
  for (size_t i = 0; i < output_differentiable.size(); ++i)
    if (output_differentiable[i]) made->node_outputs_.push_back(static_cast<int>(i));
  made->plan_ = graph::make_training(std::move(function), std::move(input_wanted),
                                     std::move(output_differentiable), options);
  made->is_saved_.resize(made->plan_.function->inputs.size());
  for (const SavedValue& saved : made->plan_.saved)
    if (saved.kind == SavedValue::kInput) made->is_saved_[saved.index] = true;
  made->group_of_output_ = graph::output_groups(made->plan_);
  for (int group : made->group_of_output_) made->groups_ = std::max(made->groups_, group + 1);
  made->saves_nothing_ = graph::saves_nothing(made->plan_);
  made->overwritten_ = graph::overwritten_inputs(made->plan_);
  made->forward_ = made->compile_("forward", *made->plan_.forward);
  // Compiled now, while what it assumes of sizes can still become guards.
  made->backward_of(made->plan_.output_differentiable, made->plan_.input_wanted);
  made->known_guards_ = made->plan_.function->sym->guards().size();
  return made;
}

bool TrainingFunction::attach(PyObject* const* inputs, const std::vector<int64_t>& symbols,
                              std::vector<PyRef>& fresh) {
  NodeRequest request;
  ForwardCall forward{.symbols = symbols, .versions = {}};
  for (size_t i = 0; i < plan_.function->inputs.size(); ++i)
    forward.versions.push_back(is_saved_[i] ? -1 : version_of(inputs[i]));
  for (int input : node_inputs_) request.inputs.push_back(inputs[input]);
  for (int output : node_outputs_) request.outputs.push_back(fresh[output]);
  std::vector<PyRef> aliases;
  for (const SavedValue& saved : plan_.saved) {
    if (saved.kind == SavedValue::kInput) {
      aliases.push_back(alias_of(inputs[saved.index]));
      if (!aliases.back()) return false;
      request.saved.push_back(aliases.back().get());
    } else {
      request.saved.push_back(fresh[saved.index].get());
    }
  }
  if (node_outputs_.size() > 1)
    for (PyObject* saved : request.saved) forward.saved_versions.push_back(version_of(saved));
  request.state = std::make_unique<State>(shared_from_this(), std::move(forward));
  // Higher derivatives start from the inputs again.
  const size_t count = plan_.function->inputs.size();
  request.kept = PyRef::steal(PyTuple_New(static_cast<Py_ssize_t>(count)));
  if (!request.kept) return false;
  for (size_t i = 0; i < count; ++i) PyTuple_SET_ITEM(request.kept.get(), i, Py_NewRef(inputs[i]));
  if (!attach_node(request)) return false;
  for (size_t i = 0; i < node_outputs_.size(); ++i) fresh[node_outputs_[i]] = std::move(request.outputs[i]);
  return true;
}

PyRef TrainingFunction::backward(PyObject* node, ForwardCall& forward, PyObject* const* cotangents,
                                 Py_ssize_t count) {
  const std::vector<int64_t>& symbols = forward.symbols;
  const std::vector<bool> needed = needed_gradients(node);
  if (needed.size() != node_inputs_.size()) {
    if (PyErr_Occurred()) return {};
    return raise(PyExc_SystemError, "an autograd node has another number of inputs");
  }
  const Mask gradients = wanted_gradients(needed);
  Cotangents incoming;
  if (!read_cotangents(cotangents, count, symbols, incoming)) return {};
  if (incoming.tensors.empty()) return passed_by(node, forward);
  for (size_t i = 0; !forward.freed.empty() && i < incoming.defined.size(); ++i)
    if (incoming.defined[i] && group_of_output_[i] >= 0 && forward.freed[group_of_output_[i]])
      return raise_second_time();
  const bool is_compiled = incoming.are_plain && !grad_mode_is_enabled();
  CompiledBackward* compiled = is_compiled ? &backward_of(incoming.defined, gradients) : nullptr;
  if (compiled) check_guards(known_guards_, symbols);
  // Read in any case: raises where they were freed, or written to since.
  PyRef saved = read_saved(node, forward, compiled ? &compiled->reads : nullptr);
  if (!saved && compiled && may_run_again(*compiled, incoming)) {
    PyErr_Clear();
    return run(*compiled, fill_ins(incoming), incoming, symbols);
  }
  if (!saved) return {};
  if (!incoming.are_plain) return run_in_python(node, saved.get(), gradients, incoming, forward);
  if (!compiled) return run_differentiably(node, saved.get(), gradients, incoming, forward);
  if (!release(node, saved.get(), forward, incoming.defined)) return {};
  return run(*compiled, std::move(saved), incoming, symbols);
}

// The engine comes by with no gradient where a compiled function behind this one has results that do not meet; in eager's
// graph it would not come here, and frees nothing. (The engine itself lets go of what the node has saved.)
PyRef TrainingFunction::passed_by(PyObject* node, ForwardCall& forward) const {
  const int keep = keeps_graph();
  if (keep < 0) return {};
  const Mask reads(plan_.saved.size(), false);
  if (!keep && !saves_nothing_ && !forward.rest) {
    if (PyRef saved = read_saved(node, forward, &reads)) {
      if (!keep_rest(saved.get(), forward)) return {};
    } else {
      PyErr_Clear();  // it was freed, or written to: the next backward says so
    }
  }
  return gradient_tuple({}, nullptr);
}

// What eager would free after a backward from these outputs. What several outputs do not share goes when a backward
// has come from each.
bool TrainingFunction::release(PyObject* node, PyObject* saved, ForwardCall& forward,
                               const Mask& cotangents) const {
  const bool is_one = std::ranges::all_of(node_outputs_, [&](int i) { return group_of_output_[i] == 0; });
  if (is_one && !saves_nothing_ && !forward.rest) return release_saved_tensors(node);
  const int keep = keeps_graph();
  if (keep) return keep > 0;
  if (saves_nothing_) return release_kept(node);
  forward.freed.resize(groups_);
  for (size_t i = 0; i < cotangents.size(); ++i)
    if (cotangents[i] && group_of_output_[i] >= 0) forward.freed[group_of_output_[i]] = true;
  const bool all = std::find(forward.freed.begin(), forward.freed.end(), false) == forward.freed.end();
  if (all) forward.rest = PyRef();
  if (all || forward.rest) return !all || release_saved_tensors(node);
  return keep_rest(saved, forward);
}

// Eager saves nothing for these outputs, and neither do we: what other outputs have freed is not missed.
bool TrainingFunction::may_run_again(const CompiledBackward& compiled, const Cotangents& cotangents) const {
  for (size_t i = 0; i < cotangents.defined.size(); ++i)
    if (cotangents.defined[i] && group_of_output_[i] >= 0) return false;
  return std::ranges::none_of(compiled.reads, std::identity());
}

// In place of saved tensors that are not read.
PyRef TrainingFunction::fill_ins(const Cotangents& cotangents) const {
  const Py_ssize_t count = static_cast<Py_ssize_t>(plan_.saved.size());
  PyRef tensors = symbolic::checked(PyTuple_New(count));
  for (Py_ssize_t i = 0; i < count; ++i)
    PyTuple_SET_ITEM(tensors.get(), i, Py_NewRef(cotangents.tensors.at(0).get()));
  return tensors;
}

bool TrainingFunction::keep_rest(PyObject* saved, ForwardCall& forward) const {
  forward.rest = PyRef::steal(PyTuple_New(PyTuple_GET_SIZE(saved)));
  for (Py_ssize_t i = 0; forward.rest && i < PyTuple_GET_SIZE(saved); ++i) {
    // Results among them would hold the node that holds them.
    PyRef tensor = alias_of(PyTuple_GET_ITEM(saved, i));
    if (!tensor) return false;
    // What was written to before, and not read by this backward, stays stale.
    const bool is_stale = !forward.stale.empty() && forward.stale[i];
    forward.rest_versions.push_back(is_stale ? -2 : version_of(tensor.get()));
    PyTuple_SET_ITEM(forward.rest.get(), i, tensor.release());
  }
  return static_cast<bool>(forward.rest);
}

PyRef TrainingFunction::read_saved(PyObject* node, ForwardCall& forward, const Mask* reads) const {
  if (saves_nothing_) return PyRef::steal(PyTuple_New(0));
  if (!forward.rest) {
    PyRef saved = saved_tensors(node);
    return saved || !reads ? std::move(saved) : read_saved_in_part(node, forward, *reads);
  }
  for (size_t i = 0; i < forward.rest_versions.size(); ++i)
    if ((!reads || (*reads)[i]) &&
        version_of(PyTuple_GET_ITEM(forward.rest.get(), i)) != forward.rest_versions[i])
      return raise(
          PyExc_RuntimeError,
          "one of the variables needed for gradient computation has been modified by an inplace operation: "
          "what a compiled function saved for the backward of several results");
  return forward.rest;
}

// In eager each operator saves for itself, and what an operator has saved that no gradient comes to may be written to.
// Called with PyTorch's error set, which stays where something that is read was written to, or all was freed.
PyRef TrainingFunction::read_saved_in_part(PyObject* node, ForwardCall& forward, const Mask& reads) const {
  if (forward.saved_versions.empty() || !PyErr_ExceptionMatches(PyExc_RuntimeError)) return {};
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  Mask stale;
  PyRef tensors = unchecked_saved_tensors(node);
  bool usable = tensors && PyTuple_GET_SIZE(tensors.get()) == static_cast<Py_ssize_t>(reads.size());
  for (size_t i = 0; usable && i < reads.size(); ++i) {
    stale.push_back(version_of(PyTuple_GET_ITEM(tensors.get(), i)) != forward.saved_versions[i]);
    usable = !reads[i] || !stale[i];
  }
  PyErr_Clear();
  if (!usable) {
    PyErr_Restore(type, value, traceback);
    return {};
  }
  Py_XDECREF(type);
  Py_XDECREF(value);
  Py_XDECREF(traceback);
  forward.stale = std::move(stale);
  return tensors;
}

TrainingFunction::Mask TrainingFunction::wanted_gradients(const std::vector<bool>& needed) const {
  Mask gradients(plan_.input_wanted.size());
  for (size_t i = 0; i < needed.size(); ++i) gradients[node_inputs_[i]] = needed[i];
  return gradients;
}

bool TrainingFunction::read_cotangents(PyObject* const* cotangents, Py_ssize_t count,
                                       const std::vector<int64_t>& symbols, Cotangents& result) const {
  if (count != static_cast<Py_ssize_t>(node_outputs_.size())) {
    raise(PyExc_SystemError, "an autograd node got another number of gradients than it has outputs");
    return false;
  }
  result.defined.assign(plan_.output_differentiable.size(), false);
  for (Py_ssize_t i = 0; i < count; ++i) {
    if (cotangents[i] == Py_None) continue;
    const graph::TensorType& expected = plan_.function->outputs[node_outputs_[i]]->type;
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
    result.defined[node_outputs_[i]] = true;
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
  made.executable = compile_("backward", *made.plan.graph);
  return backwards_.try_emplace(masks, std::move(made)).first->second;
}

// A backward that is compiled late may assume more of the sizes than the guards of its forward did.
void TrainingFunction::check_guards(size_t known, const std::vector<int64_t>& symbols) const {
  const graph::SymContext& sym = *plan_.function->sym;
  if (symbols.empty()) return;
  for (size_t i = known; i < sym.guards().size(); ++i)
    if (!graph::holds(sym, sym.guards()[i], symbols.data()))
      throw graph::Unsupported("the backward of these sizes: " + sym.guards()[i].reason);
}

PyRef TrainingFunction::run(CompiledBackward& compiled, PyRef saved, const Cotangents& cotangents,
                            const std::vector<int64_t>& symbols) const {
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

  PyRef result = PyRef::steal(PyTuple_New(static_cast<Py_ssize_t>(node_inputs_.size())));
  if (!result) return {};
  std::vector<int> position(plan_.output_differentiable.size(), -1);  // of a cotangent among those defined
  for (size_t i = 0, next = 0; i < position.size(); ++i)
    if (cotangents.defined[i]) position[i] = static_cast<int>(next++);
  const graph::SymContext& sym = *plan_.function->sym;
  for (size_t i = 0; i < node_inputs_.size(); ++i) {
    const Gradient& gradient = compiled.plan.gradients[node_inputs_[i]];
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
PyRef TrainingFunction::gradient_tuple(const std::vector<int>& inputs, PyObject* const* tensors) const {
  std::vector<PyObject*> by_input(plan_.input_wanted.size(), Py_None);
  for (size_t i = 0; i < inputs.size(); ++i) by_input[inputs[i]] = tensors[i];
  PyRef result = PyRef::steal(PyTuple_New(static_cast<Py_ssize_t>(node_inputs_.size())));
  for (size_t i = 0; result && i < node_inputs_.size(); ++i)
    PyTuple_SET_ITEM(result.get(), i, Py_NewRef(by_input[node_inputs_[i]]));
  return result;
}

PyRef TrainingFunction::run_in_python(PyObject* node, PyObject* saved, const Mask& gradients,
                                      const Cotangents& cotangents, const ForwardCall& forward) {
  const size_t known = plan_.function->sym->guards().size();
  const graph::GradientFunction function =
      graph::make_gradient_function(plan_, cotangents.defined, gradients);
  check_guards(known, forward.symbols);
  std::vector<PyRef> inputs;
  if (!read_inputs_again(node, saved, function.draws, function.reads, cotangents, forward, inputs)) return {};
  if (!grad_mode_is_enabled()) graph::remove_detach(*function.graph);
  PyRef list = symbolic::checked(PyList_New(0));
  for (const PyRef& input : inputs) append(list, input);
  PyRef description = describe_core(
      *function.graph, static_cast<const symbolic::LibraryCalls*>(forward_->library_context.get()));
  PyRef graph = symbolic::checked(PyObject_CallOneArg(python_side(PythonSide::kGraph), description.get()));
  PyRef outputs = symbolic::checked(PyObject_CallMethod(graph.get(), "run", "O", list.get()));
  return gradient_tuple(function.outputs, PySequence_Fast_ITEMS(outputs.get()));
}

TrainingFunction::GradientGraph& TrainingFunction::gradient_graph(const Mask& cotangents,
                                                                  const Mask& gradients,
                                                                  const std::vector<int64_t>& symbols) {
  const std::pair<Mask, Mask> masks(cotangents, gradients);
  if (const auto known = gradient_graphs_.find(masks); known != gradient_graphs_.end()) return known->second;
  const size_t guards = plan_.function->sym->guards().size();
  graph::GradientFunction function = graph::make_gradient_function(plan_, cotangents, gradients);
  std::vector<bool> wanted = plan_.input_wanted;
  wanted.resize(function.graph->inputs.size() - function.draws.size(), true);
  wanted.resize(function.graph->inputs.size(), false);
  std::vector<bool> differentiable(function.graph->outputs.size(), true);
  GradientGraph made{
      .function = nullptr, .draws = function.draws, .outputs = function.outputs, .reads = function.reads};
  made.function =
      make(std::move(function.graph), std::move(wanted), std::move(differentiable), options_, compile_);
  check_guards(guards, symbols);
  return gradient_graphs_.try_emplace(masks, std::move(made)).first->second;
}

PyRef TrainingFunction::run_differentiably(PyObject* node, PyObject* saved, const Mask& gradients,
                                           const Cotangents& cotangents, const ForwardCall& forward) {
  const std::vector<int64_t>& symbols = forward.symbols;
  GradientGraph* found = nullptr;
  try {
    found = &gradient_graph(cotangents.defined, gradients, symbols);
  } catch (const graph::NoDerivative&) {
    return run_in_python(node, saved, gradients, cotangents, forward);  // PyTorch differentiates it again
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
  PyRef result = gradient_tuple(compiled.outputs, gradient_tensors.data());
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
