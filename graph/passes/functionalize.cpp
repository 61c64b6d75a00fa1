// Functionalisation and decomposition in one walk: the captured graph is executed on core values.
//
// Every captured tensor is a view of a storage: a chain of core view steps from the storage's base tensor. A storage has
// one current content, a core value. An in-place node makes a new content of its view and scatters it back, step by step,
// to a new content of the storage; views that were read before are derived again when they are read next. At the end the
// contents of written inputs become Graph::mutations, and each output is told by the storage that it looks at.
//
// Whether a result shares storage is eager's decision: the operator's entry says that it may (OpDef::view); it does
// where its expansion is index maps only and the strides that these lead to are the strides that eager gives the result.
#include <algorithm>
#include <array>
#include <deque>
#include <unordered_map>
#include <unordered_set>

#include "graph/core.h"
#include "graph/passes.h"
#include "graph/passes/layout.h"

namespace cdynamo::graph {
namespace {

// Operators that return the very object they were given, not a new view of it, where there is nothing to do.
constexpr std::string_view kReturnsSelf[] = {
    "to",       "contiguous", "dropout",  "feature_dropout", "alpha_dropout", "positive", "type_as", "flatten",
    "real",     "conj",       "resolve_conj", "resolve_neg", "atleast_1d",    "atleast_2d", "atleast_3d",
    "requires_grad_", "cpu",  "cuda",     "float",           "double",        "half",     "bfloat16",
    "int",      "long",       "bool",     "short",           "char",          "byte",     "type",
    "numpy_asarray", "asarray", "expand_dims_if_needed", "lift_fresh", "__pos__",
};

struct Storage {
  Value* current = nullptr;   // content of the base tensor, a core value
  int version = 0;            // grows with each write
  const Value* base = nullptr;  // the captured value whose type is the storage's layout
  int input = -1;             // index of the graph input that owns it
  int output = -1;            // index in core->outputs once an output needs it
};

// What a captured value is: a view of a storage, and the content of it that was derived last.
struct Binding {
  Storage* storage = nullptr;
  std::vector<ViewStep> chain;  // from the storage's base
  Sym offset = 0;
  const Value* object = nullptr;  // the captured value that stands for the same Python object
  Value* content = nullptr;
  int version = -1;             // of the storage, when `content` was derived
};

class Functionalizer {
 public:
  explicit Functionalizer(const Graph& captured)
      : captured_(captured), core_(std::make_unique<Graph>(captured.sym)), builder_(*core_, Level::kCore) {
    core_->framework = captured.framework;
    core_->default_float = captured.default_float;
    core_->locations = captured.locations;
  }

  Prepared run() {
    bindings_.resize(captured_.next_value_id());
    for (size_t i = 0; i < captured_.inputs.size(); ++i) bind_input(static_cast<int>(i));
    for (const auto& node : captured_.nodes) {
      builder_.set_location(node->location, node->user_call);
      execute(*node);
    }
    builder_.set_location(-1, -1);
    for (Storage& storage : storages_)
      if (storage.input >= 0 && storage.version > 0) core_->mutations.push_back({storage.input, storage.current});
    Prepared prepared;
    for (Value* output : captured_.outputs) prepared.outputs.push_back(classify(output));
    prepared.core = std::move(core_);
    return prepared;
  }

 private:
  SymContext& sym() { return *core_->sym; }
  Binding& binding(const Value* value) { return bindings_[value->id]; }

  void bind_input(int index) {
    const Value* input = captured_.inputs[index];
    Value* content = core_->add_input(input->type, input->name);
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

  void write(const Value* value, Value* content) {
    Binding& b = binding(value);
    std::vector<Value*> operands = {b.storage->current};
    for (const ViewStep& step : b.chain) operands.push_back(apply(builder_, step, operands.back()));
    Value* result = content;
    for (size_t i = b.chain.size(); i-- > 0;) result = scatter_back(builder_, b.chain[i], operands[i], result);
    b.storage->current = result;
    b.version = ++b.storage->version;
    b.content = content;
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

  void execute(const Node& node) {
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
    const int first_new_value = core_->next_value_id();
    const bool library = node.op->family == Family::kLibrary;
    std::vector<Value*> results = library ? copy_library_node(node, std::move(args))
                                          : builder_.call(*node.op, node.overload, std::move(args));
    if (results.size() < node.results.size()) throw InternalError("functionalize: too few results of " + name_of(node));
    for (size_t i = 0; i < node.results.size(); ++i) {
      const bool in_place = node.in_place && i == 0;
      if (may_alias(node) && bind_alias(node, i, results[i], captured_operands, operands, in_place)) continue;
      if (in_place) bind_write(node, captured_operands.at(0), results[i]);
      else bind_fresh(node, node.results[i], results[i], first_new_value);
    }
  }

  static std::string name_of(const Node& node) { return std::string(node.op->name); }

  std::vector<Value*> copy_library_node(const Node& node, std::vector<Arg> args) {
    std::vector<TensorType> types;
    for (const Value* result : node.results) types.push_back(result->type);
    Node* copy = core_->add_node(node.op, node.overload, std::move(args), std::move(types));
    copy->location = node.location;
    copy->user_call = node.user_call;
    return copy->results;
  }

  static bool may_alias(const Node& node) {
    if (!node.op->view) return false;
    const Schema& schema = node.op->parsed[node.overload];
    const int copy = schema.find("copy");
    const bool* flag = copy < 0 ? nullptr : std::get_if<bool>(&node.args[copy]);
    return !flag || !*flag;
  }

  // The operand that `result` is an index map of, with the steps from it; -1: none. Where a core value stands for several
  // operands, result i of a call is taken for a view of operand i.
  static int find_root(Value* result, size_t index, const std::vector<Value*>& operands, std::vector<ViewStep>& steps) {
    for (Value* value = result;;) {
      if (index < operands.size() && operands[index] == value) return static_cast<int>(index);
      const auto found = std::find(operands.begin(), operands.end(), value);
      if (found != operands.end()) return static_cast<int>(found - operands.begin());
      if (!value->node || !is_aliasing_view(*value->node->op)) return -1;
      steps.insert(steps.begin(), make_view_step(*value->node));
      value = std::get<Value*>(value->node->args[0]);
    }
  }

  // Strides of dimensions of one element, and of empty tensors, are not observable through any access.
  bool same_strides(const Layout& layout, const TensorType& type) {
    for (size_t d = 0; d < layout.sizes.size(); ++d) {
      if (layout.sizes[d] == Sym(0)) return true;
    }
    for (size_t d = 0; d < layout.sizes.size(); ++d)
      if (!same_size(sym(), layout.sizes[d], 1) && !same_size(sym(), layout.strides[d], type.strides[d])) return false;
    return true;
  }

  bool bind_alias(const Node& node, size_t index, Value* result, const std::vector<const Value*>& captured_operands,
                  const std::vector<Value*>& operands, bool in_place) {
    std::vector<ViewStep> steps;
    const int root = find_root(result, index, operands, steps);
    if (root < 0) return false;
    const Value* source = captured_operands[root];
    const Value* target = node.results[index];
    const Binding& from = binding(source);
    Layout layout{source->type.sizes, source->type.strides, from.offset};
    for (const ViewStep& step : steps)
      if (!advance(sym(), step, layout)) return false;
    if (layout.sizes.size() != target->type.sizes.size() || !same_strides(layout, target->type)) return false;

    if (in_place && !steps.empty() && from.object->node == nullptr)
      throw Unsupported("an in-place change of the shape of an input: " + name_of(node) + "_");
    const bool same_object =
        steps.empty() &&
        (in_place || std::find(std::begin(kReturnsSelf), std::end(kReturnsSelf), node.op->name) != std::end(kReturnsSelf));
    Binding view = from;
    view.chain.insert(view.chain.end(), steps.begin(), steps.end());
    view.offset = layout.offset;
    view.object = same_object ? from.object : target;
    view.content = result;
    binding(target) = std::move(view);
    return true;
  }

  void bind_write(const Node& node, const Value* target, Value* result) {
    write(target, coerce(result, target->type));
    binding(node.results[0]) = binding(target);
  }

  // A result in a storage of its own. Its core value is its own too, so that a type (strides, weakness) belongs to one
  // captured value: where the expansion came down to an operand, as for clone, a copy keeps them apart.
  void bind_fresh(const Node& node, const Value* target, Value* result, int first_new_value) {
    if (result->type.dtype != target->type.dtype || result->type.rank() != target->type.rank() ||
        !same_sizes(sym(), result->type.sizes, target->type.sizes))
      throw InternalError("functionalize: the expansion of " + name_of(node) + " has another type than its result " +
                          target->name);
    if (result->id < first_new_value || !owned_.insert(result).second) {
      result = builder_.call1("core.cast", {result, result->type.dtype});
      owned_.insert(result);
    }
    result->type.strides = target->type.strides;
    result->type.weak = target->type.weak;
    Storage& storage = storages_.emplace_back(Storage{.current = result, .base = target});
    binding(target) = {.storage = &storage, .object = target, .content = result, .version = 0};
  }

  OutputAlias classify(const Value* output) {
    const Binding& b = binding(output);
    if (!b.storage) throw InternalError("functionalize: an output is not made by the graph: " + output->name);
    OutputAlias alias{.sizes = output->type.sizes, .strides = output->type.strides, .offset = b.offset};
    const bool whole = b.object == b.storage->base && b.chain.empty();
    if (b.storage->input >= 0) {
      alias.kind = whole ? OutputAlias::kInput : OutputAlias::kViewOfInput;
      alias.index = b.storage->input;
    } else {
      alias.kind = whole ? OutputAlias::kFresh : OutputAlias::kViewOfOutput;
      alias.index = fresh_output(*b.storage);
    }
    return alias;
  }

  // Outputs are nodes' results and pairwise different, so that each can be written to its own buffer with its own strides.
  int fresh_output(Storage& storage) {
    if (storage.output >= 0) return storage.output;
    Value* value = storage.current;
    const std::vector<Value*>& outputs = core_->outputs;
    if (!value->node || std::find(outputs.begin(), outputs.end(), value) != outputs.end())
      value = builder_.call1("core.cast", {value, value->type.dtype});
    const TensorType& base = storage.base->type;
    for (int d = 0; d < base.rank(); ++d)
      if (base.strides[d] == Sym(0) && !(base.sizes[d] == Sym(0)) && !(base.sizes[d] == Sym(1)))
        throw Unsupported("a result of its own storage whose elements overlap: " + storage.base->name);
    value->type.strides = base.strides;
    value->type.weak = false;
    core_->outputs.push_back(value);
    return storage.output = static_cast<int>(outputs.size()) - 1;
  }

  const Graph& captured_;
  std::unique_ptr<Graph> core_;
  Builder builder_;
  std::deque<Storage> storages_;
  std::vector<Binding> bindings_;           // by id of the captured value
  std::unordered_set<const Value*> owned_;  // core values that are some captured value's own
};

}  // namespace

Prepared functionalize(const Graph& captured) { return Functionalizer(captured).run(); }

}  // namespace cdynamo::graph
