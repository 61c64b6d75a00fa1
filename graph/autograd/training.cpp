#include "graph/autograd/training.h"

#include <algorithm>
#include <limits>
#include <set>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "graph/autograd/autograd.h"
#include "graph/autograd/derivative.h"
#include "graph/autograd/eager_graph.h"
#include "graph/autograd/gradient_strides.h"
#include "graph/autograd/linearity.h"
#include "graph/op.h"
#include "graph/passes/view_step.h"
#include "graph/strides.h"

namespace cdynamo::graph {
namespace {

// The function with its reverse pass appended. Values of the function keep their ids.
struct Joint {
  std::unique_ptr<Graph> graph;
  std::vector<Value*> cotangents;  // by output; null where none comes in
  std::vector<Value*> gradients;   // by input; null where there is none
};

// `last`: nothing is differentiated after this.
Joint make_joint(const Training& training, const std::vector<bool>& cotangents,
                 const std::vector<bool>& gradients, bool last) {
  Joint joint{.graph = training.function->clone(), .cotangents = {}, .gradients = {}};
  Graph& graph = *joint.graph;
  const std::vector<Value*> outputs = graph.outputs;
  for (size_t i = 0; i < outputs.size(); ++i) {
    const bool comes = cotangents.at(i) && training.output_differentiable.at(i);
    joint.cotangents.push_back(
        comes ? graph.add_input(outputs[i]->type, absl::StrCat("grad_", outputs[i]->name)) : nullptr);
  }
  std::vector<Value*> wanted;
  for (size_t i = 0; i < training.input_wanted.size(); ++i)
    if (training.input_wanted[i] && gradients.at(i)) wanted.push_back(graph.inputs[i]);
  Builder builder(graph, Level::kCore);
  const std::vector<Value*> found = differentiate(builder, outputs, joint.cotangents, wanted);
  joint.gradients.resize(training.input_wanted.size());
  for (size_t i = 0; i < wanted.size(); ++i) joint.gradients[wanted[i]->index] = found[i];
  graph.mutations.clear();
  if (last) remove_functions(graph, &joint.gradients);
  return joint;
}

std::vector<Value*> without_null(const std::vector<Value*>& values) {
  std::vector<Value*> kept;
  for (Value* value : values)
    if (value) kept.push_back(value);
  return kept;
}

// What the reverse pass reads of the function.
std::vector<Needed> needed_by_backward(const Training& training, Joint& joint) {
  Graph& graph = *joint.graph;
  const int count = training.function->next_value_id();
  graph.outputs = without_null(joint.gradients);
  eliminate_dead_code(graph);
  std::vector<std::set<int>> readers(count);
  for (const Value* output : graph.outputs)
    if (output->id < count) readers[output->id].insert(-1);
  for (const auto& node : graph.nodes) {
    if (node->results.at(0)->id < count) continue;
    for_each_operand(*node, [&](Value*& operand) {
      if (operand->id < count) readers[operand->id].insert(node->user_call);
    });
  }
  std::vector<Needed> needed;
  for (int id = 0; id < count; ++id)
    if (!readers[id].empty())
      needed.push_back({training.function->value(id), {readers[id].begin(), readers[id].end()}});
  return needed;
}

// Copies what `graph` computes from the values that are mapped already.
class Extractor {
 public:
  Extractor(const Graph& from, Graph& to) : to_(to), map_(from.next_value_id()) {}

  void map(const Value* from, Value* to) { map_.at(from->id) = to; }
  Value* operator()(const Value* value) const { return map_.at(value->id); }

  // The nodes of the reverse pass in their order; what the function computed, and is computed again, right
  // before its first reader: it is in memory no longer than it has to be. `count`: values of the function.
  void copy(const Graph& from, const std::vector<Value*>& wanted, int count) {
    std::vector<bool> live(map_.size());
    for (const Value* value : wanted) live[value->id] = true;
    for (auto it = from.nodes.rbegin(); it != from.nodes.rend(); ++it)
      if (is_needed(**it, live)) for_each_operand(**it, [&](Value*& operand) { live[operand->id] = true; });
    for (const auto& node : from.nodes)
      if (node->results.at(0)->id >= count && is_needed(*node, live)) copy_with_operands(*node);
    for (const Value* value : wanted)
      if (value->node && !map_[value->id]) copy_with_operands(*value->node);
  }

 private:
  bool is_needed(const Node& node, const std::vector<bool>& live) const {
    return std::any_of(node.results.begin(), node.results.end(),
                       [&](const Value* result) { return live[result->id] && !map_[result->id]; });
  }

  // With a stack of its own: graphs are deeper than call stacks.
  void copy_with_operands(Node& node) {
    std::vector<Node*> open = {&node};
    while (!open.empty()) {
      Node& top = *open.back();
      const size_t depth = open.size();
      for_each_operand(top, [&](Value*& operand) {
        if (!map_[operand->id] && operand->node) open.push_back(operand->node);
      });
      if (open.size() > depth) {
        // The first operand first.
        std::reverse(open.begin() + static_cast<std::ptrdiff_t>(depth), open.end());
        continue;
      }
      open.pop_back();
      if (!all_mapped(top)) copy_node(top);
    }
  }

  bool all_mapped(const Node& node) const {
    return std::all_of(node.results.begin(), node.results.end(),
                       [&](const Value* result) { return map_[result->id]; });
  }

  void copy_node(const Node& node) {
    Node image = node;
    for_each_operand(image, [&](Value*& operand) {
      Value* mapped = map_.at(operand->id);
      if (!mapped)
        throw InternalError("the backward reads " + operand->name + ", which is neither saved nor computed");
      operand = mapped;
    });
    std::vector<TensorType> types;
    for (const Value* result : node.results) types.push_back(result->type);
    Node* made = to_.add_node(node.op, node.overload, std::move(image.args), std::move(types));
    made->location = node.location;
    made->user_call = node.user_call;
    made->region = node.region;
    for (size_t i = 0; i < node.results.size(); ++i)
      if (!map_[node.results[i]->id]) map_[node.results[i]->id] = made->results[i];
  }

  Graph& to_;
  std::vector<Value*> map_;  // by value id
};

std::unique_ptr<Graph> empty_like(const Graph& graph) {
  auto made = std::make_unique<Graph>(graph.sym);
  made->framework = graph.framework;
  made->torch_float = graph.torch_float;
  made->locations = graph.locations;
  return made;
}

// The most bytes in memory at a time while a graph runs, its inputs until their last reader. What a pointwise node
// gives to one reader is taken to be computed where it is read.
class MemoryEstimate {
 public:
  explicit MemoryEstimate(const Graph& graph)
      : graph_(graph), readers_(graph.next_value_id()), last_(graph.next_value_id(), -1) {
    int step = 0;
    for (const auto& node : graph.nodes) {
      for_each_operand(*node, [&](Value*& operand) {
        ++readers_[operand->id];
        last_[base_of(operand)->id] = step;
      });
      ++step;
    }
  }

  // `held`: inputs that nobody else keeps alive. `results` stay.
  double peak(const std::vector<Value*>& held, const std::vector<Value*>& results) {
    for (const Value* result : results) last_[base_of(result)->id] = std::numeric_limits<int>::max();
    double live = 0;
    std::vector<bool> counted(last_.size());
    const auto add = [&](const Value* value) {
      counted[value->id] = true;
      live += bytes_of(*graph_.sym, value->type);
    };
    for (const Value* value : held) add(value);
    double most = live;
    int step = 0;
    for (const auto& node : graph_.nodes) {
      for (const Value* result : node->results)
        if (is_in_memory(*result)) add(result);
      most = std::max(most, live);
      for_each_operand(*node, [&](Value*& operand) {
        const Value* base = base_of(operand);
        if (last_[base->id] != step || !counted[base->id]) return;
        counted[base->id] = false;
        live -= bytes_of(*graph_.sym, base->type);
      });
      ++step;
    }
    return most;
  }

 private:
  bool is_in_memory(const Value& value) const {
    const Family family = value.node->op->family;
    return family != Family::kView && (family != Family::kPointwise || readers_[value.id] > 1);
  }

  const Graph& graph_;
  std::vector<int> readers_, last_;  // by value id: how many there are, and the step of the last (of a base)
};

// ... of the backward of all gradients where these values of the function are kept.
double backward_peak(const Joint& joint, const std::vector<Kept>& kept, int count) {
  const std::unique_ptr<Graph> backward = empty_like(*joint.graph);
  Extractor extract(*joint.graph, *backward);
  std::vector<Value*> held, results;
  for (const auto& [value, is_copied] : kept) {
    Value* input = backward->add_input(value->type, value->name);
    extract.map(joint.graph->value(value->id), input);
    if (value->node) held.push_back(input);
  }
  for (const Value* cotangent : joint.cotangents)
    if (cotangent) extract.map(cotangent, backward->add_input(cotangent->type, cotangent->name));
  const std::vector<Value*> gradients = without_null(joint.gradients);
  extract.copy(*joint.graph, gradients, count);
  for (const Value* gradient : gradients) results.push_back(extract(gradient));
  return MemoryEstimate(*backward).peak(held, results);
}

// A fresh result is the caller's buffer: dense, row-major but where a view's strides are asked for.
Value* as_output(Builder& builder, Value* value) {
  std::vector<Value*>& outputs = builder.graph().outputs;
  const bool plain = value->node && value->node->op->family != Family::kView &&
                     std::find(outputs.begin(), outputs.end(), value) == outputs.end();
  if (!plain) value = builder.call1("core.cast", {value, value->type.dtype});
  value->type.strides = contiguous_strides(value->type.sizes);
  value->type.weak = false;
  outputs.push_back(value);
  return value;
}

void settle(Graph& graph) {
  eliminate_dead_code(graph);
  remove_detach(graph);
  optimize(graph);
}

void make_forward(Training& training, const std::vector<Kept>& kept, const PartitionOptions& options) {
  training.forward = training.function->clone();
  Graph& forward = *training.forward;
  remove_functions(forward);
  Builder builder(forward, Level::kCore);
  std::vector<bool> written(forward.inputs.size());
  for (const Graph::Mutation& mutation : forward.mutations) written[mutation.input] = true;
  for (const int input : options.copied_inputs) written[input] = true;
  const size_t count = forward.outputs.size();
  std::vector<char> channels_last;
  if (options.gains_by_channels_last)
    channels_last = channels_last_values(*training.function, options.gains_by_channels_last);
  for (const auto& [value, is_copied] : kept) {
    SavedValue saved{.value = value};
    Value* image = forward.value(value->id);
    const auto begin = forward.outputs.begin();
    const auto output = std::find(begin, begin + count, image);
    if (!value->node && !written[value->index]) {
      saved.kind = SavedValue::kInput;
      saved.index = value->index;
      saved.is_uncounted = std::ranges::count(options.uncounted_inputs, saved.index) > 0;
    } else if (output != begin + count && !is_copied &&
               std::ranges::find(options.copied_outputs, output - begin) == options.copied_outputs.end()) {
      saved.kind = SavedValue::kOutput;
      saved.index = static_cast<int>(output - begin);
      saved.is_uncounted = std::ranges::count(options.uncounted_outputs, saved.index) > 0;
    } else {
      saved.kind = SavedValue::kExtra;
      saved.index = static_cast<int>(forward.outputs.size());
      const bool is_last = !channels_last.empty() && channels_last[value->id];
      value->type.strides = is_last ? channels_last_strides(value->type.sizes) : inner_strides(*value);
      as_output(builder, image)->type.strides = value->type.strides;
    }
    training.saved.push_back(saved);
  }
  settle(forward);
}

// Where a gradient lies: follows views to what they look at, as eager's gradients are views of each other.
struct Root {
  Value* value;
  StorageLayout layout;
  bool is_view = false;
};

Root find_root(SymContext& context, const GradientStrides& strides, Value* gradient) {
  std::vector<ViewStep> steps;
  std::vector<Value*> values = {gradient};
  for (Value* value = gradient; value->node && is_aliasing_view(*value->node->op);) {
    steps.push_back(make_view_step(*value->node));
    value = std::get<Value*>(value->node->args[0]);
    values.push_back(value);
  }
  // From the longest chain down to none: the first whose elements can be addressed.
  for (size_t length = steps.size(); length > 0; --length) {
    Value* base = values[length];
    StorageLayout layout{base->type.sizes, strides.of(base), 0};
    bool addressed = true;
    for (size_t i = length; addressed && i-- > 0;) addressed = advance(context, steps[i], layout);
    for (const Sym& stride : layout.strides)  // PyTorch has no tensor that runs backwards
      addressed = addressed && context.known(Relation::kLe, 0, stride).value_or(false);
    addressed = addressed && context.known(Relation::kLe, 0, layout.offset).value_or(false);
    if (addressed) return {base, layout, true};
  }
  return {gradient, {}, false};
}

// Eager has other random numbers in the backward; what is kept are those of the forward.
void refuse_random_in_regions(const Graph& function) {
  for (const auto& node : function.nodes)
    if (node->region < 0 && node->op->family == Family::kRandom)
      throw NoDerivative("random numbers in a checkpoint with preserve_rng_state=False", node->user_call);
}

}  // namespace

Training make_training(std::unique_ptr<Graph> function, std::vector<bool> input_wanted,
                       std::vector<bool> output_differentiable, const PartitionOptions& options) {
  refuse_random_in_regions(*function);
  add_indices_of_extremes(*function);
  Training training{.function = std::move(function),
                    .input_wanted = std::move(input_wanted),
                    .output_differentiable = std::move(output_differentiable),
                    .forward = nullptr,
                    .saved = {}};
  const std::vector<bool> all_outputs(training.function->outputs.size(), true);
  const std::vector<bool> all_inputs(training.function->inputs.size(), true);
  Joint joint = make_joint(training, all_outputs, all_inputs, /*last=*/true);
  const std::unique_ptr<Graph> plain = training.function->clone();
  remove_functions(*plain);
  const std::vector<Needed> needed = needed_by_backward(training, joint);
  PartitionOptions measured = options;
  measured.peak = [&](const std::vector<Kept>& kept) {
    return backward_peak(joint, kept, training.function->next_value_id());
  };
  std::vector<Kept> kept = partition(*plain, needed, measured);
  for (Kept& each : kept) each.value = training.function->value(each.value->id);
  make_forward(training, kept, options);
  for (const auto& node : training.function->nodes) {
    if (node->op != &op("core.function")) continue;
    const Args args(node->op->parsed[0], node->args);
    // Nobody knows whether what it gives for some gradients alone adds up to what it gives for all.
    const bool has_sets = args.constant("optional") > 0;
    if (has_sets || !is_linear(args.graph("backward"), node->results.size()))
      training.once_differentiable = true;
  }
  return training;
}

std::unique_ptr<Graph> make_joint_graph(const Training& training) {
  Joint joint = make_joint(training, training.output_differentiable, training.input_wanted, /*last=*/true);
  Builder builder(*joint.graph, Level::kCore);
  for (Value* gradient : joint.gradients)
    if (gradient) as_output(builder, gradient);
  settle(*joint.graph);
  return std::move(joint.graph);
}

Backward make_backward(const Training& training, const std::vector<bool>& cotangents,
                       const std::vector<bool>& gradients) {
  Joint joint = make_joint(training, cotangents, gradients, /*last=*/true);
  Backward backward{.graph = empty_like(*joint.graph), .gradients = {}};
  Graph& graph = *backward.graph;
  Extractor extract(*joint.graph, graph);
  for (const SavedValue& saved : training.saved) {
    Value* input = graph.add_input(saved.value->type, absl::StrCat("saved_", saved.value->name));
    extract.map(joint.graph->value(saved.value->id), input);
  }
  for (const Value* cotangent : joint.cotangents)
    if (cotangent) extract.map(cotangent, graph.add_input(cotangent->type, cotangent->name));

  const GradientStrides strides(*joint.graph, joint.gradients);
  std::vector<Root> roots;
  std::vector<Value*> wanted;
  for (Value* gradient : joint.gradients) {
    roots.push_back(gradient ? find_root(*graph.sym, strides, gradient) : Root{nullptr, {}, false});
    if (gradient) wanted.push_back(roots.back().value);
  }
  extract.copy(*joint.graph, wanted, training.function->next_value_id());

  Builder builder(graph, Level::kCore);
  absl::flat_hash_map<Value*, int> output_of;
  for (size_t i = 0; i < roots.size(); ++i) {
    Gradient& gradient = backward.gradients.emplace_back();
    if (!roots[i].value) continue;
    gradient.is_view = roots[i].is_view;
    gradient.sizes = roots[i].layout.sizes;
    gradient.strides = roots[i].layout.strides;
    gradient.offset = roots[i].layout.offset;
    const auto cotangent = std::find(joint.cotangents.begin(), joint.cotangents.end(), roots[i].value);
    if (cotangent != joint.cotangents.end()) {
      gradient.kind = Gradient::kCotangent;
      gradient.index = static_cast<int>(cotangent - joint.cotangents.begin());
      continue;
    }
    gradient.kind = Gradient::kFresh;
    const auto [found, is_new] = output_of.emplace(roots[i].value, static_cast<int>(graph.outputs.size()));
    gradient.index = found->second;
    if (!is_new) continue;
    as_output(builder, extract(roots[i].value))->type.strides = strides.of(roots[i].value);
  }
  settle(graph);
  return backward;
}

namespace {

// By value id of the function: does it depend on random numbers?
std::vector<bool> find_random(const Graph& function) {
  std::vector<bool> is_random(function.next_value_id());
  for (const auto& node : function.nodes) {
    bool any = node->op->family == Family::kRandom;
    for_each_operand(*node, [&](Value*& operand) { any |= is_random[operand->id]; });
    for (const Value* result : node->results) is_random[result->id] = any;
  }
  return is_random;
}

// The random numbers are the forward's: what was saved of them comes in, and none is made again.
std::vector<int> take_random_as_inputs(const Training& training, Graph& graph) {
  const std::vector<bool> is_random = find_random(*training.function);
  const std::vector<bool> differentiated = differentiated_values(training);
  std::vector<int> draws;
  absl::flat_hash_map<Value*, Value*> inputs;
  for (size_t i = 0; i < training.saved.size(); ++i) {
    const Value* saved = training.saved[i].value;
    if (!is_random[saved->id] || differentiated[saved->id]) continue;
    inputs[graph.value(saved->id)] = graph.add_input(saved->type, absl::StrCat("random_", saved->name));
    draws.push_back(static_cast<int>(i));
  }
  for (const auto& node : graph.nodes)
    for_each_operand(*node, [&](Value*& operand) {
      if (const auto found = inputs.find(operand); found != inputs.end()) operand = found->second;
    });
  return draws;
}

void remove_random(Graph& graph) {
  eliminate_dead_code(graph, /*keep_random=*/false);
  for (const auto& node : graph.nodes)
    if (node->op->family == Family::kRandom)
      throw Unsupported("a higher derivative of a graph whose random numbers were not kept");
}

}  // namespace

GradientFunction make_gradient_function(const Training& training, const std::vector<bool>& cotangents,
                                        const std::vector<bool>& gradients) {
  Joint joint = make_joint(training, cotangents, gradients, /*last=*/false);
  GradientFunction result{.graph = std::move(joint.graph), .draws = {}, .outputs = {}};
  Graph& graph = *result.graph;
  result.draws = take_random_as_inputs(training, graph);
  graph.outputs.clear();
  Builder builder(graph, Level::kCore);
  for (size_t i = 0; i < joint.gradients.size(); ++i) {
    if (!joint.gradients[i]) continue;
    as_output(builder, joint.gradients[i]);
    result.outputs.push_back(static_cast<int>(i));
  }
  remove_random(graph);
  optimize(graph, {}, /*for_training=*/true);
  std::vector<bool> read(graph.next_value_id());
  for (const auto& node : graph.nodes)
    for_each_operand(*node, [&](Value*& operand) { read[operand->id] = true; });
  for (const Value* output : graph.outputs) read[output->id] = true;
  for (const Value* input : graph.inputs) result.reads.push_back(read[input->id]);
  return result;
}

}  // namespace cdynamo::graph
