// Functionalisation and decomposition in one walk: the captured graph is executed on core values.
//
// Every captured tensor is a view of a storage: a chain of core view steps from the storage's base tensor. A
// storage has one current content, a core value. An in-place node makes a new content of its view and
// scatters it back, step by step, to a new content of the storage; views that were read before are derived
// again when they are read next. At the end the contents of written inputs become Graph::mutations, and each
// output is told by the storage that it looks at.
//
// Whether a result shares storage is said by the operator's entry (OpDef::view, OpDef::alias); which elements
// it looks at is read from its expansion, which is core views only.
#include <algorithm>
#include <deque>

#include "graph/core.h"
#include "graph/passes.h"
#include "graph/passes/view_step.h"
#include "graph/strides.h"

namespace cdynamo::graph {
namespace {

struct Storage {
  Value* current = nullptr;     // content of the base tensor, a core value
  int version = 0;              // grows with each write
  const Value* base = nullptr;  // the captured value whose type is the storage's layout
  int input = -1;               // index of the graph input that owns it
  int output = -1;              // index in core->outputs once an output needs it
};

// What a captured value is: a view of a storage, and the content of it that was derived last.
struct Binding {
  Storage* storage = nullptr;
  std::vector<ViewStep> chain;  // from the storage's base
  Sym offset = 0;
  const Value* object = nullptr;  // the captured value that stands for the same Python object
  Value* content = nullptr;
  int version = -1;  // of the storage, when `content` was derived
};

class Functionalizer {
 public:
  // The core nodes are appended to `core`.
  Functionalizer(const Graph& captured, Graph& core)
      : captured_(captured), core_(core), builder_(core, Level::kCore) {
    bindings_.resize(captured_.next_value_id());
  }

  Prepared run(std::unique_ptr<Graph> core) {
    for (size_t i = 0; i < captured_.inputs.size(); ++i) {
      const Value* input = captured_.inputs[i];
      bind_input(static_cast<int>(i), core_.add_input(input->type, input->name));
    }
    execute_nodes();
    for (Storage& storage : storages_)
      if (storage.input >= 0 && storage.version > 0)
        core_.mutations.push_back({storage.input, computed(storage.current)});
    Prepared prepared;
    for (Value* output : captured_.outputs) prepared.outputs.push_back(classify(output));
    prepared.core = std::move(core);
    return prepared;
  }

  std::vector<Value*> expand(const std::vector<Value*>& inputs) {
    for (size_t i = 0; i < inputs.size(); ++i) bind_input(static_cast<int>(i), inputs[i]);
    execute_nodes();
    for (const Storage& storage : storages_)
      if (storage.input >= 0 && storage.version > 0)
        throw Unsupported("a function that writes to what it is given");
    std::vector<Value*> results;
    for (const Value* output : captured_.outputs) results.push_back(read(output));
    return results;
  }

 private:
  SymContext& sym() { return *core_.sym; }
  Binding& binding(const Value* value) { return bindings_[value->id]; }

  // What is written to one input may be another's content, or a view of it: it is copied before any input is
  // written.
  Value* computed(Value* value) {
    if (value->node && value->node->op->family != Family::kView) return value;
    return builder_.call1("core.cast", {value, value->type.dtype});
  }

  void execute_nodes() {
    const Framework between = core_.framework;
    for (const auto& node : captured_.nodes) {
      builder_.set_location(node->location, node->user_call, node->region);
      core_.framework = node->framework;
      if (!node->results.empty()) builder_.set_device(node->results[0]->type.device);
      execute(*node);
    }
    builder_.set_location(-1, -1, 0);
    core_.framework = between;
  }

  void bind_input(int index, Value* content) {
    const Value* input = captured_.inputs[index];
    Storage& storage = storages_.emplace_back(Storage{.current = content, .base = input, .input = index});
    binding(input) = {.storage = &storage, .object = input, .content = content, .version = 0};
  }

  // The present content of a captured value.
  Value* read(const Value* value) {
    Binding& b = binding(value);
    if (!b.storage) throw InternalError("functionalize: a value is used before it is made: " + value->name);
    if (b.version != b.storage->version) {
      Value* content = b.storage->current;
      for (const ViewStep& step : b.chain) content = apply(builder_, step, content);
      b.content = content;
      b.version = b.storage->version;
    }
    return b.content;
  }

  // `past_gradient`: the history stays what it was, as eager's does where the mode forbids to note the write.
  void write(const Value* value, Value* content, bool past_gradient = false) {
    Binding& b = binding(value);
    if (!past_gradient) refuse_write_past_gradient(b);
    refuse_write_to_overlapping(b);
    std::vector<Value*> operands = {b.storage->current};
    for (const ViewStep& step : b.chain) operands.push_back(apply(builder_, step, operands.back()));
    Value* result = content;
    for (size_t i = b.chain.size(); i-- > 0;)
      result = scatter_back(builder_, b.chain[i], operands[i], result);
    if (past_gradient && b.storage->base->requires_grad && b.storage->input < 0) {
      result = builder_.call1("core.slope", {result, b.storage->current, Arg()});
      content = result;
      for (const ViewStep& step : b.chain) content = apply(builder_, step, content);
    }
    b.storage->current = result;
    b.version = ++b.storage->version;
    b.content = content;
  }

  // Eager leaves the gradient of what lies beneath a detached view as it was.
  static void refuse_write_past_gradient(const Binding& b) {
    if (!b.storage->base->requires_grad || b.storage->input >= 0) return;  // inputs: capture sees to it
    for (const ViewStep& step : b.chain)
      if (step.op->name == "core.detach")
        throw Unsupported("a write through a detached view of " + b.storage->base->name +
                          ", which requires grad");
  }

  // The new content of an input is written element by element: each has to have a place of its own.
  void refuse_write_to_overlapping(const Binding& b) {
    if (b.storage->input < 0) return;
    const TensorType& type = b.storage->base->type;
    if (std::ranges::find(type.sizes, Sym(0)) != type.sizes.end()) return;
    for (int d = 0; d < type.rank(); ++d)
      if (type.strides[d] == Sym(0) && !(type.sizes[d] == Sym(1)))
        throw Unsupported("a write to " + b.storage->base->name + ", which is expanded");
  }

  // The value as the type that eager's in-place result has: the operand's.
  Value* coerce(Value* value, const TensorType& type) {
    if (value->type.dtype != type.dtype) value = builder_.call1("core.cast", {value, type.dtype});
    if (value->type.rank() != type.rank()) {
      std::vector<Sym> sizes(type.sizes.size() - std::min(type.sizes.size(), value->type.sizes.size()), 1);
      sizes.insert(sizes.end(), value->type.sizes.begin(), value->type.sizes.end());
      value = builder_.call1("core.reshape", {value, sizes});
    }
    if (!same_sizes(sym(), value->type.sizes, type.sizes))
      value = builder_.call1("core.expand", {value, type.sizes});
    return value;
  }

  static void refuse_written_arguments(const Node& node) {
    const Schema& schema = node.op->parsed[node.overload];
    for (size_t i = node.in_place ? 1 : 0; i < schema.params.size() && i < node.args.size(); ++i)
      if (auto* value = std::get_if<Value*>(&node.args[i]); schema.params[i].mutated && value && *value)
        throw Unsupported(name_of(node) + " writes to its argument " + schema.params[i].name);
  }

  void execute(const Node& node) {
    if (node.op->family == Family::kLibrary) refuse_written_arguments(node);
    std::vector<Arg> args = node.args;
    std::vector<const Value*> captured_operands;
    std::vector<Value*> operands;  // in step with captured_operands
    const auto substitute = [&](Value*& value) {
      captured_operands.push_back(value);
      value = read(value);
      operands.push_back(value);
    };
    for (Arg& arg : args) {
      if (auto* value = std::get_if<Value*>(&arg)) {
        if (*value) substitute(*value);
      } else if (auto* list = std::get_if<std::vector<Value*>>(&arg)) {
        for (Value*& value : *list)
          if (value) substitute(value);
      }
    }
    const bool library = node.op->family == Family::kLibrary;
    static const OpDef* const function = &op("core.function");
    std::vector<Value*> results = library ? copy_library_node(node, std::move(args))
                                          : builder_.call(*node.op, node.overload, std::move(args));
    if (results.size() < node.results.size())
      throw InternalError("functionalize: too few results of " + name_of(node));
    if (node.op == function) return write_function_results(node, results);
    const Alias alias = alias_of_call(node);
    for (size_t i = 0; i < node.results.size(); ++i) {
      if (is_cut(node, alias, captured_operands) && runtime::is_float(results[i]->type.dtype))
        results[i] = builder_.call1("core.detach", {results[i]});
      if (alias == Alias::kNone && looks_at(results[i], operands))
        results[i] = builder_.call1("core.copy", {results[i]});
      if (alias != Alias::kNone)
        bind_alias(node, i, alias, results[i], captured_operands, operands);
      else if (node.in_place && i == 0)
        bind_write(node, captured_operands, results[i], operands);
      else
        bind_fresh(node, node.results[i], results[i]);
    }
    write_arguments(node, results);
  }

  // Views that are made under no_grad are marked whether there is a gradient to cut or not.
  static bool is_cut(const Node& node, Alias alias, const std::vector<const Value*>& operands) {
    return node.no_grad && alias != Alias::kSelf &&
           (alias == Alias::kNone || std::ranges::any_of(operands, &Value::requires_grad));
  }

  // Whether a result, new memory in eager (a clone), is an operand's content or a view of it.
  static bool looks_at(const Value* result, const std::vector<Value*>& operands) {
    return std::ranges::any_of(operands,
                               [&](const Value* operand) { return base_of(operand) == base_of(result); });
  }

  // A body gives the new contents of the arguments that the schema marks, after the results.
  void write_arguments(const Node& node, const std::vector<Value*>& results) {
    const Schema& schema = node.op->parsed[node.overload];
    size_t next = node.results.size();
    for (size_t i = 0; i < schema.params.size() && next < results.size(); ++i)
      if (auto* value = std::get_if<Value*>(&node.args[i]); schema.params[i].mutated && value && *value)
        write(*value, coerce(results[next++], (*value)->type));
  }

  // The tensors that the forward of a Function has made have the Function's history from here on.
  void write_function_results(const Node& node, const std::vector<Value*>& results) {
    const std::vector<Value*> outputs = Args(node.op->parsed[0], node.args).values("outputs");
    for (size_t i = 0; i < outputs.size(); ++i) {
      write(outputs[i], results.at(i));
      binding(node.results[i]) = binding(outputs[i]);
    }
  }

  static std::string name_of(const Node& node) { return std::string(node.op->name); }

  std::vector<Value*> copy_library_node(const Node& node, std::vector<Arg> args) {
    const int64_t differentiable = Args(node.op->parsed[node.overload], args).constant("differentiable");
    auto& operands = std::get<std::vector<Value*>>(args.at(0));
    for (size_t i = 0; differentiable >= 0 && i < std::min<size_t>(operands.size(), 63 - kUnsaved); ++i)
      if (differentiable >> (kUnsaved + i) & 1) operands[i] = builder_.call1("core.copy", {operands[i]});
    std::vector<TensorType> types;
    for (const Value* result : node.results) types.push_back(result->type);
    Node* copy = core_.add_node(node.op, node.overload, std::move(args), std::move(types));
    copy->location = node.location;
    copy->user_call = node.user_call;
    copy->region = node.region;
    return copy->results;
  }

  // How the call itself relates its result to its operand; an in-place call of what returns its operand
  // writes nothing.
  static Alias alias_of_call(const Node& node) {
    if (node.op->alias) return node.op->alias(node);
    return node.op->view ? Alias::kView : Alias::kNone;
  }

  // The operand that `result` is an index map of, with the steps from it; -1: none. Where a core value stands
  // for several operands, result i of a call is taken for a view of operand i.
  static int find_root(Value* result, size_t index, const std::vector<Value*>& operands,
                       std::vector<ViewStep>& steps) {
    for (Value* value = result;;) {
      if (index < operands.size() && operands[index] == value) return static_cast<int>(index);
      const auto found = std::find(operands.begin(), operands.end(), value);
      if (found != operands.end()) return static_cast<int>(found - operands.begin());
      if (!value->node || !is_aliasing_view(*value->node->op)) return -1;
      steps.insert(steps.begin(), make_view_step(*value->node));
      value = std::get<Value*>(value->node->args[0]);
    }
  }

  void bind_alias(const Node& node, size_t index, Alias alias, Value* result,
                  const std::vector<const Value*>& captured_operands, const std::vector<Value*>& operands) {
    std::vector<ViewStep> steps;
    const int root = find_root(result, index, operands, steps);
    if (root < 0) throw Unsupported("a view that is not made of index maps: " + name_of(node));
    const Value* source = captured_operands[root];
    const Value* target = node.results[index];
    Binding view = binding(source);
    StorageLayout layout{source->type.sizes, source->type.strides, view.offset};
    for (const ViewStep& step : steps)
      if (!advance(sym(), step, layout))
        throw Unsupported("a view whose elements cannot be addressed: " + name_of(node));
    if (node.in_place && !steps.empty())
      throw Unsupported("an in-place change of shape: " + name_of(node) + "_");
    view.chain.insert(view.chain.end(), steps.begin(), steps.end());
    view.offset = layout.offset;
    if (!node.in_place && alias != Alias::kSelf) view.object = target;
    view.content = result;
    binding(target) = std::move(view);
  }

  // Eager gives the operands of `x.eq_(y)` gradients of zeros.
  Value* with_zero_gradients(const Node& node, Value* result,
                             const std::vector<const Value*>& captured_operands,
                             const std::vector<Value*>& operands) {
    if (node.op->differentiable || node.no_grad || writes_untracked(*node.op) ||
        !runtime::is_float(result->type.dtype))
      return result;
    for (size_t i = 0; i < operands.size(); ++i)
      if (captured_operands[i]->requires_grad) result = builder_.call1("core.follow", {result, operands[i]});
    return result;
  }

  void bind_write(const Node& node, const std::vector<const Value*>& captured_operands, Value* result,
                  const std::vector<Value*>& operands) {
    const Value* target = captured_operands.at(0);
    Value* content = with_zero_gradients(node, coerce(result, target->type), captured_operands, operands);
    write(target, content, node.no_grad || writes_untracked(*node.op));
    binding(node.results[0]) = binding(target);
  }

  // A result in a storage of its own.
  void bind_fresh(const Node& node, const Value* target, Value* result) {
    const bool same_rank =
        result->type.dtype == target->type.dtype && result->type.rank() == target->type.rank();
    const bool same = same_rank && same_sizes(sym(), result->type.sizes, target->type.sizes);
    // What has been assumed since of numbers that are read may say the same size in other words.
    if (same_rank && !same &&
        std::ranges::any_of(target->type.sizes, [&](const Sym& size) { return sym().reads_data(size); }))
      throw Unsupported(name_of(node) + " of a size that depends on data and is told in two ways");
    if (!same)
      throw InternalError("functionalize: the expansion of " + name_of(node) +
                          " has another type than its result " + target->name);
    if (result->type.weak != target->type.weak) {
      // A type belongs to one value: where the expansion came down to an operand, a copy keeps them apart.
      result = builder_.call1("core.cast", {result, result->type.dtype});
      result->type.weak = target->type.weak;
    }
    Storage& storage = storages_.emplace_back(Storage{.current = result, .base = target});
    binding(target) = {.storage = &storage, .object = target, .content = result, .version = 0};
  }

  OutputAlias classify(const Value* output) {
    const Binding& b = binding(output);
    if (!b.storage) throw InternalError("functionalize: an output is not made by the graph: " + output->name);
    OutputAlias alias{.sizes = output->type.sizes, .strides = output->type.strides, .offset = b.offset};
    const bool whole = b.object == b.storage->base && b.chain.empty();
    if (output->type.dtype != b.storage->base->type.dtype) alias.dtype = output->type.dtype;
    if (b.storage->input >= 0) {
      alias.kind = whole ? OutputAlias::kInput : OutputAlias::kViewOfInput;
      alias.index = b.storage->input;
    } else {
      require_dense(*b.storage);
      alias.kind = whole ? OutputAlias::kFresh : OutputAlias::kViewOfOutput;
      alias.index = fresh_output(*b.storage);
    }
    return alias;
  }

  // The caller makes a buffer of as many elements as there are: eager's fresh results leave no gaps and do
  // not overlap.
  void require_dense(const Storage& storage) {
    if (!is_non_overlapping_and_dense(sym(), storage.base->type))
      throw Unsupported("a result of its own storage whose elements overlap or leave gaps: " +
                        storage.base->name);
  }

  // Outputs are nodes' results and pairwise different, so that each can be written to its own buffer with its
  // own strides.
  int fresh_output(Storage& storage) {
    if (storage.output >= 0) return storage.output;
    Value* value = storage.current;
    const std::vector<Value*>& outputs = core_.outputs;
    if (!value->node || std::find(outputs.begin(), outputs.end(), value) != outputs.end())
      value = builder_.call1("core.cast", {value, value->type.dtype});
    value->type.strides = storage.base->type.strides;
    value->type.weak = false;
    core_.outputs.push_back(value);
    return storage.output = static_cast<int>(outputs.size()) - 1;
  }

  const Graph& captured_;
  Graph& core_;
  Builder builder_;
  std::deque<Storage> storages_;
  std::vector<Binding> bindings_;  // by id of the captured value
};

}  // namespace

Prepared functionalize(const Graph& captured) {
  auto core = std::make_unique<Graph>(captured.sym);
  core->framework = captured.framework;
  core->torch_float = captured.torch_float;
  core->locations = captured.locations;
  Graph& graph = *core;
  return Functionalizer(captured, graph).run(std::move(core));
}

std::vector<Value*> expand_captured(Builder& builder, const Graph& captured,
                                    const std::vector<Value*>& inputs) {
  return Functionalizer(captured, builder.graph()).expand(inputs);
}

}  // namespace cdynamo::graph
