#include "symbolic/values/live_iterator.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "symbolic/capture/executor.h"
#include "symbolic/capture/executor_state.h"
#include "symbolic/interop/iterator_access.h"
#include "symbolic/values/constant.h"
#include "symbolic/values/list.h"
#include "symbolic/values/tuple.h"
#include "symbolic/values/value_tools.h"

namespace cdynamo::symbolic {

namespace {

class LiveIterator : public IteratorValue {
 public:
  LiveIterator(PyObject* object, SourcePtr from) : object_(PyRef::borrow(object)) {
    source = std::move(from);
  }
  PyTypeObject* type() const override { return Py_TYPE(object_.get()); }
  PyObject* real_object() const override { return object_.get(); }
  ValuePtr next(Executor& ex) override {
    look(ex);
    take_one(ex);
    return step(ex);
  }
  // The next item, where the iterator that this one is in has been advanced.
  virtual ValuePtr step(Executor& ex) = 0;
  // Before each step: before it, or the iterator that it is in, is advanced.
  virtual void look(Executor&) {}

 protected:
  RecipePtr make_recipe_now(Executor&) override { return source_recipe(source); }
  PyObject* object() const { return object_.get(); }
  ValuePtr wrap_part(Executor& ex, Py_ssize_t index) {
    const PyRef part = iterator_part(object(), index);
    if (!part) break_graph("CD0211", "an iterator over a container that was changed");
    return ex.wrap(part.get(), numbered_source(SourceKind::kIteratorPart, source, index));
  }

 private:
  // Iterators share what they go through, so that the order in which they are advanced counts. Several turns of one
  // are one effect.
  void take_one(Executor& ex) {
    ex.changing(shared_from_this(), true);
    const RecipePtr iterator = recipe(ex);
    std::vector<Effect>& effects = ex.state().result.effects;
    Py_ssize_t steps = 1;
    if (!effects.empty() && effects.back().target == advanced_) {
      steps += PyLong_AsSsize_t(effects.back().value->items[1]->object.get());
      effects.pop_back();
    }
    const RecipePtr call = advanced_recipe(iterator, steps);
    Effect effect{.kind = EffectKind::kCall};
    effect.target = advanced_ = call->items[0];
    effect.value = make_recipe(RecipeKind::kTuple, nullptr, {call->items[1], call->items[2]});
    ex.effect(std::move(effect));
  }
  PyRef object_;
  RecipePtr advanced_;  // the target of its last effect
};

bool has_changed(Executor& ex, PyTypeObject* kind) {
  return std::ranges::any_of(ex.state().mutated, [&](const ValuePtr& value) {
    PyObject* object = value->real_object();
    return object && PyObject_TypeCheck(object, kind);
  });
}

class LiveSequenceIterator final : public LiveIterator {
 public:
  using LiveIterator::LiveIterator;
  ValuePtr step(Executor& ex) override {
    const PyRef item = exhausted_ ? PyRef() : upcoming_item(object(), given_);
    if (item) {
      ValuePtr value = ex.wrap(item.get(), numbered_source(SourceKind::kUpcoming, source, given_));
      ++given_;
      return value;
    }
    if (!exhausted_)
      add_guard(ex, GuardKind::kEquals, derived_source(SourceKind::kUpcomingCount, source),
                checked(PyLong_FromSsize_t(given_)).get());
    exhausted_ = true;
    return nullptr;
  }
  void look(Executor& ex) override {
    if (type() != &PyListIter_Type || exhausted_ || !has_changed(ex, &PyList_Type)) return;
    // As a value it is distinct from those that are written.
    const ValuePtr value = wrap_part(ex, 0);
    if (!list_in(value) || list_in(value)->changed())
      break_graph("CD0211", "an iterator over a list that was changed");
  }

 private:
  Py_ssize_t given_ = 0;
  bool exhausted_ = false;
};

class LiveEntriesIterator final : public LiveIterator {
 public:
  using LiveIterator::LiveIterator;
  ValuePtr step(Executor& ex) override {
    if (!entries_) entries_ = wrap_part(ex, 0);
    ListValue* entries = list_in(entries_);
    return given_ < entries->size(ex) ? entries->item(ex, given_++) : nullptr;
  }
  // The container, which nothing names, might be what was changed.
  void look(Executor& ex) override {
    PyTypeObject* container = type() == &PySetIter_Type ? &PySet_Type : &PyDict_Type;
    if (has_changed(ex, container))
      break_graph("CD0211",
                  absl::StrCat("an iterator that came in, after a ", container->tp_name, " was changed"));
  }

 private:
  ValuePtr entries_;
  size_t given_ = 0;
};

// enumerate (whose count comes last) and zip.
class LiveNestedIterator final : public LiveIterator {
 public:
  using LiveIterator::LiveIterator;
  void look(Executor& ex) override {
    look_inside(ex);
    for (const auto& iterator : iterators_) iterator->look(ex);
  }
  ValuePtr step(Executor& ex) override {
    std::vector<ValuePtr> items;
    if (count_) items.push_back(count_);
    for (const auto& iterator : iterators_) {
      ValuePtr item = iterator->step(ex);
      if (!item) return nullptr;
      items.push_back(std::move(item));
    }
    if (count_) count_ = binary_operation(ex, kNbAdd, count_, ex.constant_int(1));
    return new_tuple(std::move(items));
  }

 private:
  void look_inside(Executor& ex) {
    if (!iterators_.empty()) return;
    const Py_ssize_t count = inner_iterators(object());
    for (Py_ssize_t i = 0; i < count; ++i) {
      auto inner = std::dynamic_pointer_cast<LiveIterator>(wrap_part(ex, i));
      if (!inner) break_graph("CD0211", "an iterator in an iterator that came in");
      iterators_.push_back(std::move(inner));
    }
    if (type() == &PyEnum_Type) count_ = wrap_part(ex, 1);
  }
  std::vector<std::shared_ptr<LiveIterator>> iterators_;
  ValuePtr count_;
};

bool is_known_inside(PyObject* iterator) {
  switch (iterator_kind(iterator)) {
    case IteratorKind::kOther: return false;
    case IteratorKind::kSequence:
    case IteratorKind::kEntries: return true;
    case IteratorKind::kNested: break;
  }
  check_stack();
  const Py_ssize_t iterators = inner_iterators(iterator);
  for (Py_ssize_t i = 0; i < iterators; ++i)
    if (const PyRef part = iterator_part(iterator, i); !part || !is_known_inside(part.get())) return false;
  return iterators > 0;
}

}  // namespace

ValuePtr wrap_iterator(Executor& ex, PyObject* object, const SourcePtr& source) {
  // In a loop that Python turns its iterator stays Python's: the piece between two items is compiled once.
  if (ex.state().request.loops || source->kind == SourceKind::kConstant || !is_known_inside(object))
    return nullptr;
  guard_exact_type(ex, object, source);
  switch (iterator_kind(object)) {
    case IteratorKind::kSequence: return std::make_shared<LiveSequenceIterator>(object, source);
    case IteratorKind::kEntries: return std::make_shared<LiveEntriesIterator>(object, source);
    default: return std::make_shared<LiveNestedIterator>(object, source);
  }
}

}  // namespace cdynamo::symbolic
