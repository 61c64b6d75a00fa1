// Appending the nodes of one call, as array_value.h offers it.
#include <algorithm>
#include <numeric>

#include "graph/core.h"
#include "graph/index_operands.h"
#include "graph/op.h"
#include "graph/passes/view_step.h"
#include "symbolic/capture/executor_state.h"
#include "symbolic/capture/value_factories.h"
#include "symbolic/interop/tensor_access.h"
#include "symbolic/interop/view_base.h"
#include "symbolic/tensors/array_value.h"
#include "symbolic/tensors/library_calls.h"
#include "symbolic/tensors/memory_order.h"
#include "symbolic/tensors/user_call.h"
#include "symbolic/tensors/ways.h"
#include "symbolic/tensors/wider_view.h"
#include "symbolic/values/value_tools.h"

namespace cdynamo::symbolic {

using graph::Alias;
using graph::Arg;
using graph::OpDef;

namespace {

// Operators of float results that are cut from the autograd graph in eager too.
constexpr std::string_view kWithoutGradient[] = {
    "detach",     "detach_copy", "data",       "from_numpy", "zeros_like", "ones_like", "full_like",
    "empty_like", "rand_like",   "randn_like", "new_zeros",  "new_ones",   "new_full",  "new_empty"};

bool cuts_gradient(const OpDef& op) {
  return std::ranges::find(kWithoutGradient, op.name) != std::end(kWithoutGradient);
}

// Operators whose other tensor only says what the result is like.
constexpr std::string_view kLikeAnother[] = {"expand_as", "view_as", "reshape_as", "type_as", "to"};

bool is_like_another(const OpDef& op) {
  return std::ranges::find(kLikeAnother, op.name) != std::end(kLikeAnother);
}

template <typename F>
void for_each_value(std::vector<Arg>& args, F&& fn) {
  for (Arg& arg : args) {
    if (auto* value = std::get_if<graph::Value*>(&arg)) {
      if (*value) fn(*value);
    } else if (auto* list = std::get_if<std::vector<graph::Value*>>(&arg)) {
      for (graph::Value* item : *list)
        if (item) fn(item);
    }
  }
}

graph::Value* base_of(TensorCapture& capture, graph::Value* value) {
  return const_cast<graph::Value*>(base_of(std::as_const(capture), const_cast<const graph::Value*>(value)));
}

// Eager's backward reads what it has saved from memory. PyTorch counts no write from across the border to NumPy, so the backward
// finds there what was written, and says nothing.
void refuse_write_to_saved(Executor& ex, const graph::Value* target) {
  TensorCapture& capture = tensor_capture(ex);
  const graph::Value* base = base_of(std::as_const(capture), target);
  if (!capture.grad_mode || !capture.shared.contains(base)) return;
  const graph::Value* counter = graph::view_history(target).counter;
  for (const auto& node : ex.graph().nodes) {
    if (std::ranges::none_of(node->results, &graph::Value::requires_grad)) continue;
    graph::for_each_operand(*node, [&](const graph::Value* operand) {
      if (base_of(std::as_const(capture), operand) == base && graph::view_history(operand).counter != counter)
        break_graph("CD0416", "what a backward may read, past PyTorch's autograd");
    });
  }
}

// The argument that it is, or is a view of; null where it was made here.
const ArrayInput* input_of(const TensorCapture& capture, const graph::Value* value) {
  const auto found = capture.storage_of.find(value);
  return found == capture.storage_of.end() ? nullptr : capture.inputs[found->second].get();
}

// A view whose history was asked for before: its node in PyTorch's autograd graph is asked for it again when the graph has run.
void refuse_write_beside_view(Executor& ex, const ArrayInput& written) {
  const TensorCapture& capture = tensor_capture(ex);
  for (const auto& node : ex.graph().nodes) {
    if (node->no_grad) continue;
    graph::for_each_operand(*node, [&](const graph::Value* operand) {
      const ArrayInput* read = operand->requires_grad ? input_of(capture, operand) : nullptr;
      if (read && read != &written && is_view_beside(read->object.get(), written.object.get()))
        break_graph("CD0416", "what another argument is a view of");
    });
  }
}

// What grad mode makes of an operand that requires grad and is not, or no more, what its node in the graph computes.
void refuse_other_history(TensorCapture& capture, graph::Value* value, bool cuts) {
  // A parameter that was updated is a leaf with new content, which the graph cannot tell from the old leaf.
  if (!cuts && capture.updated_leaves.count(base_of(capture, value)))
    break_graph("CD0416", "a parameter that is read again afterwards");
  if (is_another_leaf(capture, value)) break_graph("CD0422", "made under no_grad");
  if (capture.refused_histories.contains(value)) break_graph("CD0422", "written to since");
  if (const ArrayInput* input = input_of(capture, value))
    for (const auto& other : capture.inputs)
      if (other->written && other->info.requires_grad && other.get() != input &&
          is_view_beside(input->object.get(), other->object.get()))
        break_graph("CD0422", "written to since");
  if (capture.written_at.empty() || !value->node) return;
  const graph::ViewHistory history = graph::view_history(value);
  const auto written = capture.written_at.find(history.counter);
  if (history.special() && written != capture.written_at.end() && value->id < written->second)
    break_graph("CD0422", "written to since");
}

// May two elements lie in one place?
bool may_overlap(graph::SymContext& sym, const graph::TensorType& type) {
  std::vector<size_t> dims(type.sizes.size());
  std::iota(dims.begin(), dims.end(), size_t{0});
  std::erase_if(dims, [&](size_t d) { return type.sizes[d] == graph::Sym(1); });
  const auto hint = [&](size_t d) { return sym.hint(type.strides[d]); };
  std::ranges::sort(dims, {}, hint);
  graph::Sym reached = 0;  // the farthest element along the dims so far
  for (size_t d : dims) {
    if (!sym.guard(graph::Relation::kLt, reached, type.strides[d], "a write through windows")) return true;
    reached = reached + (type.sizes[d] - 1) * type.strides[d];
  }
  return false;
}

// Content is written back element by element, where each has a place of its own.
void refuse_write_through_windows(Executor& ex, const graph::Value* target) {
  if (!ex.state().request.is_native) return;
  for (const graph::Value* view = target;
       view && view->node && graph::result_alias(*view->node) != Alias::kNone;
       view = graph::viewed_operand(*view)) {
    const std::string_view name = view->node->op->name;
    if ((name == "unfold" || name == "as_strided") && may_overlap(*ex.graph().sym, view->type))
      break_graph("CD0404", "a write through overlapping windows");
  }
}

// Eager refuses an operand whose memory is in part where it writes to: found here where their sizes alone say so. What goes element by
// element may read there what goes to the same place; what moves by an index may not.
void refuse_partial_overlap(Executor& ex, const OpDef& op, const graph::Value* target,
                            const std::vector<Arg>& args) {
  constexpr std::string_view kByIndex[] = {"index_add", "index_copy",  "index_put",
                                           "scatter",   "scatter_add", "scatter_reduce"};
  constexpr std::string_view kByElement[] = {"copy", "clamp", "clamp_min", "clamp_max", "pow", "xlogy"};
  constexpr std::string_view kOfNumbers[] = {"fill", "masked_fill"};
  const auto is_in = [&](const auto& names) { return std::ranges::find(names, op.name) != std::end(names); };
  const bool is_pointwise = op.family == graph::Family::kPointwise && !is_in(kOfNumbers);
  const bool by_index = is_in(kByIndex), by_element = is_pointwise || is_in(kByElement);
  if (ex.graph().framework != graph::Framework::kTorch || (!by_index && !by_element)) return;
  const TensorCapture& capture = tensor_capture(ex);
  graph::SymContext& sym = *ex.graph().sym;
  const graph::Value* base = base_of(capture, target);
  const auto bytes = [&](const graph::Value* value) {
    return sym.hint(value->type.numel()) * runtime::bytes(value->type.dtype);
  };
  const auto is_dense = [&](const graph::Value* value) {
    return graph::is_non_overlapping_and_dense(sym, value->type);
  };
  std::vector<Arg> operands(args.begin() + 1, args.end());
  for_each_value(operands, [&](const graph::Value* read) {
    if ((read == target && by_element) || base_of(capture, read) != base) return;
    const int64_t all = bytes(base), written = bytes(target), other = bytes(read);
    if (written == 0 || other == 0 || written + other <= all) return;  // they may lie beside each other
    if (!is_dense(base) || !is_dense(target) || !is_dense(read)) return;
    const bool in_step = by_element && target->type.strides == read->type.strides;
    if (written != other || (written == all && !in_step))  // of others it would take where they begin
      break_graph("CD0411", "memory that is read as well");
  });
}

// Does a gradient flow into one of the operands? `cuts`: of an operator through which none flows.
bool any_requires_grad(TensorCapture& capture, std::vector<Arg> args, bool cuts = false) {
  bool any = false;
  for_each_value(args, [&](graph::Value* value) {
    any |= value->requires_grad;
    if (value->requires_grad && capture.grad_mode) refuse_other_history(capture, value, cuts);
  });
  // Eager refuses to keep one for a backward.
  if (any && capture.grad_mode && !capture.inference_values.empty())
    for_each_value(args, [&](const graph::Value* value) {
      if (is_inference_value(capture, value)) break_graph("CD0422", "made under inference_mode");
    });
  return any;
}

// It, or what it is a view of.
bool is_of_integers(const graph::Value* value) {
  for (; value; value = graph::viewed_operand(*value)) {
    if (!runtime::is_float(value->type.dtype)) return true;
    if (!value->node || graph::result_alias(*value->node) == Alias::kNone) return false;
  }
  return false;
}

// In place: whose tensor gets a history, or keeps the one it has.
void note_written_gradient(Executor& ex, graph::Value* target, bool any) {
  TensorCapture& capture = tensor_capture(ex);
  graph::Value* base = base_of(capture, target);
  const bool is_input = capture.storage_of.count(target) > 0;
  const bool past_gradient = !capture.grad_mode || capture.cut.count(target);
  // Eager refuses all that asks for its history from here on, as torch.view_as_complex does behind the graph.
  const graph::ViewHistory history = graph::view_history(target);
  const bool has_history = base->requires_grad && !history.no_grad && !history.detached;
  if (history.one_of_several && (has_history || (any && !past_gradient)))
    break_graph("CD0416", "one of several views");
  if (past_gradient) {
    if (any && capture.grad_mode) break_graph("CD0416", "a detached view");
    if (!base->requires_grad) return;
    if (capture.made_leaves.contains(base)) {
      if (is_read_by_backward(ex, base)) capture.written_leaves.insert(base);
      return;
    }
    if (!is_input && capture.grad_mode) break_graph("CD0416", "what has a gradient, past it");
    if (!is_input) return;
    refuse_write_beside_view(ex, *input_of(capture, target));
    capture.updated_leaves.insert(base);
    return;
  }
  if (!any) return;
  if (is_input) break_graph("CD0416", "an input");
  if (capture.made_leaves.contains(base)) break_graph("CD0416", "a leaf");
  // No history goes through them: of their view the gradient is its own alone.
  if (is_of_integers(target)) break_graph("CD0416", "a tensor of integers");
  base->requires_grad = true;
  for (auto& [view, root] : capture.base_of)
    if (root == base && (!capture.cut.count(view) || !graph::view_history(view).detached))
      const_cast<graph::Value*>(view)->requires_grad = true;
}

// Eager's kernels give their statistics no history.
bool is_statistic(const graph::Value& result) {
  return result.index > 0 && result.node->op->name == "native_layer_norm";
}

// A view's storage, history and, where it is its operand, object.
void note_view(TensorCapture& capture, const graph::Node& node, graph::Value* result, bool is_self) {
  graph::Value* base = graph::viewed_operand(*result);
  if (!base) return;
  if (auto storage = capture.storage_of.find(base); storage != capture.storage_of.end()) {
    const int input = storage->second;
    capture.storage_of[result] = input;
  }
  if (is_self) result->requires_grad = base->requires_grad;
  if (auto object = capture.objects.find(base);
      is_self && node.results.size() == 1 && object != capture.objects.end()) {
    ValuePtr self = object->second;
    capture.objects[result] = std::move(self);
  }
  capture.base_of[result] = base_of(capture, base);
  if (capture.cut.count(base) || node.no_grad || cuts_gradient(*node.op)) capture.cut.insert(result);
}

void note_results(Executor& ex, graph::Node& node, bool any_gradient) {
  TensorCapture& capture = tensor_capture(ex);
  const Alias alias = graph::result_alias(node);
  const bool is_view = alias != Alias::kNone && alias != Alias::kSelf;
  if (node.in_place) {
    node.no_grad = any_gradient && !capture.grad_mode;
  } else if (alias != Alias::kSelf && (any_gradient || (is_view && capture.has_state))) {
    node.no_grad = !capture.grad_mode && !cuts_gradient(*node.op);
    for (graph::Value* result : node.results) {
      const graph::Value* viewed = is_view ? graph::viewed_operand(*result) : nullptr;
      // A view requires grad where its base does, in any mode.
      result->requires_grad = (viewed ? viewed->requires_grad : any_gradient && capture.grad_mode) &&
                              !cuts_gradient(*node.op) && runtime::is_float(result->type.dtype) &&
                              !is_statistic(*result);
    }
  }
  if (alias == Alias::kNone) return;
  for (graph::Value* result : node.results) note_view(capture, node, result, alias == Alias::kSelf);
}

// Running statistics of batch norm and the like.
void refuse_written_arguments(Executor& ex, const OpDef& op, const BoundCall& call) {
  const graph::Schema& schema = op.parsed[call.overload];
  const std::vector<graph::Param>& params = schema.params;
  if (schema.find("training") >= 0 && !graph::Args(schema, call.args).boolean("training")) return;
  for (size_t i = 0; i < params.size() && i < call.args.size(); ++i)
    if (auto* value = std::get_if<graph::Value*>(&call.args[i]); params[i].mutated && value && *value)
      refuse_write_outside_region(ex, *value);
}

}  // namespace

const graph::Value* base_of(const TensorCapture& capture, const graph::Value* value) {
  auto found = capture.base_of.find(value);
  return found == capture.base_of.end() ? value : found->second;
}

bool is_read_by_backward(Executor& ex, const graph::Value* leaf) {
  const TensorCapture& capture = tensor_capture(ex);
  return std::ranges::any_of(ex.graph().nodes, [&](const auto& node) {
    bool reads = false;
    graph::for_each_operand(*node,
                            [&](const graph::Value* operand) { reads |= base_of(capture, operand) == leaf; });
    return reads && !node->no_grad && std::ranges::any_of(node->results, &graph::Value::requires_grad);
  });
}

bool is_inference_value(const TensorCapture& capture, const graph::Value* value) {
  if (capture.inference_values.empty() || capture.storage_of.contains(value)) return false;
  const graph::Value* base = base_of(capture, value);
  return base->node && std::ranges::any_of(capture.inference_values, [&](const auto& range) {
           return range.first <= base->id && base->id < range.second;
         });
}

bool is_another_leaf(const TensorCapture& capture, const graph::Value* value) {
  return value->requires_grad && capture.cut.count(value) && graph::view_history(value).no_grad;
}

void refuse_one_example(const TensorCapture& capture, const graph::Value* value) {
  if (capture.of_one_example.contains(value->id))
    break_graph("CD0404", "torch.vmap of a function that keeps what it computes");
}

static void refuse_operands_of_one_example(const TensorCapture& capture, const std::vector<Arg>& args) {
  if (capture.of_one_example.empty()) return;
  for (const Arg& arg : args) {
    if (auto* value = std::get_if<graph::Value*>(&arg); value && *value) refuse_one_example(capture, *value);
    if (auto* values = std::get_if<std::vector<graph::Value*>>(&arg))
      for (const graph::Value* value : *values)
        if (value) refuse_one_example(capture, value);
  }
}

// No tensor has them: the call is left to the library, which raises its error.
static bool has_negative_size(Executor& ex, const graph::Value* result) {
  bool is_made_of_nothing = true;
  if (result->node)
    graph::for_each_operand(*result->node, [&](graph::Value*) { is_made_of_nothing = false; });
  return std::ranges::any_of(result->type.sizes, [&](const Sym& size) {
    if (size.is_constant()) return size.constant() < 0;
    return is_made_of_nothing && ex.graph().sym->guard(graph::Relation::kLt, size, 0, "size");
  });
}

// No array and hardly a tensor has more dims: so too.
static void refuse_impossible_shapes(Executor& ex, const OpDef& op, const std::vector<graph::Value*>& results,
                                     size_t nodes_before) {
  const char* why = nullptr;
  for (const graph::Value* result : results)
    if (result->type.rank() > kMaxRank)
      why = "a result of too many dims";
    else if (has_negative_size(ex, result))
      why = "a result of a negative size";
  if (!why) return;
  while (ex.graph().nodes.size() > nodes_before) ex.graph().nodes.pop_back();
  break_graph("CD0403", std::string(op.name) + ": " + why);
}

// PyTorch has few kernels for uint16, uint32 and uint64, and none that promotes them: what only moves or converts them is
// in the table, the rest is PyTorch's.
static void refuse_wide_unsigned(const OpDef& op, const std::vector<Arg>& args,
                                 const std::vector<graph::Value*>& results) {
  static constexpr std::string_view kCovered[] = {
      "to",           "float",     "double",    "half",      "bfloat16",       "long",  "int",
      "short",        "char",      "byte",      "bool",      "type_as",        "clone", "contiguous",
      "copy",         "zeros",     "ones",      "empty",     "full",           "cat",   "stack",
      "zeros_like",   "ones_like", "core.cast", "core.full", "core.to_device", "data",  "from_numpy",
      "core.read_int"};
  if (op.family == graph::Family::kView || op.view || op.alias ||
      std::ranges::find(kCovered, op.name) != std::end(kCovered))
    return;
  const auto refuse = [&](const graph::Value* value) {
    if (runtime::is_unsigned(value->type.dtype) && value->type.dtype != graph::DType::kU8)
      throw graph::Unsupported(std::string(runtime::info(value->type.dtype).name));
  };
  for_each_value(const_cast<std::vector<Arg>&>(args), refuse);
  std::ranges::for_each(results, refuse);
}

// A float of ints has the dtype that was the default when capture began: the graph knows one alone. Functions that make tensors
// are given theirs.
static void refuse_other_default_dtype(const TensorCapture& capture, const OpDef& op, std::vector<Arg> args,
                                       const std::vector<graph::Value*>& results) {
  static constexpr std::string_view kSayTheirs[] = {"to",       "float",   "double", "half",
                                                    "bfloat16", "type_as", "data"};
  if (!capture.factory_defaults.dtype || std::ranges::find(kSayTheirs, op.name) != std::end(kSayTheirs))
    return;
  bool any_tensor = false, any_float = false;
  for_each_value(args, [&](const graph::Value* value) {
    any_tensor = true;
    any_float |= runtime::is_float(value->type.dtype);
  });
  if (!any_tensor || any_float) return;
  for (const graph::Value* result : results)
    if (runtime::is_float(result->type.dtype))
      break_graph("CD0413", "torch.set_default_dtype, and " + std::string(op.name) + " of no floats");
}

std::vector<graph::Value*> append_call(Executor& ex, const OpDef& op, BoundCall call, bool in_place) {
  TensorCapture& capture = tensor_capture(ex);
  refuse_operands_of_one_example(capture, call.args);
  read_through_gates(ex, call.args, in_place);
  if (op.name == "as_strided") call.args[0] = in_memory_order(ex, std::get<graph::Value*>(call.args.at(0)));
  std::vector<Arg> differentiated = call.args;
  if (is_like_another(op) || (in_place && graph::writes_untracked(op))) differentiated.resize(1);
  const bool any_gradient =
      capture.has_state && any_requires_grad(capture, differentiated, cuts_gradient(op));
  if (in_place) {
    refuse_partial_overlap(ex, op, std::get<graph::Value*>(call.args.at(0)), call.args);
    note_write(ex, std::get<graph::Value*>(call.args.at(0)));
    refuse_write_to_saved(ex, std::get<graph::Value*>(call.args.at(0)));
    refuse_write_through_windows(ex, std::get<graph::Value*>(call.args.at(0)));
    note_written_gradient(ex, std::get<graph::Value*>(call.args.at(0)), any_gradient);
    capture.written_at[graph::view_history(std::get<graph::Value*>(call.args.at(0))).counter] =
        ex.graph().next_value_id();
  }
  if (ex.isolated_region()) refuse_written_arguments(ex, op, call);
  if (graph::indexes_nothing(op, call.overload, call.args))
    break_graph("CD0403", std::string(op.name) + ": indices where there are no elements");
  if (any_gradient && capture.grad_mode && op.name == "floor_divide") break_graph("CD0417", "floor_divide");
  if (op.name == "view" && ex.graph().framework == graph::Framework::kTorch)
    if (const graph::Args named(op.parsed.at(call.overload), call.args); named.has("dtype"))
      require_offset_of_view(ex, named.value("self"), *named.dtype("dtype"));
  const size_t before = ex.graph().nodes.size();
  std::vector<graph::Value*> results;
  try {
    if (ex.graph().framework == graph::Framework::kTorch) refuse_wide_unsigned(op, call.args, {});
    results = ex.builder().call(op, call.overload, std::move(call.args), in_place);
    if (ex.graph().framework == graph::Framework::kTorch) refuse_wide_unsigned(op, {}, results);
  } catch (const graph::UserError& error) {
    break_graph("CD0403", std::string(op.name) + ": " + error.message);
  } catch (const graph::Unsupported& error) {
    break_graph("CD0404", std::string(op.name) + ": " + error.message);
  } catch (const graph::DataDependent& error) {
    break_graph("CD0406", std::string(op.name) + ": " + error.text);
  }
  refuse_impossible_shapes(ex, op, results, before);
  refuse_other_default_dtype(capture, op, differentiated, results);
  if (ex.graph().nodes.size() > before && !results.empty() && results[0]->node)
    note_results(ex, *results[0]->node, any_gradient);
  return results;
}

static int64_t constant_extent(Executor& ex, const graph::Sym& extent) {
  if (extent.is_constant()) return extent.constant();
  if (ex.state().request.leaves_loops) break_graph("CD0405", "an operand's sizes change from call to call");
  try {
    return ex.graph().sym->specialize(extent, "an operand of a call in a library");
  } catch (const graph::DataDependent& error) {
    break_graph("CD0406", error.text);
  }
}

PyRef constant_extents(Executor& ex, const std::vector<graph::Sym>& extents) {
  PyRef tuple = checked(PyTuple_New(static_cast<Py_ssize_t>(extents.size())));
  for (size_t d = 0; d < extents.size(); ++d) {
    PyTuple_SET_ITEM(tuple.get(), static_cast<Py_ssize_t>(d),
                     checked(PyLong_FromLongLong(constant_extent(ex, extents[d]))).release());
  }
  return tuple;
}

std::vector<graph::Value*> append_library_call(Executor& ex, std::vector<graph::Value*> operands,
                                               const std::string& name, const std::string& attributes,
                                               const LibraryCall& call,
                                               std::vector<graph::TensorType> types) {
  const int64_t differentiable = call.differentiable;
  std::vector<Arg> args = {
      std::move(operands),  name, attributes, graph::Sym(int64_t{call.id}), graph::Sym(differentiable),
      call.gradient_strides};
  read_through_gates(ex, args, /*in_place=*/false);
  const TensorCapture& capture = tensor_capture(ex);
  const bool any_gradient = any_requires_grad(tensor_capture(ex), args);
  bool any_float = false;
  for (const graph::TensorType& type : types) any_float |= runtime::is_float(type.dtype);
  // A backward may call what nobody differentiates.
  const bool in_backward = !capture.backward_begins.empty();
  const bool has_derivative =
      differentiable >= 0 || (differentiable == graph::kNeverDifferentiable && in_backward);
  // Of operators that cost much as a rule, and that the derivative computes once more, as PyTorch's does not.
  const bool is_dear = !call.gradient_strides.empty() && ex.state().request.leaves_loops;
  if (any_gradient && capture.grad_mode && any_float && (!has_derivative || is_dear))
    break_graph("CD0417", name + " is called in PyTorch's library");
  std::vector<graph::Value*> results = ex.builder().append(graph::op("core.library"), 0, std::move(args),
                                                           std::move(types), /*in_place=*/false);
  note_results(ex, *results.at(0)->node, any_gradient);
  for (size_t i = 0; i < results.size(); ++i)
    results[i]->requires_grad = results[i]->requires_grad && i < graph::kMostLibraryResults &&
                                differentiable >= 0 && differentiable >> i & 1;
  return results;
}

graph::Value* append_call1(Executor& ex, const char* name, std::vector<Arg> args, bool in_place) {
  const OpDef* op = graph::find_op(name);
  if (!op) break_graph("CD0405", name);
  const graph::Schema& schema = op->parsed[0];
  for (size_t i = args.size(); i < schema.params.size(); ++i) args.push_back(schema.params[i].default_value);
  return append_call(ex, *op, {.overload = 0, .args = std::move(args)}, in_place).at(0);
}

namespace {

void forget_records(Executor& ex, int from) {
  PyObject* records = ex.user_calls();
  if (PyList_SetSlice(records, from, PyList_GET_SIZE(records), nullptr) < 0) throw PythonError{};
}

void assign_nodes(Executor& ex, size_t first, int user_call) {
  auto& nodes = ex.graph().nodes;
  size_t count = nodes.size() - first;
  for (auto node = nodes.rbegin(); count > 0; ++node, --count) (*node)->user_call = user_call;
}

}  // namespace

UserCall::UserCall(Executor& ex, const char* kind, PyRef target, const CallArgs& args)
    : ex_(ex),
      outer_(ex.state().user_call),
      index_(ex.record_user_call(make_user_call(ex, kind, target.get(), args))),
      first_node_(ex.graph().nodes.size()) {
  if (ex.state().open_calls == 0)
    for (const auto& [call, why] : ex.state().request.refused_calls)
      if (call == index_) {
        forget_records(ex, index_);
        break_graph("CD0417", why);
      }
  ++ex.state().open_calls;
}

void UserCall::end(const ValuePtr& result) {
  assign_nodes(ex_, first_node_, index_);
  forget_records(ex_, index_ + 1);
  PyRef record = with_result(ex_, PyList_GET_ITEM(ex_.user_calls(), index_), result);
  // A backend in Python is to make the call. What is recorded inside of another call is forgotten.
  if (!ex_.state().request.is_native && ex_.state().open_calls == 1) {
    if (PyObject* text = unknown_argument(record.get()))
      break_graph("CD0404", absl::StrCat("an argument that graphs do not hold: ", PyUnicode_AsUTF8(text)));
    if (PyObject* text = unknown_result(record.get()))
      break_graph("CD0404", absl::StrCat("a result that graphs do not hold: ", PyUnicode_AsUTF8(text)));
  }
  ended_ = true;
  if (PyList_SetItem(ex_.user_calls(), index_, record.release()) < 0) throw PythonError{};
}

UserCall::~UserCall() {
  if (--ex_.state().open_calls > 0) ex_.state().user_call = outer_;
  if (ended_) return;
  assign_nodes(ex_, first_node_, -1);
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  PyObject* records = ex_.user_calls();
  PyList_SetSlice(records, index_, PyList_GET_SIZE(records), nullptr);
  PyErr_Restore(type, value, traceback);
}

ValuePtr recorded_operator(Executor& ex, const char* function, std::vector<ValuePtr> operands,
                           const std::function<ValuePtr()>& body) {
  return recorded_call(ex, "call_function", PyRef::borrow(library_object("operator", function)),
                       positional(std::move(operands)), body);
}

}  // namespace cdynamo::symbolic
