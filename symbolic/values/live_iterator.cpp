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
  RecipePtr make_recipe_now(Executor&) override { return nullptr; }  // it is found at its source
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
    const bool is_over_list = type() == &PyListIter_Type || type() == &PyListRevIter_Type;
    if (!is_over_list || exhausted_ || !has_changed(ex, &PyList_Type)) return;
    // As a value it is distinct from those that are written.
    const ValuePtr value = wrap_part(ex, 0);
    if (!list_in(value) || list_in(value)->changed())
      break_graph("CD0211", "an iterator over a list that was changed");
  }

 private:
  Py_ssize_t given_ = 0;
  bool exhausted_ = false;
};

// itertools.count
class LiveCountIterator final : public LiveIterator {
 public:
  using LiveIterator::LiveIterator;
  ValuePtr step(Executor& ex) override {
    if (!next_) {
      const PyRef first = upcoming_item(object(), 0);
      if (!first) break_graph("CD0211", "a count that has gone far");
      next_ = ex.wrap(first.get(), numbered_source(SourceKind::kUpcoming, source, 0));
    }
    ValuePtr given = next_;
    next_ = binary_operation(ex, kNbAdd, next_, ex.constant_int(1));
    return given;
  }

 private:
  ValuePtr next_;
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

// enumerate (whose count comes last) and zip, over such iterators.
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
    for (size_t i = 0; i < iterators_.size(); ++i) {
      ValuePtr item = iterators_[i]->step(ex);
      if (!item) return at_end(ex, i);
      items.push_back(std::move(item));
    }
    if (count_) count_ = binary_operation(ex, kNbAdd, count_, ex.constant_int(1));
    return new_tuple(std::move(items));
  }

 private:
  void look_inside(Executor& ex) {
    if (!iterators_.empty()) return;
    const InnerIterators parts = inner_iterators(object());
    strict_ = parts.strict;
    for (Py_ssize_t i = 0; i < parts.count; ++i) {
      auto inner = std::dynamic_pointer_cast<LiveIterator>(wrap_part(ex, i));
      if (!inner) break_graph("CD0211", "an iterator in an iterator that came in");
      iterators_.push_back(std::move(inner));
    }
    if (type() == &PyEnum_Type) count_ = wrap_part(ex, 1);
  }
  // Null, where zip(strict=True) does not raise.
  ValuePtr at_end(Executor& ex, size_t stopped) {
    bool differ = strict_ && stopped > 0;
    for (size_t i = 1; strict_ && !differ && i < iterators_.size(); ++i)
      differ = iterators_[i]->step(ex) != nullptr;
    if (differ) break_graph("CD0101", "ValueError of zip(strict=True)");
    return nullptr;
  }
  std::vector<std::shared_ptr<LiveIterator>> iterators_;
  ValuePtr count_;
  bool strict_ = false;
};

// Whether test(iterator) for all iterators in a nested one, of which there are some.
template <typename Test>
bool all_inside(PyObject* iterator, const Test& test) {
  check_stack();
  const InnerIterators inner = inner_iterators(iterator);
  for (Py_ssize_t i = 0; i < inner.count; ++i)
    if (const PyRef part = iterator_part(iterator, inner.first + i); !part || !test(part.get())) return false;
  return inner.count > 0;
}

// Whether it may be advanced as a whole when the graph has run: nothing in it calls the program.
bool calls_nothing(PyObject* iterator) {
  const IteratorKind kind = iterator_kind(iterator);
  if (kind != IteratorKind::kNested) return kind != IteratorKind::kOther;
  if (!Py_IS_TYPE(iterator, &PyEnum_Type) && !Py_IS_TYPE(iterator, &PyZip_Type)) return false;
  return all_inside(iterator, calls_nothing);
}

bool is_known_inside(PyObject* iterator) {
  if (iterator_kind(iterator) != IteratorKind::kNested || Py_IS_TYPE(iterator, &PyEnum_Type))
    return calls_nothing(iterator);
  return all_inside(iterator, is_known_inside);
}

// The program's functions are called while it is captured: what is advanced afterwards are the iterators in it.
ValuePtr wrap_caller(Executor& ex, PyObject* object, const SourcePtr& source) {
  const auto part = [&](Py_ssize_t index) {
    const PyRef found = iterator_part(object, index);
    if (!found) throw PythonError{};
    return ex.wrap(found.get(), numbered_source(SourceKind::kIteratorPart, source, index));
  };
  const InnerIterators inner = inner_iterators(object);
  std::vector<ValuePtr> iterators;
  for (Py_ssize_t i = 0; i < inner.count; ++i) iterators.push_back(part(inner.first + i));
  ValuePtr value = new_nested_iterator(Py_TYPE(object), inner.first > 0 ? part(0) : nullptr,
                                       std::move(iterators), inner.strict);
  value->source = source;
  return value;
}

}  // namespace

ValuePtr wrap_iterator(Executor& ex, PyObject* object, const SourcePtr& source) {
  // In a loop that Python turns its iterator stays Python's: the piece between two items is compiled once.
  const bool is_unknown = source->kind == SourceKind::kConstant &&
                          iterator_kind(object) != IteratorKind::kCount;  // a library's own
  if (ex.state().request.loops || is_unknown || !is_known_inside(object)) return nullptr;
  guard_exact_type(ex, object, source);
  switch (iterator_kind(object)) {
    case IteratorKind::kSequence: return std::make_shared<LiveSequenceIterator>(object, source);
    case IteratorKind::kEntries: return std::make_shared<LiveEntriesIterator>(object, source);
    case IteratorKind::kCount: return std::make_shared<LiveCountIterator>(object, source);
    default: break;
  }
  add_guard(ex, GuardKind::kEquals, numbered_source(SourceKind::kIteratorPart, source, kInnerIterators),
            iterator_part(object, kInnerIterators).get());
  if (!calls_nothing(object)) return wrap_caller(ex, object, source);
  return std::make_shared<LiveNestedIterator>(object, source);
}

}  // namespace cdynamo::symbolic
