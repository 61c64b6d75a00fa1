#include "symbolic/values/holder_search.h"

#include <algorithm>

#include "symbolic/capture/executor_state.h"
#include "symbolic/capture/value_factories.h"
#include "symbolic/values/class_value.h"
#include "symbolic/values/deque.h"
#include "symbolic/values/iterator.h"
#include "symbolic/values/list.h"
#include "symbolic/values/partial.h"
#include "symbolic/values/set.h"
#include "symbolic/values/tuple.h"
#include "symbolic/values/user_object.h"
#include "symbolic/values/value_tools.h"

namespace cdynamo::symbolic {

bool HolderSearch::is_in(const ValuePtr& holder) {
  if (!holder) return false;
  if (holder == wanted_) return true;
  if (!seen_.insert(holder.get()).second) return false;
  check_stack();
  if (auto* object = dynamic_cast<UserObjectValue*>(holder.get())) return is_in_object(*object);
  if (auto* cls = dynamic_cast<ClassValue*>(holder.get())) return is_in_class(cls->real_object());
  if (auto* dict = dynamic_cast<DictValue*>(holder.get())) return is_in_dict(*dict);
  if (auto* list = dynamic_cast<ListValue*>(holder.get()))
    return is_in_any(list->known_items()) || is_in_any(list->known_appended());
  if (auto* deque = dynamic_cast<DequeValue*>(holder.get()))
    return is_in_any(deque->known_items()) || is_in_any(deque->known_appended());
  if (auto* set = dynamic_cast<SetValue*>(holder.get())) return is_in_any(set->inserted_items());
  if (is_in_any(held_in_cells(ex_, holder)) || is_in_any(held_by_generator(holder)) ||
      is_in_any(referred_to(holder)))
    return true;
  auto* tuple = dynamic_cast<TupleValue*>(holder.get());
  return tuple && !tuple->source && is_in_any(tuple->items(ex_));
}

bool HolderSearch::is_in_any(const std::vector<ValuePtr>& items) {
  return std::ranges::any_of(items, [&](const ValuePtr& item) { return is_in(item); });
}

bool HolderSearch::is_in_dict(const DictValue& dict) {
  if (dict.known_attributes() && is_in_dict(*dict.known_attributes())) return true;
  return std::ranges::any_of(dict.known_entries(), [&](const DictValue::Entry& entry) {
    return is_in(entry.value) || (entry.value && is_in(entry.key));
  });
}

// A function in a class that captured code has made.
bool HolderSearch::is_in_class(PyObject* cls) {
  const auto& stand_ins = ex_.state().made_classes.stand_ins;
  const auto wanted = stand_ins.find(wanted_);
  if (wanted == stand_ins.end() || !cls || !ex_.state().made_classes.values.contains(cls)) return false;
  PyObject* mro = reinterpret_cast<PyTypeObject*>(cls)->tp_mro;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(mro); ++i) {
    const PyRef entries = own_entries(reinterpret_cast<PyTypeObject*>(PyTuple_GET_ITEM(mro, i)));
    const PyRef objects = checked(PyMapping_Values(entries.get()));
    for (Py_ssize_t at = 0; at < PyList_GET_SIZE(objects.get()); ++at)
      if (PyList_GET_ITEM(objects.get(), at) == wanted->second.get()) return true;
  }
  return false;
}

bool HolderSearch::is_in_object(const UserObjectValue& object) {
  if (is_in_class(reinterpret_cast<PyObject*>(object.type()))) return true;
  if (object.known_instance_dict() && is_in_dict(*object.known_instance_dict())) return true;
  return is_in(object.storage()) ||
         std::ranges::any_of(object.known_slots(), [&](const auto& slot) { return is_in(slot.second); });
}

std::vector<ValuePtr> referred_to(const ValuePtr& holder) {
  if (auto* iterator = dynamic_cast<IteratorValue*>(holder.get())) return iterator->held();
  if (auto* partial = dynamic_cast<PartialValue*>(holder.get())) return partial->held();
  return held_by_function(holder);
}

bool outlives_call(const SourcePtr& source) {
  const Source* root = source.get();
  for (; root->base; root = root->base.get())
    if (root->kind == SourceKind::kUpcoming) return false;
  switch (root->kind) {
    case SourceKind::kGlobal:
    case SourceKind::kBuiltin:
    case SourceKind::kModuleGlobal:
    case SourceKind::kClosure:
    case SourceKind::kClosureCell:
    case SourceKind::kFunction:
    case SourceKind::kConstant: return true;
    default: return false;
  }
}

bool is_kept(Executor& ex, const ValuePtr& value, const ValuePtr& returned, bool by_arguments) {
  const Executor::State& state = ex.state();
  HolderSearch search(ex, value);
  if (search.is_in(returned)) return true;
  for (const auto& [name, assigned] : state.globals)
    if (search.is_in(assigned)) return true;
  return !state.let_go_of_holder && std::ranges::any_of(state.mutated, [&](const ValuePtr& holder) {
    return holder->source && (by_arguments || outlives_call(holder->source)) && search.is_in(holder);
  });
}

}  // namespace cdynamo::symbolic
