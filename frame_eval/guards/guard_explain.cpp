// The guards of an entry a second time, in words: what changed since it was captured. Not on the hot path.

#include "frame_eval/guards/guard_tree.h"

#include <algorithm>

#include "absl/cleanup/cleanup.h"

#include "symbolic/interop/numpy_errors.h"

namespace cdynamo::frame_eval {

using symbolic::DynamicHint;

namespace {

// The first failure is told. A size or a number that changed is no reason to stop: the next ones become dynamic in
// the same recompilation. False: it is one.
bool note(GuardFailure& failure, std::string text, std::vector<DynamicHint> hints) {
  if (failure.text.empty()) {
    failure.text = std::move(text);
    failure.first_dynamic = hints.size();
  }
  failure.now_dynamic.insert(failure.now_dynamic.end(), hints.begin(), hints.end());
  return !hints.empty();
}

}  // namespace

GuardFailure GuardTree::first_failure(const symbolic::Roots& roots) const {
  GuardFailure failure;
  Bindings bindings;
  const absl::Cleanup taken_back = [&] { bindings.generators.put_back(); };
  explain(roots, bindings, failure);
  return failure;
}

void GuardTree::explain(const symbolic::Roots& roots, Bindings& bindings, GuardFailure& failure) const {
  if (guard_torch_state_ && !(symbolic::read_torch_state() == torch_state_)) {
    const symbolic::TorchState now = symbolic::read_torch_state();
    failure.text =
        now.grad_mode() != torch_state_.grad_mode()
            ? std::string("grad mode was ") + (torch_state_.grad_mode() ? "on, is off" : "off, is on")
            : "torch's global state (autocast, default dtype, determinism or modes) has changed";
    return;
  }
  if (guard_numpy_errors_ && symbolic::numpy_reports_errors()) {
    failure.text = "NumPy is asked to raise floating-point errors or to call back (numpy.errstate)";
    return;
  }
  bindings.inputs.resize(num_inputs_);
  bindings.views.resize(num_views_);
  bindings.strides.resize(num_strides_);
  bindings.slots.assign(num_slots_, nullptr);
  bindings.symbols.assign(symbol_bindings_.size(), 0);
  for (const auto& node : roots_)
    if (explain_node(*node, nullptr, roots, bindings, failure)) {
      // Calls that differ in kind: only what came before says what changes from call to call.
      failure.now_dynamic.resize(std::min(failure.now_dynamic.size(), failure.first_dynamic));
      return;
    }
  if (!failure.text.empty()) return;
  for (const IdentityCheck& pair : identity_checks_)
    if ((bindings.slots[pair.a] == bindings.slots[pair.b]) != pair.same) {
      failure.text = pair.a_name + " and " + pair.b_name +
                     (pair.same ? " were one object, are two" : " were two objects, are one");
      return;
    }
  if (failure.text = explain_aliases(bindings); !failure.text.empty()) return;
  if (!symbol_bindings_.empty()) bind_sizes(bindings);
  if (explain_computed(roots, bindings, failure)) return;
  if (!symbol_bindings_.empty()) {
    explain_symbols(bindings, failure);
    if (!failure.text.empty()) return;
  }
  if (!written_inputs_.empty() && !check_overlap(bindings))
    failure.text = "an input that is written to shares memory with another input";
  else if (!check_histories(bindings))
    failure.text = "an input is a view of what is written to";
  return;
}

std::string GuardTree::explain_aliases(const Bindings& bindings) const {
  for (const Distinct& written : distinct_)
    for (const Distinct& other : distinct_)
      if (written.is_written && &other != &written &&
          bindings.slots[written.slot] == bindings.slots[other.slot])
        return written.name + " and " + other.name + " were two objects, are one, and it is written to";
  return {};
}

bool GuardTree::explain_computed(const symbolic::Roots& roots, Bindings& bindings,
                                 GuardFailure& failure) const {
  for (const auto& computed : computed_) {
    const GuardNode& node = computed->node;
    PyRef number = compute(*computed, bindings);
    PyObject* object = number.get();
    if (!object) {
      failure.text = node.source->name() + " cannot be computed any more";
      return true;
    }
    bindings.owned.push_back(std::move(number));
    if (node.slot >= 0) bindings.slots[node.slot] = object;
    if (explain_leaves(node, object, bindings, failure) || !failure.text.empty()) return true;
    for (int symbol : node.symbols) bindings.symbols[symbol] = PyLong_AsLongLong(object);
    for (const auto& child : node.children)
      if (explain_node(*child, object, roots, bindings, failure)) return true;
  }
  return false;
}

bool GuardTree::explain_node(const GuardNode& node, PyObject* parent, const symbolic::Roots& roots,
                             Bindings& bindings, GuardFailure& failure) const {
  PyRef owner;
  PyObject* object = access(node, parent, roots, owner);
  if (!object) {
    note(failure, node.source->name() + " is not there any more", {});
    return true;
  }
  if (owner) bindings.owned.push_back(owner);
  if (node.slot >= 0) bindings.slots[node.slot] = object;
  if (explain_leaves(node, object, bindings, failure)) return true;
  for (int input : node.inputs) bindings.inputs[input] = object;
  for (int symbol : node.symbols) bindings.symbols[symbol] = PyLong_AsLongLong(object);
  for (const auto& child : node.children)
    if (explain_node(*child, object, roots, bindings, failure)) return true;
  return false;
}

bool GuardTree::explain_leaves(const GuardNode& node, PyObject* object, Bindings& bindings,
                               GuardFailure& failure) const {
  for (const Leaf& leaf : node.leaves) {
    if (leaf.tensor_check >= 0) {
      const TensorLeaf& tensor = tensors_[leaf.tensor_check];
      runtime::TensorView view;
      if (symbolic::check_tensor(tensor.check, object, &view,
                                 bindings.strides.data() + tensor.stride_offset)) {
        bindings.views[tensor.view] = view;
        continue;
      }
      std::vector<DynamicHint> sizes;
      symbolic::TensorCheck rest = tensor.check;
      for (int dim; (dim = symbolic::mismatched_size(rest, object)) >= 0;
           rest.dynamic_sizes |= uint64_t{1} << dim)
        sizes.push_back({node.source->name(), dim});
      if (note(failure, node.source->name() + "." + symbolic::explain_mismatch(tensor.check, object),
               std::move(sizes)))
        continue;
      return true;
    }
    if (leaf.other_slot >= 0) continue;
    if (check_leaf(leaf, object)) continue;
    PyObject* expected = leaf.object.get();
    // NumPy's numbers too; zeros of its floats are guarded by identity, for their sign.
    const bool is_int = PyLong_CheckExact(object) || symbolic::is_numpy_integer(object);
    const bool number = expected && Py_TYPE(expected) == Py_TYPE(object) &&
                        ((leaf.kind == GuardKind::kEquals && is_int) ||
                         ((leaf.kind == GuardKind::kEquals || leaf.kind == GuardKind::kIdentity) &&
                          (PyFloat_Check(object) || symbolic::is_numpy_real(object))));
    std::vector<DynamicHint> hints;
    if (number) hints.push_back({node.source->name(), -1});
    if (!note(failure, explain_leaf(leaf, *node.source, object), std::move(hints))) return true;
  }
  return false;
}

void GuardTree::explain_symbols(const Bindings& bindings, GuardFailure& failure) const {
  const auto& infos = sym_->symbols();
  if (!symbols_in_range(bindings)) {
    for (size_t i = 0; i < symbol_bindings_.size(); ++i)
      if (!infos[i].from_data && (bindings.symbols[i] < infos[i].min || bindings.symbols[i] > infos[i].max)) {
        failure.text = infos[i].name + " was " + std::to_string(infos[i].hint) + ", is " +
                       std::to_string(bindings.symbols[i]) + ", which is compiled apart";
        return;
      }
    return;
  }
  if (check_symbols(bindings)) return;
  failure.text = "a relation between sizes does not hold any more";
  for (const graph::SymGuard& guard : sym_->guards()) {
    if (sym_->reads_data(guard)) continue;
    const int64_t left = sym_->evaluate(guard.left, bindings.symbols.data());
    const int64_t right = sym_->evaluate(guard.right, bindings.symbols.data());
    static const char* relations[] = {"==", "!=", "<", "<="};
    const bool holds = guard.relation == graph::Relation::kEq   ? left == right
                       : guard.relation == graph::Relation::kNe ? left != right
                       : guard.relation == graph::Relation::kLt ? left < right
                                                                : left <= right;
    if (holds) continue;
    failure.text = "it was assumed that " + guard.left.str() + " " +
                   relations[static_cast<int>(guard.relation)] + " " + guard.right.str() + "; now they are " +
                   std::to_string(left) + " and " + std::to_string(right) +
                   (guard.reason.empty() ? "" : " (" + guard.reason + ")");
    return;
  }
}

}  // namespace cdynamo::frame_eval
