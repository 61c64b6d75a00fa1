#include "symbolic/values/iterator.h"

#include "symbolic/capture/executor.h"
#include "symbolic/values/builtin_method.h"
#include "symbolic/values/constant.h"
#include "symbolic/values/deque.h"
#include "symbolic/values/list.h"
#include "symbolic/values/live_iterator.h"
#include "symbolic/values/range.h"
#include "symbolic/values/release.h"
#include "symbolic/values/sequence.h"
#include "symbolic/values/set.h"
#include "symbolic/values/sym_int.h"
#include "symbolic/values/tuple.h"
#include "symbolic/values/user_object.h"
#include "symbolic/values/value_tools.h"

namespace cdynamo::symbolic {

namespace {

// advance(iterator, n): the iterator, n items further. What an iterator on the stack of a broken frame is
// made with.
PyObject* advance(PyObject*, PyObject* const* args, Py_ssize_t count) {
  if (count != 2) return PyErr_Format(PyExc_TypeError, "advance expected 2 arguments"), nullptr;
  Py_ssize_t steps = PyLong_AsSsize_t(args[1]);
  if (steps == -1 && PyErr_Occurred()) return nullptr;
  for (Py_ssize_t i = 0; i < steps; ++i) {
    PyObject* item = PyIter_Next(args[0]);
    if (!item) break;
    Py_DECREF(item);
  }
  if (PyErr_Occurred()) return nullptr;
  return Py_NewRef(args[0]);
}
PyMethodDef kAdvance = {"advance", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(advance)),
                        METH_FASTCALL, "The iterator, n items further."};
PyObject* advance_function() {
  static PyObject* function = PyCFunction_New(&kAdvance, nullptr);
  return function;
}

}  // namespace

RecipePtr advanced_recipe(RecipePtr iterator, Py_ssize_t steps) {
  if (steps == 0) return iterator;
  PyRef number = checked(PyLong_FromSsize_t(steps));
  return call_recipe(advance_function(),
                     {std::move(iterator), make_recipe(RecipeKind::kConstant, number.get())});
}

namespace {

PyObject* type_object(PyTypeObject* type) { return reinterpret_cast<PyObject*>(type); }

// Changes of a live container, and the contents of a new instance of a subclass, are written when everything has been made.
template <typename Storage>
bool is_filled_later(const Storage& storage) {
  return storage.real_object() ? storage.changed() : storage.has_owner();
}

// The item at `index`, or null where the sequence has none: it may have shrunk, or end by what it raises.
ValuePtr item_or_end(Executor& ex, const ValuePtr& sequence, size_t index) {
  auto* object = dynamic_cast<UserObjectValue*>(sequence.get());
  const bool is_asked = object && object->special(ex, "__getitem__", true);
  if (auto* tuple = is_asked ? nullptr : tuple_in(sequence))
    return index < tuple->size(ex) ? tuple->item(ex, index) : nullptr;
  if (auto* list = list_in(sequence)) return index < list->size(ex) ? list->item(ex, index) : nullptr;
  if (auto* range = dynamic_cast<RangeValue*>(sequence.get()))
    return static_cast<int64_t>(index) < range->count(ex) ? range->at(ex, static_cast<int64_t>(index))
                                                          : nullptr;
  try {
    return sequence->get_item(ex, ex.constant_int(static_cast<int64_t>(index)));
  } catch (const PythonRaise& raised) {
    if (matches_exception(raised, PyExc_IndexError) || matches_exception(raised, PyExc_StopIteration))
      return nullptr;
    throw;
  }
}

// listiter_next, tupleiter_next, rangeiter_next: a list may grow or shrink while it is iterated.
class SequenceIterator final : public IteratorValue {
 public:
  explicit SequenceIterator(ValuePtr sequence) : sequence_(std::move(sequence)) {}
  // Over the items of a string or bytes, which are those of `sequence`.
  SequenceIterator(ValuePtr sequence, ValuePtr constant)
      : sequence_(std::move(sequence)),
        constant_(std::move(constant)),
        fresh_(checked(PyObject_GetIter(constant_->as_constant()->get()))) {}
  PyTypeObject* type() const override {
    if (constant_) return Py_TYPE(fresh_.get());
    PyTypeObject* of = sequence_->type();
    if (PyType_IsSubtype(of, &PyList_Type)) return &PyListIter_Type;
    if (PyType_IsSubtype(of, &PyTuple_Type)) return &PyTupleIter_Type;
    return of == &PyRange_Type ? &PyRangeIter_Type : &PySeqIter_Type;
  }
  ValuePtr next(Executor& ex) override {
    if (exhausted_) return nullptr;
    ValuePtr item = item_or_end(ex, sequence_, position_);
    if (item)
      ++position_;
    else
      exhausted_ = true;
    return item;
  }
  std::vector<ValuePtr> held() const override {
    return exhausted_ ? std::vector<ValuePtr>() : std::vector<ValuePtr>{sequence_};
  }
  RecipePtr make_recipe_now(Executor& ex) override {
    // Made before the changes are written back, it would count the old items.
    ListValue* list = list_in(sequence_);
    if (list && is_filled_later(*list)) break_graph("CD0211", "an iterator over a list that was changed");
    // Advancing it anew would call the program's __getitem__ again.
    if (dynamic_cast<UserObjectValue*>(sequence_.get()) && (position_ > 0 || exhausted_))
      break_graph("CD0211", "an iterator over " + sequence_->describe());
    RecipePtr items = (constant_ ? constant_ : sequence_)->recipe(ex);
    RecipePtr fresh = call_recipe(library_object("builtins", "iter"), {std::move(items)});
    return advanced_recipe(fresh, exhausted_ ? PY_SSIZE_T_MAX : static_cast<Py_ssize_t>(position_));
  }

 private:
  ValuePtr sequence_, constant_;
  PyRef fresh_;
  size_t position_ = 0;
  bool exhausted_ = false;
};

// listreviter_next, reversed_next: an item is read when its turn comes.
class ReversedIterator final : public IteratorValue {
 public:
  ReversedIterator(ValuePtr sequence, size_t count)
      : sequence_(std::move(sequence)), count_(count), left_(count) {}
  PyTypeObject* type() const override { return list_in(sequence_) ? &PyListRevIter_Type : &PyReversed_Type; }
  ValuePtr next(Executor& ex) override {
    if (ValuePtr item = left_ ? item_or_end(ex, sequence_, left_ - 1) : nullptr) {
      --left_;
      return item;
    }
    left_ = 0;
    exhausted_ = true;
    return nullptr;
  }
  std::vector<ValuePtr> held() const override {
    return left_ == 0 ? std::vector<ValuePtr>() : std::vector<ValuePtr>{sequence_};
  }
  RecipePtr make_recipe_now(Executor& ex) override {
    // Made before the changes are written back, or after the list has grown, it would start from another end.
    ListValue* list = list_in(sequence_);
    if (list && (is_filled_later(*list) || list->size(ex) != count_))
      break_graph("CD0211", "an iterator over a list that was changed");
    // Advancing it anew would call the program's __getitem__ again.
    if (dynamic_cast<UserObjectValue*>(sequence_.get()) && left_ != count_)
      break_graph("CD0211", "an iterator over " + sequence_->describe());
    RecipePtr fresh = call_recipe(type_object(&PyReversed_Type), {sequence_->recipe(ex)});
    // It lets go of the sequence where it has found its end.
    return advanced_recipe(fresh, exhausted_ ? PY_SSIZE_T_MAX : static_cast<Py_ssize_t>(count_ - left_));
  }

 private:
  ValuePtr sequence_;
  size_t count_, left_;
  bool exhausted_ = false;
};

// What an iterator of this kind gives for a key.
ValuePtr item_of(Executor& ex, DictValue& dict, const ValuePtr& key, DictViewKind kind) {
  if (kind == DictViewKind::kKeys) return key;
  ValuePtr value = dict.lookup(ex, key);
  return kind == DictViewKind::kValues ? value : new_tuple({key, value});
}

// An iterator that is made before the changes are written back would see the dict change under it.
void require_as_it_was(const DictValue& dict, uint64_t version) {
  if (dict.is_filled_later() || dict.version() != version)
    break_graph("CD0211", "an iterator over a dict that was changed");
}

// dictreviter_iternext: of a dict, or of a view.
class ReversedDictIterator final : public IteratorValue {
 public:
  ReversedDictIterator(Executor& ex, ValuePtr of, const DictViewValue* view)
      : of_(std::move(of)),
        dict_(view ? view->dict() : of_),
        kind_(view ? view->kind() : DictViewKind::kKeys),
        entries_(dict_in(dict_)->entries(ex, true)),
        left_(entries_.size()),
        version_(dict_in(dict_)->version()) {}
  PyTypeObject* type() const override {
    if (dict_in(dict_)->ordered()) return &PyODictIter_Type;
    return kind_ == DictViewKind::kKeys     ? &PyDictRevIterKey_Type
           : kind_ == DictViewKind::kValues ? &PyDictRevIterValue_Type
                                            : &PyDictRevIterItem_Type;
  }
  ValuePtr next(Executor& ex) override {
    DictValue& dict = *dict_in(dict_);
    if (dict.version() != version_) break_graph("CD0207", "a dict whose keys change");
    exhausted_ = left_ == 0;
    if (exhausted_) return nullptr;
    return item_of(ex, dict, entries_[--left_].key, kind_);
  }
  std::vector<ValuePtr> held() const override { return {of_, dict_}; }
  RecipePtr make_recipe_now(Executor& ex) override {
    require_as_it_was(*dict_in(dict_), version_);
    RecipePtr fresh = call_recipe(type_object(&PyReversed_Type), {of_->recipe(ex)});
    return advanced_recipe(fresh,
                           exhausted_ ? PY_SSIZE_T_MAX : static_cast<Py_ssize_t>(entries_.size() - left_));
  }

 private:
  ValuePtr of_, dict_;
  DictViewKind kind_;
  std::vector<DictValue::Entry> entries_;
  size_t left_;
  uint64_t version_;
  bool exhausted_ = false;
};

// dictiter_iternextkey and its siblings.
class DictIterator final : public IteratorValue {
 public:
  DictIterator(ValuePtr dict, DictViewKind kind)
      : dict_(std::move(dict)), kind_(kind), version_(dict_in(dict_)->version()) {}
  PyTypeObject* type() const override {
    if (dict_in(dict_)->ordered()) return &PyODictIter_Type;
    return kind_ == DictViewKind::kKeys     ? &PyDictIterKey_Type
           : kind_ == DictViewKind::kValues ? &PyDictIterValue_Type
                                            : &PyDictIterItem_Type;
  }
  ValuePtr next(Executor& ex) override {
    DictValue& dict = *dict_in(dict_);
    if (!started_) {
      if (dict.version() != version_) break_graph("CD0207", "a dict whose keys change");
      started_ = true;
      entries_ = dict.entries(ex, true);
    }
    if (exhausted_) return nullptr;
    if (dict.version() != version_) {
      if (dict.size(ex) == entries_.size()) break_graph("CD0207", "a dict whose keys change");
      exhausted_ = true;
      raise_error(ex, PyExc_RuntimeError, "dictionary changed size during iteration");
    }
    exhausted_ = position_ >= entries_.size();
    if (exhausted_) return nullptr;
    return item_of(ex, dict, entries_[position_++].key, kind_);
  }
  std::vector<ValuePtr> held() const override { return {dict_}; }
  RecipePtr make_recipe_now(Executor& ex) override {
    require_as_it_was(*dict_in(dict_), version_);
    RecipePtr view = DictViewValue(dict_, kind_).recipe(ex);
    return advanced_recipe(call_recipe(library_object("builtins", "iter"), {view}),
                           exhausted_ ? PY_SSIZE_T_MAX : static_cast<Py_ssize_t>(position_));
  }

 private:
  ValuePtr dict_;
  DictViewKind kind_;
  bool started_ = false, exhausted_ = false;
  uint64_t version_;
  std::vector<DictValue::Entry> entries_;
  size_t position_ = 0;
};

// setiter_iternext: the order is that of the start.
class SetIterator final : public IteratorValue {
 public:
  SetIterator(Executor& ex, ValuePtr set)
      : set_(std::move(set)), items_(set_in(set_)->items(ex)), size_(items_.size()) {}
  PyTypeObject* type() const override {
    static auto* type = reinterpret_cast<PyTypeObject*>(
        PyObject_Type(checked(PyObject_GetIter(checked(PySet_New(nullptr)).get())).get()));
    return type;
  }
  ValuePtr next(Executor& ex) override {
    if (exhausted_) return nullptr;
    SetValue& set = *set_in(set_);
    if (set.size() != size_) {
      exhausted_ = true;
      raise_error(ex, PyExc_RuntimeError, "Set changed size during iteration");
    }
    if (set.version() != version_) break_graph("CD0207", "a set that changes");
    exhausted_ = position_ >= items_.size();
    return exhausted_ ? nullptr : items_[position_++];
  }
  std::vector<ValuePtr> held() const override { return {set_}; }
  RecipePtr make_recipe_now(Executor& ex) override {
    if (is_filled_later(*set_in(set_)) || set_in(set_)->version() != version_)
      break_graph("CD0211", "an iterator over a set that was changed");
    return advanced_recipe(call_recipe(library_object("builtins", "iter"), {set_->recipe(ex)}),
                           exhausted_ ? PY_SSIZE_T_MAX : static_cast<Py_ssize_t>(position_));
  }

 private:
  ValuePtr set_;
  std::vector<ValuePtr> items_;
  size_t size_;
  uint64_t version_ = set_in(set_)->version();
  size_t position_ = 0;
  bool exhausted_ = false;
};

class EnumerateIterator final : public IteratorValue {
 public:
  EnumerateIterator(ValuePtr iterator, ValuePtr count)
      : iterator_(std::move(iterator)), count_(std::move(count)) {}
  ~EnumerateIterator() override { release(std::move(iterator_)); }
  PyTypeObject* type() const override { return &PyEnum_Type; }
  ValuePtr next(Executor& ex) override {
    ValuePtr item = next_value(ex, iterator_);
    if (!item) return nullptr;
    ValuePtr pair = new_tuple({count_, item});
    count_ = binary_operation(ex, kNbAdd, count_, ex.constant_int(1));
    return pair;
  }
  std::vector<ValuePtr> held() const override { return {iterator_}; }
  RecipePtr make_recipe_now(Executor& ex) override {
    return call_recipe(type_object(&PyEnum_Type), {iterator_->recipe(ex), count_->recipe(ex)});
  }

 private:
  ValuePtr iterator_, count_;
};

// functools.partial(zip, strict=True)
PyObject* strict_zip() {
  static PyObject* made = nullptr;
  if (!made) {
    const PyRef arguments = checked(Py_BuildValue("(O)", &PyZip_Type));
    const PyRef options = checked(Py_BuildValue("{sO}", "strict", Py_True));
    made = checked(PyObject_Call(library_object("functools", "partial"), arguments.get(), options.get()))
               .release();
  }
  return made;
}

// zip_next (Python/bltinmodule.c), strict mode included.
class ZipIterator final : public IteratorValue {
 public:
  ZipIterator(std::vector<ValuePtr> iterators, bool strict)
      : iterators_(std::move(iterators)), strict_(strict) {}
  ~ZipIterator() override { release(iterators_); }
  PyTypeObject* type() const override { return &PyZip_Type; }
  ValuePtr next(Executor& ex) override {
    if (iterators_.empty()) return nullptr;
    std::vector<ValuePtr> items;
    for (size_t i = 0; i < iterators_.size(); ++i) {
      ValuePtr item = next_value(ex, iterators_[i]);
      if (!item) {
        if (strict_) check_strict(ex, i);
        return nullptr;
      }
      items.push_back(std::move(item));
    }
    return new_tuple(std::move(items));
  }
  std::vector<ValuePtr> held() const override { return iterators_; }
  RecipePtr make_recipe_now(Executor& ex) override {
    return call_recipe(strict_ ? strict_zip() : type_object(&PyZip_Type), recipes_of(ex, iterators_));
  }

 private:
  void check_strict(Executor& ex, size_t stopped) {
    auto message = [](size_t i, const char* how) {
      return "zip() argument " + std::to_string(i + 1) + " is " + how + " than argument" +
             (i == 1 ? " 1" : "s 1-" + std::to_string(i));
    };
    if (stopped > 0) raise_error(ex, PyExc_ValueError, message(stopped, "shorter"));
    for (size_t i = 1; i < iterators_.size(); ++i)
      if (next_value(ex, iterators_[i])) raise_error(ex, PyExc_ValueError, message(i, "longer"));
  }
  std::vector<ValuePtr> iterators_;
  bool strict_;
};

class MapIterator final : public IteratorValue {
 public:
  MapIterator(ValuePtr function, std::vector<ValuePtr> iterators)
      : function_(std::move(function)), iterators_(std::move(iterators)) {}
  ~MapIterator() override { release(iterators_); }
  PyTypeObject* type() const override { return &PyMap_Type; }
  ValuePtr next(Executor& ex) override {
    CallArgs args;
    for (const ValuePtr& iterator : iterators_) {
      ValuePtr item = next_value(ex, iterator);
      if (!item) return nullptr;
      args.positional.push_back(std::move(item));
    }
    return call_or_end(ex, function_, args);
  }
  std::vector<ValuePtr> held() const override {
    std::vector<ValuePtr> all = iterators_;
    all.push_back(function_);
    return all;
  }
  RecipePtr make_recipe_now(Executor& ex) override {
    std::vector<RecipePtr> arguments = recipes_of(ex, iterators_);
    arguments.insert(arguments.begin(), function_->recipe(ex));
    return call_recipe(type_object(&PyMap_Type), std::move(arguments));
  }

 private:
  ValuePtr function_;
  std::vector<ValuePtr> iterators_;
};

class FilterIterator final : public IteratorValue {
 public:
  FilterIterator(ValuePtr function, ValuePtr iterator)
      : function_(std::move(function)), iterator_(std::move(iterator)) {}
  ~FilterIterator() override { release(std::move(iterator_)); }
  PyTypeObject* type() const override { return &PyFilter_Type; }
  ValuePtr next(Executor& ex) override {
    while (ValuePtr item = next_value(ex, iterator_)) {
      bool plain = is_none(function_) || function_->real_object() == type_object(&PyBool_Type);
      const ValuePtr accepts = plain ? item : call_or_end(ex, function_, positional({item}));
      if (!accepts) return nullptr;
      if (is_true(ex, accepts)) return item;
    }
    return nullptr;
  }
  std::vector<ValuePtr> held() const override { return {function_, iterator_}; }
  RecipePtr make_recipe_now(Executor& ex) override {
    return call_recipe(type_object(&PyFilter_Type), {function_->recipe(ex), iterator_->recipe(ex)});
  }

 private:
  ValuePtr function_, iterator_;
};

// iter(callable, sentinel): calliter_iternext.
class CallableIterator final : public IteratorValue {
 public:
  CallableIterator(ValuePtr callable, ValuePtr sentinel)
      : callable_(std::move(callable)), sentinel_(std::move(sentinel)) {}
  PyTypeObject* type() const override { return &PyCallIter_Type; }
  ValuePtr next(Executor& ex) override {
    if (!callable_) return nullptr;
    ValuePtr item = call_or_end(ex, callable_, {});
    if (item && !values_equal(ex, sentinel_, item)) return item;
    callable_ = nullptr;
    return nullptr;
  }
  std::vector<ValuePtr> held() const override { return {callable_, sentinel_}; }
  RecipePtr make_recipe_now(Executor& ex) override {
    if (!callable_) break_graph("CD0211", "an exhausted iter(callable, sentinel)");
    return call_recipe(library_object("builtins", "iter"), {callable_->recipe(ex), sentinel_->recipe(ex)});
  }

 private:
  ValuePtr callable_, sentinel_;
};

}  // namespace

// ---- what all have

ValuePtr IteratorValue::get_attribute(Executor& ex, PyObject* name) {
  return builtin_attribute(ex, shared_from_this(), name);
}

std::optional<std::vector<ValuePtr>> IteratorValue::unpack(Executor& ex) {
  ex.advancing();
  std::vector<ValuePtr> items;
  while (ValuePtr item = next(ex)) {
    items.push_back(std::move(item));
    require_short(items.size(), *this);
  }
  return items;
}

RecipePtr IteratorValue::recipe(Executor& ex) {
  if (recipe_) return recipe_;
  return recipe_ = source ? source_recipe(source) : first_recipe(recipe_, make_recipe_now(ex));
}

// ---- constructors

ValuePtr new_sequence_iterator(ValuePtr sequence) {
  return std::make_shared<SequenceIterator>(std::move(sequence));
}
ValuePtr new_constant_iterator(ValuePtr items, ValuePtr constant) {
  return std::make_shared<SequenceIterator>(std::move(items), std::move(constant));
}
ValuePtr new_dict_iterator(ValuePtr dict, DictViewKind kind) {
  return std::make_shared<DictIterator>(std::move(dict), kind);
}
ValuePtr new_set_iterator(Executor& ex, ValuePtr set) {
  return std::make_shared<SetIterator>(ex, std::move(set));
}
ValuePtr new_callable_iterator(ValuePtr callable, ValuePtr sentinel) {
  return std::make_shared<CallableIterator>(std::move(callable), std::move(sentinel));
}

ValuePtr new_reversed_iterator(Executor& ex, const ValuePtr& sequence) {
  if (auto* object = dynamic_cast<UserObjectValue*>(sequence.get()))
    if (ValuePtr method = object->special(ex, "__reversed__", true)) return method->call(ex, {});
  if (deque_in(sequence)) return new_deque_iterator(ex, sequence, true);
  auto* view = dynamic_cast<DictViewValue*>(sequence.get());
  if (view || dict_in(sequence)) return std::make_shared<ReversedDictIterator>(ex, sequence, view);
  if (auto* range = dynamic_cast<RangeValue*>(sequence.get())) return range->reversed(ex)->iterate(ex);
  // list's own __reversed__ looks at the items past what a subclass says of them.
  if (const ValuePtr& items = builtin_storage(sequence); items && list_in(items))
    return new_reversed_iterator(ex, items);
  const PySequenceMethods* methods = sequence->type()->tp_as_sequence;
  if (!methods || !methods->sq_item)
    raise_error(ex, PyExc_TypeError, "'" + type_name(sequence) + "' object is not reversible");
  return std::make_shared<ReversedIterator>(sequence, index_argument(ex, sequence->length(ex)));
}

ValuePtr new_enumerate(Executor& ex, const CallArgs& args) {
  auto bound = bind_arguments(ex, "enumerate", args, {"iterable", "start?"});
  ValuePtr start = bound[1] ? bound[1] : ex.constant_int(0);
  PyObject* known = constant_object(start);
  const bool is_int = dynamic_cast<SymIntValue*>(start.get()) || (known && PyLong_CheckExact(known));
  if (!is_int) start = ex.constant_int(index_argument(ex, start));
  return std::make_shared<EnumerateIterator>(iterate_value(ex, bound[0]), start);
}

namespace {
std::vector<ValuePtr> iterators_of(Executor& ex, const std::vector<ValuePtr>& values, size_t first) {
  std::vector<ValuePtr> iterators;
  for (size_t i = first; i < values.size(); ++i) iterators.push_back(iterate_value(ex, values[i]));
  return iterators;
}
}  // namespace

ValuePtr new_zip(Executor& ex, const CallArgs& args) {
  CallArgs options{{}, args.keywords};
  auto bound = bind_arguments(ex, "zip", options, {"*strict?"});
  bool strict = bound[0] && is_true(ex, bound[0]);
  return std::make_shared<ZipIterator>(iterators_of(ex, args.positional, 0), strict);
}

ValuePtr new_nested_iterator(PyTypeObject* type, ValuePtr function, std::vector<ValuePtr> iterators,
                             bool strict) {
  if (type == &PyZip_Type) return std::make_shared<ZipIterator>(std::move(iterators), strict);
  if (type == &PyMap_Type) return std::make_shared<MapIterator>(std::move(function), std::move(iterators));
  return std::make_shared<FilterIterator>(std::move(function), std::move(iterators[0]));
}

ValuePtr new_map(Executor& ex, const CallArgs& args) {
  require_count(ex, "map", args, 2, SIZE_MAX);
  return std::make_shared<MapIterator>(args.positional[0], iterators_of(ex, args.positional, 1));
}

ValuePtr new_filter(Executor& ex, const CallArgs& args) {
  require_count(ex, "filter", args, 2, 2);
  return std::make_shared<FilterIterator>(args.positional[0], iterate_value(ex, args.positional[1]));
}

ValuePtr iterate_value(Executor& ex, const ValuePtr& value) { return value->iterate(ex); }
ValuePtr next_value(Executor& ex, const ValuePtr& iterator) {
  ex.advancing();
  return iterator->next(ex);
}

ValuePtr call_or_end(Executor& ex, const ValuePtr& function, const CallArgs& args) {
  try {
    return function->call(ex, args);
  } catch (const PythonRaise& raised) {
    if (!matches_exception(raised, PyExc_StopIteration)) throw;
    return nullptr;
  }
}

}  // namespace cdynamo::symbolic
