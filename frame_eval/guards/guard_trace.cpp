#include "frame_eval/guards/guard_trace.h"

#include <algorithm>

#include "absl/container/flat_hash_set.h"
#include "frame_eval/guards/guard_tree.h"
#include "frame_eval/hook/frame.h"
#include "symbolic/interop/deque_access.h"

namespace cdynamo::frame_eval {
namespace {

using OfTree = GuardTrace::OfTree;

constexpr int kMostChanges = 8;  // of a root, before it is walked as a matter of course

bool is_instance(PyObject* object) {
  return !PyTuple_Check(object) && !PyList_Check(object) && !PyDict_Check(object) &&
         !PyAnySet_Check(object) && !symbolic::is_deque(object);
}

// Found in the parent by what its dict holds.
bool is_lookup(const GuardNode& node) {
  switch (node.source->kind) {
    case SourceKind::kModuleGlobal:
    case SourceKind::kItem:
    case SourceKind::kDictValueAt:
    case SourceKind::kDictKeyAt: return true;
    default: return false;
  }
}

// Leaves of a dict that hold as long as its version is the same.
bool is_of_dict(const Leaf& leaf) {
  switch (leaf.kind) {
    case GuardKind::kType:
    case GuardKind::kIdentity:
    case GuardKind::kLength:
    case GuardKind::kDictKeys:
    case GuardKind::kKeyAbsent: return true;
    default: return false;
  }
}

// --- writing it down ---

class Recorder {
 public:
  explicit Recorder(GuardTrace& trace) : trace_(trace) {}

  void root(GuardNode& node) {
    switch (node.source->kind) {
      case SourceKind::kConstant:
        if (node.source->object.is_weak()) return constant(node);
        return object(node, node.found, true);
      case SourceKind::kArgument:
      case SourceKind::kFunction:
      case SourceKind::kClosure:
        // A container is as likely as not made anew for each call.
        if (node.children.empty() || node.changes >= kMostChanges || !is_instance(node.found)) break;
        step(TraceStep::kRoot, node.found).node = &node;
        return object(node, node.found, false);
      default: break;
    }
    rest(OfTree::kSubtree, nullptr, node);
  }

 private:
  TraceStep& step(TraceStep::Kind kind, PyObject* object) {
    trace_.steps.push_back({.kind = kind, .object = object});
    return trace_.steps.back();
  }
  void rest(OfTree::Kind kind, PyObject* object, GuardNode& node, size_t leaf = 0) {
    trace_.rest.push_back({.kind = kind, .object = object, .node = &node, .leaf = leaf});
  }
  void bind(const GuardNode& node, PyObject* object) {
    for (int input : node.inputs) trace_.inputs[input] = object;
    if (node.slot >= 0) trace_.slots[node.slot] = object;
  }

  // A class or function that may be gone.
  void constant(GuardNode& node) {
    const auto is_kind = [](GuardKind kind) {
      return [kind](const Leaf& leaf) { return leaf.kind == kind; };
    };
    const bool is_class = !node.leaves.empty() &&
                          std::ranges::all_of(node.leaves, is_kind(GuardKind::kTypeUnchanged)),
               is_function = std::ranges::all_of(node.leaves, is_kind(GuardKind::kFunctionCode));
    if (!node.children.empty() || !node.inputs.empty() || node.slot >= 0 || !(is_class || is_function))
      return rest(OfTree::kSubtree, nullptr, node);
    if (!is_class) step(TraceStep::kAlive, node.found).place = node.source->object.place();
    leaves(node, node.found);
  }

  // `same`: it is known to be the very object that was found, not only something at its address.
  void object(GuardNode& node, PyObject* object, bool same) {
    const bool is_tuple = PyTuple_CheckExact(object);
    if (!node.symbols.empty() || (is_tuple && !same)) return rest(OfTree::kKnown, object, node);
    bind(node, object);
    if (PyDict_CheckExact(object)) return dict(&node, object, nullptr);
    attributes(node, object, same);
    leaves(node, object);
    for (const auto& child : node.children) {
      switch (child->source->kind) {
        case SourceKind::kInstanceDict: break;  // by attributes()
        case SourceKind::kModuleGlobal: break;
        case SourceKind::kType:
          step(TraceStep::kClassIs, object).expected = child->found;
          this->object(*child, child->found, true);
          break;
        case SourceKind::kItem:
          if (!is_tuple) {
            rest(OfTree::kSubtree, object, *child);
          } else if (!is_settled(*child)) {
            this->object(*child, child->found, true);
          }
          break;
        default: rest(OfTree::kSubtree, object, *child);
      }
    }
  }

  // What is there and what is not in an object's __dict__.
  void attributes(GuardNode& node, PyObject* object, bool same) {
    GuardNode* contents = nullptr;
    bool wanted = false;
    for (const auto& child : node.children) {
      if (child->source->kind == SourceKind::kInstanceDict) contents = child.get();
      wanted |= child->source->kind == SourceKind::kModuleGlobal;
    }
    for (const Leaf& leaf : node.leaves) wanted |= leaf.kind == GuardKind::kAttributeAbsent;
    if (!wanted && !contents) return;
    PyObject* found = instance_dict(object);
    PyObject** place = found && PyDict_CheckExact(found) ? _PyObject_GetDictPtr(object) : nullptr;
    if (!place || *place != found) {
      for (size_t i = 0; i < node.leaves.size(); ++i)
        if (node.leaves[i].kind == GuardKind::kAttributeAbsent) rest(OfTree::kLeaf, object, node, i);
      for (const auto& child : node.children)
        if (child.get() == contents || child->source->kind == SourceKind::kModuleGlobal)
          rest(OfTree::kSubtree, object, *child);
      return;
    }
    if (!same || !PyModule_Check(object)) {  // a module's dict is the module's for life
      TraceStep& instance = step(TraceStep::kInstance, object);
      instance.expected = found;
      instance.place = place;
    }
    if (contents) bind(*contents, found);
    dict(contents, found, &node);
  }

  void dict(GuardNode* node, PyObject* object, GuardNode* owner) {
    TraceStep& dict = step(TraceStep::kDict, object);
    dict.node = node;
    dict.owner = owner;
    dict.version = owner ? cdynamo_instance_dict_version(object) : cdynamo_dict_version(object);
    const bool same = dict.version != 0;
    dict.index = same;
    if (node) {
      for (size_t i = 0; i < node->leaves.size(); ++i)
        if (!is_of_dict(node->leaves[i])) leaf(*node, i, object);
      for (const auto& child : node->children) {
        if (!is_lookup(*child))
          rest(OfTree::kSubtree, object, *child);
        else if (!is_settled(*child))
          this->object(*child, child->found, same);
      }
    }
    if (!owner) return;
    for (const auto& child : owner->children)
      if (child->source->kind == SourceKind::kModuleGlobal && !is_settled(*child))
        this->object(*child, child->found, same);
  }

  void leaves(GuardNode& node, PyObject* object) {
    for (size_t i = 0; i < node.leaves.size(); ++i) leaf(node, i, object);
  }
  void leaf(GuardNode& node, size_t index, PyObject* object) {
    const Leaf& leaf = node.leaves[index];
    if (leaf.other_slot >= 0) return;  // compared when every object is known
    switch (leaf.kind) {
      case GuardKind::kAttributeAbsent: return;  // by attributes()
      case GuardKind::kType: return trace_.types.push_back({object, leaf.object.place()});
      case GuardKind::kTensor: return trace_.tensors.push_back({object, leaf.tensor_check});
      case GuardKind::kLength:
        if (!PyDict_Check(object)) break;
        return trace_.lengths.push_back({object, leaf.index});
      case GuardKind::kTypeUnchanged:
        if (object != leaf.object.get() || !classes_.insert(object).second) return;
        if (leaf.contents) break;
        step(TraceStep::kClass, object).place = leaf.object.place();
        trace_.steps.back().index = static_cast<int>(leaf.type_version);
        return;
      default: break;
    }
    rest(OfTree::kLeaf, object, node, index);
  }

  GuardTrace& trace_;
  absl::flat_hash_set<PyObject*> classes_;
};

// --- a dict that has changed, or has no version ---

bool same_lookup(const TraceStep& step, GuardNode& child, const symbolic::Roots& roots) {
  PyRef none;
  PyObject* object = access(child, step.object, roots, none);
  if (!object) return false;
  if (!is_settled(child)) {
    if (object != child.found) return false;
    // A new one may be where the old one was; the steps that follow would not notice that of these.
    return !step.index || !(PyTuple_CheckExact(object) || PyModule_Check(object));
  }
  for (const Leaf& leaf : child.leaves)
    if (!check_leaf(leaf, object)) return false;
  return true;
}

bool look_up_again(TraceStep& step, const symbolic::Roots& roots) {
  if (step.node) {
    for (const Leaf& leaf : step.node->leaves)
      if (is_of_dict(leaf) && !check_leaf(leaf, step.object)) return false;
    for (const auto& child : step.node->children)
      if (is_lookup(*child) && !same_lookup(step, *child, roots)) return false;
  }
  if (step.owner) {
    for (const Leaf& leaf : step.owner->leaves)
      if (leaf.kind == GuardKind::kAttributeAbsent && !is_absent(leaf, step.object)) return false;
    for (const auto& child : step.owner->children)
      if (child->source->kind == SourceKind::kModuleGlobal && !same_lookup(step, *child, roots)) return false;
  }
  step.version = cdynamo_dict_version(step.object);
  return true;
}

}  // namespace

void GuardTree::record_trace() const {
  trace_.inputs.assign(num_inputs_, nullptr);
  trace_.slots.assign(num_slots_, nullptr);
  Recorder recorder(trace_);
  for (const auto& node : roots_) recorder.root(*node);
  trace_.is_written = true;
}

bool GuardTree::run_trace(const symbolic::Roots& roots, Bindings& bindings) const {
  PyRef none;
  for (TraceStep& step : trace_.steps) {
    PyObject* object = step.object;
    switch (step.kind) {
      case TraceStep::kRoot:
        if (access(*step.node, nullptr, roots, none) != object) {
          ++step.node->changes;
          return false;
        }
        break;
      case TraceStep::kClassIs:
        if (Py_TYPE(object) != step.expected) return false;
        break;
      case TraceStep::kInstance:
        if (*step.place != step.expected) return false;
        break;
      case TraceStep::kDict: {
        const uint64_t version = cdynamo_dict_version(object);
        if ((version == 0 || version != step.version) && !look_up_again(step, roots)) return false;
        break;
      }
      case TraceStep::kAlive:
        if (*step.place != object) return false;
        break;
      case TraceStep::kClass:
        if (*step.place != object ||
            reinterpret_cast<PyTypeObject*>(object)->tp_version_tag != static_cast<unsigned>(step.index))
          return false;
        break;
    }
  }
  for (const auto& [object, type] : trace_.types)
    if (reinterpret_cast<PyObject*>(Py_TYPE(object)) != *type) return false;
  for (const auto& [dict, length] : trace_.lengths)
    if (PyDict_GET_SIZE(dict) != length) return false;
  for (const auto& [object, check] : trace_.tensors) {
    const TensorLeaf& tensor = tensors_[check];
    if (!symbolic::check_tensor(tensor.check, object, &bindings.views[tensor.view],
                                bindings.strides.data() + tensor.stride_offset))
      return false;
  }
  std::ranges::copy(trace_.inputs, bindings.inputs.begin());
  std::ranges::copy(trace_.slots, bindings.slots.begin());
  const auto holds = [&](const OfTree& check) {
    switch (check.kind) {
      case OfTree::kLeaf: return check_leaf(check.node->leaves[check.leaf], check.object);
      case OfTree::kKnown: return check_object(*check.node, check.object, roots, bindings);
      case OfTree::kSubtree: break;
    }
    return check_node(*check.node, check.object, roots, bindings);
  };
  if (!std::ranges::all_of(trace_.rest, holds)) return false;
  trace_.pause = 0;
  return true;
}

}  // namespace cdynamo::frame_eval
