#include "symbolic/entry/kept_locals.h"

#include <algorithm>
#include <optional>

#include "absl/container/flat_hash_set.h"
#include "symbolic/capture/executor_state.h"
#include "symbolic/capture/value_factories.h"
#include "symbolic/frames/frame.h"
#include "symbolic/frames/functions.h"
#include "symbolic/frames/generators.h"
#include "symbolic/interop/finalizers.h"
#include "symbolic/tensors/array_value.h"
#include "symbolic/values/deque.h"
#include "symbolic/values/holder_search.h"
#include "symbolic/values/list.h"
#include "symbolic/values/made_weak_reference.h"
#include "symbolic/values/set.h"
#include "symbolic/values/tuple.h"
#include "symbolic/values/user_object.h"
#include "symbolic/values/value_tools.h"
#include "symbolic/values/weak_proxy.h"

namespace cdynamo::symbolic {
namespace {

constexpr int kDeepest = 4;  // containers in one another that are looked through

bool is_heap_type(PyObject* type) {
  return PyType_HasFeature(reinterpret_cast<PyTypeObject*>(type), Py_TPFLAGS_HEAPTYPE);
}

class KeptLocals {
 public:
  KeptLocals(Executor& ex, const std::vector<SymbolicFrame*>& frames) : ex_(ex) {
    for (const SymbolicFrame* frame : frames) note_assigned_cells(*frame);
  }

  bool outlives_its_uses(const ValuePtr& local, int depth = 0) {
    if (dynamic_cast<ArrayValue*>(local.get()) || is_number_or_text(local->type())) return false;
    if (auto* cell = dynamic_cast<CellValue*>(local.get())) {
      if (cell->real_object()) return local->source->kind == SourceKind::kArgument;  // a resumed frame's
      const ValuePtr contents = cell->contents(ex_);
      return cell->has_recipe() || (contents && outlives_its_uses(contents, depth));
    }
    // It may hold what a callback of the program's waits for, or the reference that has it.
    if (!ex_.state().watched_references.empty() && !local->source && !local->as_constant()) return true;
    if (auto* generator = dynamic_cast<GeneratorValue*>(local.get()))
      return generator->may_have_to_be_closed();
    if (is_new_object(local)) return is_known_elsewhere(local) || holds_what_outlives(local, depth);
    if (dynamic_cast<WeakReferenceValue*>(local.get()) || dynamic_cast<WeakProxyValue*>(local.get()))
      return true;
    auto* function = dynamic_cast<FunctionValue*>(local.get());
    if (function && (function->is_handed_out() || has_what_is_told(local, depth) || is_kept_by_itself(local)))
      return true;
    if (local->source && local->source->kind == SourceKind::kConstant) return false;
    const std::optional<PyRef> constant = local->as_constant();
    // The bases of a class know it for as long as it lives.
    if (constant && PyType_Check(constant->get()) && is_heap_type(constant->get())) return true;
    if (local->source) return !constant;
    return holds_what_outlives(local, depth);
  }

 private:
  void note_assigned_cells(const SymbolicFrame& frame) {
    const auto is_cell = [](const ValuePtr& value) { return dynamic_cast<CellValue*>(value.get()); };
    if (std::ranges::none_of(frame.locals, is_cell)) return;
    const std::vector<bool> assigned = assigned_slots(frame.code->object(), frame.code->program, frame.pc);
    for (int slot = 0; slot < std::ssize(frame.locals); ++slot)
      if (assigned[slot] && is_cell(frame.locals[slot])) assigned_cells_.insert(frame.locals[slot].get());
  }

  static UserObjectValue* new_object_in(const ValuePtr& value) {
    auto* object = dynamic_cast<UserObjectValue*>(value.get());
    return object && object->is_new() ? object : nullptr;
  }
  static bool is_new_object(const ValuePtr& value) { return new_object_in(value) != nullptr; }

  // Something else that is handed on holds the new object, or a weak reference is to it.
  bool is_known_elsewhere(const ValuePtr& value) {
    const UserObjectValue* object = new_object_in(value);
    return object && (object->has_recipe() || ex_.state().weak_references.contains(object));
  }

  // Where a result of the graph would have to be made for it, as well, only what is sure to be seen counts.
  bool holds_what_outlives(const ValuePtr& holder, int depth) {
    if (depth == kDeepest) return false;
    const std::vector<ValuePtr> items = items_of(holder);
    const auto outlives = [&](const ValuePtr& item) { return item && outlives_its_uses(item, depth + 1); };
    const auto is_there = [&](const ValuePtr& item) { return !item || this->is_there(item, depth + 1); };
    if (std::ranges::none_of(items, outlives)) return false;
    return std::ranges::all_of(items, is_there) ||
           std::ranges::any_of(items, [&](const ValuePtr& item) { return item && is_told(item, depth + 1); });
  }

  // One that calls itself is in a cycle: what else its closure refers to lives until the collector comes, whatever is put there later.
  bool is_kept_by_itself(const ValuePtr& function) {
    const std::vector<ValuePtr> cells = held_in_cells(ex_, function);
    const auto contents = [](const ValuePtr& cell) {
      return dynamic_cast<CellValue&>(*cell).known_contents();
    };
    return std::ranges::find(cells, function, contents) != cells.end() &&
           std::ranges::any_of(cells, [&](const ValuePtr& cell) {
             const ValuePtr held = contents(cell);
             return held && held->source && !dynamic_cast<ArrayValue*>(held.get()) &&
                    !is_number_or_text(held->type());
           });
  }

  // A new function with a closure. What is put into a cell later may be told.
  bool has_what_is_told(const ValuePtr& function, int depth) {
    if (!dynamic_cast<FunctionValue*>(function.get())) return false;
    return std::ranges::any_of(held_in_cells(ex_, function), [&](const ValuePtr& cell) {
      if (assigned_cells_.contains(cell.get())) return true;
      PyObject* object = dynamic_cast<CellValue&>(*cell).live_contents();
      const ValuePtr& made = dynamic_cast<CellValue&>(*cell).known_contents();
      return object ? runs_code_when_it_dies(object) : made && is_told(made, depth + 1);
    });
  }

  // Its end is seen by code of the program's, or may be: a new object that others hold may be watched by them.
  bool is_told(const ValuePtr& value, int depth) {
    if (is_known_elsewhere(value)) return true;
    if (PyObject* object = value->source ? value->real_object() : nullptr)
      return runs_code_when_it_dies(object);
    if (depth == kDeepest) return false;
    const auto is_item_told = [&](const ValuePtr& item) { return item && is_told(item, depth + 1); };
    return has_what_is_told(value, depth) || std::ranges::any_of(items_of(value), is_item_told);
  }

  // No result of the graph would have to be made to hand it on.
  bool is_there(const ValuePtr& value, int depth) {
    if (constant_object(value) || value->source || outlives_its_uses(value, depth)) return true;
    if (depth == kDeepest || !is_container(value)) return false;
    return std::ranges::all_of(items_of(value),
                               [&](const ValuePtr& item) { return is_there(item, depth + 1); });
  }

  static bool is_container(const ValuePtr& value) {
    return list_in(value) || tuple_in(value) || dict_in(value) || deque_in(value) || set_in(value);
  }

  // Of a container, a new object, or what refers to others as an iterator does; empty for anything else.
  std::vector<ValuePtr> items_of(const ValuePtr& holder) {
    if (ListValue* list = list_in(holder)) return list->items(ex_);
    if (TupleValue* tuple = tuple_in(holder)) return tuple->items(ex_);
    if (DequeValue* deque = deque_in(holder)) return deque->items(ex_);
    if (SetValue* set = set_in(holder)) return set->inserted_items();
    std::vector<ValuePtr> values = referred_to(holder);
    if (DictValue* dict = dict_in(holder))
      for (const DictValue::Entry& entry : dict->entries(ex_))
        values.insert(values.end(), {entry.key, entry.value});
    if (const UserObjectValue* object = new_object_in(holder)) {
      if (const DictValue* attributes = object->known_instance_dict())
        for (const DictValue::Entry& entry : attributes->known_entries()) values.push_back(entry.value);
      for (const auto& [name, value] : object->known_slots()) values.push_back(value);
    }
    return values;
  }

  Executor& ex_;
  absl::flat_hash_set<const SymbolicValue*> assigned_cells_;  // by what comes after the break
};

// A cell that the frame has made, before it was resumed: what the cell holds may be another thing in the next call. It may have been
// found in the closure of a function as well.
bool is_own_cell(const SymbolicFrame& frame, int slot) {
  const PyCodeObject* code = frame.code->object();
  const auto* cell = dynamic_cast<CellValue*>(frame.locals[slot].get());
  return cell && cell->real_object() && slot < code->co_nlocalsplus - code->co_nfreevars;
}

void make_recipe_of(Executor& ex, SymbolicFrame& frame, int slot) {
  if (!frame.pending[slot]) frame.locals[slot]->recipe(ex);
}

}  // namespace

bool is_number_or_text(PyTypeObject* type) {
  PyTypeObject* const kTypes[] = {&PyLong_Type,    &PyFloat_Type,   &PyBool_Type,
                                  &PyUnicode_Type, &PyComplex_Type, Py_TYPE(Py_None)};
  return std::ranges::find(kTypes, type) != std::end(kTypes) || is_numpy_number_type(type);
}

std::vector<std::vector<int>> locals_handed_on(
    Executor& ex, const std::vector<SymbolicFrame*>& frames,
    const std::function<bool(const SymbolicFrame&, int slot)>& dies_unseen) {
  std::vector<std::vector<int>> read_again(frames.size()), others(frames.size()), kept(frames.size());
  for (size_t i = 0; i < frames.size(); ++i) {
    SymbolicFrame& frame = *frames[i];
    for (const ValuePtr& value : frame.stack)
      if (value) value->recipe(ex);
    const std::vector<bool> live = live_slots(frame.code->object(), frame.code->program, frame.pc);
    for (int slot = 0; slot < std::ssize(frame.locals); ++slot) {
      if (!frame.is_bound(slot)) continue;
      const bool is_kept = live[slot] || (frame.pending[slot] && !dies_unseen(frame, slot));
      (live[slot] ? read_again : is_kept ? kept : others)[i].push_back(slot);
      if (is_kept) make_recipe_of(ex, frame, slot);
    }
  }
  // What is handed on by one frame may be known to a local of another one.
  KeptLocals locals(ex, frames);
  for (bool changed = true; changed;) {
    changed = false;
    for (size_t i = 0; i < frames.size(); ++i)
      std::erase_if(others[i], [&](int slot) {
        SymbolicFrame& frame = *frames[i];
        if (frame.pending[slot]) return false;
        if (!is_own_cell(frame, slot) && !locals.outlives_its_uses(frame.locals[slot])) return false;
        make_recipe_of(ex, frame, slot);
        kept[i].push_back(slot);
        return changed = true;
      });
  }
  for (size_t i = 0; i < frames.size(); ++i) {
    std::ranges::sort(kept[i]);
    read_again[i].insert(read_again[i].end(), kept[i].begin(), kept[i].end());
  }
  return read_again;
}

}  // namespace cdynamo::symbolic
