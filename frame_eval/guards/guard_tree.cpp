#include "frame_eval/guards/guard_tree.h"

#include <algorithm>
#include <unordered_set>

#include "absl/container/flat_hash_set.h"
#include "frame_eval/hook/frame.h"
#include "frame_eval/hook/hook.h"
#include "graph/op.h"
#include "graph/passes/view_step.h"
#include "symbolic/interop/abstract_class.h"
#include "symbolic/interop/numpy_errors.h"
#include "symbolic/interop/view_base.h"

namespace cdynamo::frame_eval {
namespace {

bool is_root(SourceKind kind) {
  switch (kind) {
    case SourceKind::kArgument:
    case SourceKind::kFunction:
    case SourceKind::kGlobal:
    case SourceKind::kBuiltin:
    case SourceKind::kClosure:
    case SourceKind::kClosureCell:
    case SourceKind::kConstant:
    case SourceKind::kHandled: return true;
    default: return false;
  }
}

// What the graph writes to, and what lies beneath it where that is a view.
std::unordered_set<const graph::Value*> written_values(const graph::Graph& graph) {
  std::unordered_set<const graph::Value*> values;
  for (const graph::CapturedWrite& write : graph::captured_writes(graph))
    values.insert(graph::view_history(write.target).root);
  return values;
}

// Places of the graph inputs that nodes of grad mode read and that require grad.
std::vector<int> inputs_with_history(const symbolic::CaptureResult& capture) {
  std::unordered_set<const graph::Value*> read;
  for (const auto& node : capture.graph->nodes)
    if (!node->no_grad)
      graph::for_each_operand(*node, [&](const graph::Value* value) { read.insert(value); });
  std::vector<int> places;
  for (size_t i = 0; i < capture.inputs.size(); ++i)
    if (const graph::Value* value = capture.inputs[i].value;
        value && value->requires_grad && read.contains(value))
      places.push_back(static_cast<int>(i));
  return places;
}

}  // namespace

GuardTree::GuardTree(const symbolic::CaptureResult& capture, const symbolic::Roots& roots)
    : symbol_bindings_(capture.symbols),
      sym_(capture.graph ? capture.graph->sym : nullptr),
      guard_torch_state_(capture.uses_torch) {
  if (guard_torch_state_) torch_state_ = symbolic::read_torch_state();
  guard_numpy_errors_ = capture.graph && capture.graph->has_nodes_of(graph::Framework::kNumpy);
  for (const SourcePtr& draw : capture.draws) node_for(draw);  // in this order
  for (const symbolic::Guard& guard : capture.guards) add_guard(guard, roots);
  std::stable_partition(distinct_.begin(), distinct_.end(), [](const Distinct& d) { return d.is_written; });
  num_written_ =
      std::count_if(distinct_.begin(), distinct_.end(), [](const Distinct& d) { return d.is_written; });
  add_constants(capture);
  num_inputs_ = capture.inputs.size();
  for (size_t i = 0; i < num_inputs_; ++i) add_input(capture.inputs[i], static_cast<int>(i));
  num_views_ = num_inputs_;
  for (TensorLeaf& tensor : tensors_)
    if (tensor.view < 0) tensor.view = static_cast<int>(num_views_++);
  for (size_t i = 0; i < symbol_bindings_.size(); ++i) place_symbol(static_cast<int>(i));
  nodes_ = {};
  for (const auto& root : roots_) find_unsettled(*root);
  if (!capture.graph) return;
  const std::unordered_set<const graph::Value*> written = written_values(*capture.graph);
  for (const TensorLeaf& tensor : tensors_)
    if (tensor.view < static_cast<int>(num_inputs_) && written.contains(capture.inputs[tensor.view].value))
      written_inputs_.push_back(tensor.view);
  // Those of which the program has told copies apart are compared as well.
  for (const symbolic::Guard& guard : capture.guards) {
    if (guard.kind != GuardKind::kDistinctTensors) continue;
    for (int i = 0; i < static_cast<int>(num_inputs_); ++i)
      if (symbolic::same_source(*capture.inputs[i].source, *guard.source) &&
          std::ranges::find(written_inputs_, i) == written_inputs_.end())
        written_inputs_.push_back(i);
  }
  const auto requires_grad = [&](int i) {
    return capture.inputs[i].value && capture.inputs[i].value->requires_grad;
  };
  if (std::ranges::any_of(written_inputs_, requires_grad)) historical_ = inputs_with_history(capture);
}

GuardTree::~GuardTree() = default;

GuardNode* GuardTree::node_for(const SourcePtr& source) {
  if (auto known = nodes_.find(source); known != nodes_.end()) return known->second;
  if (source->kind == SourceKind::kComputed) return computed_node(source);
  auto& siblings = is_root(source->kind) || !source->base ? roots_ : node_for(source->base)->children;
  siblings.push_back(std::make_unique<GuardNode>());
  GuardNode* node = siblings.back().get();
  node->source = source;
  node->key_hash = hash_of(source->key.get());
  nodes_.emplace(source, node);
  return node;
}

int GuardTree::slot_of(const SourcePtr& source) {
  GuardNode* node = node_for(source);
  if (node->slot < 0) node->slot = static_cast<int>(num_slots_++);
  return node->slot;
}

GuardNode* GuardTree::computed_node(const SourcePtr& source) {
  // Before it the computed numbers that it is an expression of.
  std::vector<bool> symbols(symbol_bindings_.size());
  for (const symbolic::Computation::Operand& operand : source->computation->operands) {
    graph::mark_symbols(operand.integer, symbols);
    for (const graph::Sym& integer : operand.integers) graph::mark_symbols(integer, symbols);
  }
  for (size_t i = 0; i < symbols.size(); ++i)
    if (const SourcePtr& number = symbol_bindings_[i].source;
        symbols[i] && number && number->kind == SourceKind::kComputed)
      node_for(number);
  auto computed = std::make_unique<ComputedNode>();
  computed->node.source = source;
  for (const symbolic::Computation::Operand& operand : source->computation->operands)
    computed->slots.push_back(operand.source ? slot_of(operand.source) : -1);
  computed_.push_back(std::move(computed));
  GuardNode* node = &computed_.back()->node;
  nodes_.emplace(source, node);
  return node;
}

void GuardTree::add_guard(const symbolic::Guard& guard, const symbolic::Roots& roots) {
  if (guard.kind == GuardKind::kDistinctTensors)
    return;  // written inputs are always compared with all others
  GuardNode* node = node_for(guard.source);
  if (guard.kind == GuardKind::kDistinctObjects && !guard.other) {
    distinct_.push_back({slot_of(guard.source), guard.index == 1, guard.source->name()});
    lines_.push_back(guard.source->name() + ": " + guard_text(guard));
    return;
  }
  Leaf leaf{.kind = guard.kind, .object = guard.object, .index = guard.index, .why = guard.why};
  std::string text;
  if (guard.kind == GuardKind::kTensor) {
    leaf.tensor_check = static_cast<int>(tensors_.size());
    TensorLeaf tensor{.check = symbolic::make_tensor_check(guard.tensor), .source = guard.source};
    tensor.stride_offset = static_cast<int>(num_strides_);
    num_strides_ += guard.tensor.sizes.size();
    tensors_.push_back(std::move(tensor));
    for (size_t d = 0; d < guard.tensor.sizes.size(); ++d) {
      if (!guard.tensor.sizes[d].is_constant())
        dynamic_extents_.push_back({leaf.tensor_check, static_cast<int>(d), false, guard.tensor.sizes[d]});
      if (!guard.tensor.strides[d].is_constant())
        dynamic_extents_.push_back({leaf.tensor_check, static_cast<int>(d), true, guard.tensor.strides[d]});
    }
  } else if (guard.kind == GuardKind::kSameObject || guard.kind == GuardKind::kDistinctObjects) {
    leaf.other_slot = slot_of(guard.other);
    identity_checks_.push_back({slot_of(guard.source), leaf.other_slot, guard.kind == GuardKind::kSameObject,
                                guard.source->name(), guard.other->name()});
  } else if (guard.kind == GuardKind::kTypeUnchanged) {
    PyObject* type = guard.object.get();
    if (type && PyType_Check(type)) {
      auto* class_ = reinterpret_cast<PyTypeObject*>(type);
      leaf.type_version = cdynamo_type_version(class_);
      // A class has so many versions, and then none (1,000 from Python 3.13 on).
      if (leaf.type_version == 0) ClassContents::note_change(class_);
      leaf.contents = ClassContents::of(class_);
    }
  } else if (guard.kind == GuardKind::kNotSubclass) {
    leaf.cache_token = symbolic::abc_cache_token();
  } else if (guard.kind == GuardKind::kKeyAbsent || guard.kind == GuardKind::kAttributeAbsent) {
    leaf.hash = hash_of(guard.object.get());
  } else if (guard.kind == GuardKind::kFunctionCode) {
    PyRef object = symbolic::follow(*guard.source, roots);
    if (object && PyFunction_Check(object.get())) {
      auto* function = reinterpret_cast<PyFunctionObject*>(object.get());
      if (guard.index == symbolic::kSameDefaults) {
        leaf.defaults = PyRef::borrow(function->func_defaults);
        leaf.kwdefaults = PyRef::borrow(function->func_kwdefaults);
      }
      if (function->func_defaults) leaf.num_defaults = PyTuple_GET_SIZE(function->func_defaults);
      leaf.has_kwdefaults = function->func_kwdefaults != nullptr;
      leaf.vectorcall = function->vectorcall;
    }
  }
  lines_.push_back(guard.source->name() + ": " + guard_text(guard) +
                   (guard.why.empty() ? "" : "   # " + guard.why));
  node->leaves.push_back(std::move(leaf));
}

// Classes and functions that are part of what is rebuilt have to be there still.
void GuardTree::add_constants(const symbolic::CaptureResult& capture) {
  absl::flat_hash_set<const symbolic::Recipe*> seen;
  std::vector<const symbolic::Recipe*> open;
  const auto visit = [&](const symbolic::RecipePtr& recipe) {
    if (recipe && seen.insert(recipe.get()).second) open.push_back(recipe.get());
  };
  for (const symbolic::RecipePtr& result : capture.results) visit(result);
  for (const symbolic::Effect& effect : capture.effects)
    for (const symbolic::RecipePtr& part : {effect.target, effect.key, effect.value}) visit(part);
  while (!open.empty()) {
    const symbolic::Recipe& recipe = *open.back();
    open.pop_back();
    for (const symbolic::RecipePtr& item : recipe.items) visit(item);
    const bool is_made_of_it =
        recipe.kind == symbolic::RecipeKind::kConstant || recipe.kind == symbolic::RecipeKind::kNewObject;
    if (!is_made_of_it || !recipe.object.is_weak()) continue;
    auto source = std::make_shared<symbolic::Source>();
    source->kind = SourceKind::kConstant;
    source->object = recipe.object;
    node_for(source);
  }
}

void GuardTree::add_input(const symbolic::GraphInput& input, int index) {
  GuardNode* node = node_for(input.source);
  node->inputs.push_back(index);
  if (input.kind != symbolic::InputKind::kTorchTensor && input.kind != symbolic::InputKind::kNumpyArray)
    return;
  for (Leaf& leaf : node->leaves)
    if (leaf.tensor_check >= 0) {
      tensors_[leaf.tensor_check].view = index;
      return;
    }
  throw graph::InternalError("graph input " + input.source->name() + " has no tensor guard");
}

// A symbol is an int, or a size of a tensor, which need not be an input of the graph.
void GuardTree::place_symbol(int symbol) {
  symbolic::SymbolBinding& binding = symbol_bindings_[symbol];
  if (binding.input >= 0 || !binding.source) return;
  if (binding.dim < 0) {
    node_for(binding.source)->symbols.push_back(symbol);
    return;
  }
  if (auto node = nodes_.find(binding.source); node != nodes_.end())
    for (const Leaf& leaf : node->second->leaves)
      if (leaf.tensor_check >= 0) binding.input = tensors_[leaf.tensor_check].view;
  if (binding.input < 0)
    throw graph::InternalError("size symbol of " + binding.source->name() + " has no tensor guard");
}

bool GuardTree::check(const symbolic::Roots& roots, Bindings& bindings, bool remembers) const {
  bindings.generators.clear();
  if (check_all(roots, bindings, remembers)) return true;
  bindings.generators.put_back();
  return false;
}

bool GuardTree::check_all(const symbolic::Roots& roots, Bindings& bindings, bool remembers) const {
  if (guard_torch_state_ && !(symbolic::read_torch_state() == torch_state_)) return false;
  if (guard_numpy_errors_ && symbolic::numpy_reports_errors()) return false;
  bindings.inputs.resize(num_inputs_);
  bindings.views.resize(num_views_);
  bindings.strides.resize(num_strides_);
  if (num_slots_) bindings.slots.assign(num_slots_, nullptr);
  if (!bindings.owned.empty()) bindings.owned.clear();
  if (!symbol_bindings_.empty()) bindings.symbols.assign(symbol_bindings_.size(), 0);
  struct Checking {
    int& checks;
    explicit Checking(int& under_way) : checks(under_way) { ++checks; }
    ~Checking() { --checks; }
  } checking(checks_);
  bindings.remembers = remembers && checks_ == 1;
  if (!check_roots(roots, bindings)) return false;
  for (const IdentityCheck& pair : identity_checks_)
    if ((bindings.slots[pair.a] == bindings.slots[pair.b]) != pair.same) return false;
  if (num_written_ && !check_distinct(bindings)) return false;
  if (!symbol_bindings_.empty()) bind_sizes(bindings);
  if (!computed_.empty() && !compute_numbers(roots, bindings)) return false;
  if (!symbol_bindings_.empty() && !(symbols_in_range(bindings) && check_symbols(bindings))) return false;
  return written_inputs_.empty() || (check_overlap(bindings) && check_histories(bindings));
}

bool GuardTree::check_roots(const symbolic::Roots& roots, Bindings& bindings) const {
  if (bindings.remembers && trace_.is_written) {
    if (run_trace(roots, bindings)) return true;
    trace_.drop();
    bindings.owned.clear();
  }
  for (const auto& node : roots_)
    if (!check_node(*node, nullptr, roots, bindings)) return false;
  if (bindings.remembers && trace_.is_due()) record_trace();
  return true;
}

bool GuardTree::check_node(GuardNode& node, PyObject* parent, const symbolic::Roots& roots,
                           Bindings& bindings) const {
  PyRef owner;
  PyObject* object = access(node, parent, roots, owner);
  if (!object) return false;
  if (owner) bindings.owned.push_back(std::move(owner));
  if (bindings.remembers) node.found = object;
  return check_object(node, object, roots, bindings);
}

bool GuardTree::check_object(GuardNode& node, PyObject* object, const symbolic::Roots& roots,
                             Bindings& bindings) const {
  if (node.slot >= 0) bindings.slots[node.slot] = object;
  const uint64_t version = !bindings.remembers || node.children.empty() || !PyDict_CheckExact(object)
                               ? 0
                               : cdynamo_dict_version(object);
  if (version && node.seen == object && node.seen_version == version) {
    for (GuardNode* child : node.unsettled)
      if (!check_object(*child, child->found, roots, bindings)) return false;
    return true;
  }
  if (bindings.remembers) node.seen_version = 0;
  for (const Leaf& leaf : node.leaves) {
    if (leaf.other_slot >= 0) continue;  // compared when every object is known
    if (leaf.tensor_check >= 0) {
      const TensorLeaf& tensor = tensors_[leaf.tensor_check];
      runtime::TensorView view;
      if (!symbolic::check_tensor(tensor.check, object, &view,
                                  bindings.strides.data() + tensor.stride_offset))
        return false;
      bindings.views[tensor.view] = view;
    } else if (!check_leaf(leaf, object)) {
      return false;
    }
  }
  for (int input : node.inputs) bindings.inputs[input] = object;
  for (int symbol : node.symbols) bindings.symbols[symbol] = PyLong_AsLongLong(object);
  for (const auto& child : node.children)
    if (!check_node(*child, object, roots, bindings)) return false;
  if (bindings.remembers) {
    node.seen = object;
    node.seen_version = version;
  }
  return true;
}

// Children of a dict whose objects may fail their checks, or are needed, though the dict itself is as it was.
void GuardTree::find_unsettled(GuardNode& node) {
  for (const auto& child : node.children) {
    find_unsettled(*child);
    if (!is_settled(*child)) node.unsettled.push_back(child.get());
  }
}

bool GuardTree::is_dead() const {
  const auto is_gone = [](const ConstantRef& constant) { return constant && !constant.get(); };
  std::vector<const GuardNode*> open;
  for (const auto& root : roots_) open.push_back(root.get());
  while (!open.empty()) {
    const GuardNode& node = *open.back();
    open.pop_back();
    if (is_gone(node.source->object)) return true;
    for (const Leaf& leaf : node.leaves)
      if (is_gone(leaf.object)) return true;
    for (const auto& child : node.children) open.push_back(child.get());
  }
  return false;
}

void GuardTree::bind_sizes(Bindings& bindings) const {
  for (size_t i = 0; i < symbol_bindings_.size(); ++i) {
    const symbolic::SymbolBinding& binding = symbol_bindings_[i];
    if (binding.input >= 0) bindings.symbols[i] = bindings.views[binding.input].sizes[binding.dim];
  }
}

PyRef GuardTree::compute(const ComputedNode& computed, Bindings& bindings) const {
  const auto run = [&] { return computed.compute(bindings.slots, sym_.get(), bindings.symbols.data()); };
  // One that makes a generator has none to draw from, and nobody else knows what was made: its state need not be put back.
  const symbolic::Computation& computation = *computed.node.source->computation;
  const SourcePtr generator = computation.operands.empty() ? nullptr : computation.operands[0].source;
  const bool draws = computation.draw >= 0 && generator && generator->kind != SourceKind::kComputed;
  if (!draws) return run();
  const HookScope no_hook(nullptr);  // most of random.Random's methods are Python, and some of NumPy's use it
  return bindings.generators.save(bindings.slots[computed.slots[0]]) ? run() : PyRef();
}

bool GuardTree::compute_numbers(const symbolic::Roots& roots, Bindings& bindings) const {
  for (const auto& computed : computed_) {
    PyRef number = compute(*computed, bindings);
    if (!number) return false;
    PyObject* object = number.get();
    bindings.owned.push_back(std::move(number));
    if (!check_object(computed->node, object, roots, bindings)) return false;
  }
  return true;
}

bool GuardTree::symbols_in_range(const Bindings& bindings) const {
  const auto& infos = sym_->symbols();
  for (size_t i = 0; i < symbol_bindings_.size(); ++i) {
    if (symbol_bindings_[i].input < 0 && infos[i].from_data) continue;
    if (bindings.symbols[i] < infos[i].min || bindings.symbols[i] > infos[i].max) return false;
  }
  return true;
}

bool GuardTree::check_symbols(const Bindings& bindings) const {
  const int64_t* values = bindings.symbols.data();
  for (const DynamicExtent& extent : dynamic_extents_) {
    const runtime::TensorView& view = bindings.views[tensors_[extent.check].view];
    const int64_t actual = extent.is_stride ? view.strides[extent.dim] : view.sizes[extent.dim];
    if (sym_->evaluate(extent.value, values) != actual) return false;
  }
  for (const graph::SymGuard& guard : sym_->guards())
    if (!sym_->reads_data(guard) && !graph::holds(*sym_, guard, values)) return false;
  return true;
}

// No object that is written to is another one of `distinct_`.
bool GuardTree::check_distinct(const Bindings& bindings) const {
  constexpr size_t kFew = 64;  // comparisons that are cheaper than a table
  const auto object = [&](size_t i) { return bindings.slots[distinct_[i].slot]; };
  if (num_written_ * distinct_.size() <= kFew) {
    for (size_t i = 0; i < num_written_; ++i)
      for (size_t k = i + 1; k < distinct_.size(); ++k)
        if (object(i) == object(k)) return false;
    return true;
  }
  thread_local std::vector<PyObject*> table;  // open addressing
  size_t size = 64;
  while (size < 2 * num_written_) size *= 2;
  table.assign(size, nullptr);
  for (size_t i = 0; i < distinct_.size(); ++i) {
    size_t at = (reinterpret_cast<uintptr_t>(object(i)) >> 4) * 0x9E3779B97F4A7C15u >> 32;
    for (at &= size - 1; table[at]; at = (at + 1) & (size - 1))
      if (table[at] == object(i)) return false;
    if (i < num_written_) table[at] = object(i);
  }
  return true;
}

bool GuardTree::check_overlap(const Bindings& bindings) const {
  for (int written : written_inputs_) {
    const char *begin, *end;
    symbolic::memory_range(bindings.views[written], &begin, &end);
    // Inputs that are numbers have no view: what stands at their place in `views` is another entry's.
    for (const TensorLeaf& other : tensors_) {
      if (other.view == written || other.view >= static_cast<int>(num_inputs_) ||
          !bindings.views[other.view].data)
        continue;
      const char *other_begin, *other_end;
      symbolic::memory_range(bindings.views[other.view], &other_begin, &other_end);
      if (begin < other_end && other_begin < end) return false;
    }
  }
  return true;
}

bool GuardTree::check_histories(const Bindings& bindings) const {
  for (int read : historical_)
    for (int written : written_inputs_)
      if (read != written && symbolic::is_view_beside(bindings.inputs[read], bindings.inputs[written]))
        return false;
  return true;
}

std::string GuardTree::str() const {
  std::string text;
  for (const std::string& line : lines_) text += line + "\n";
  if (sym_)
    for (const graph::SymGuard& guard : sym_->guards()) {
      static const char* relations[] = {"==", "!=", "<", "<="};
      text += guard.left.str() + " " + relations[static_cast<int>(guard.relation)] + " " + guard.right.str() +
              (guard.reason.empty() ? "" : "   # " + guard.reason) + "\n";
    }
  return text;
}

}  // namespace cdynamo::frame_eval
