// Methods and iterators of deques: Modules/_collectionsmodule.c.
#include "symbolic/values/deque_methods.h"

#include <algorithm>

#include "symbolic/capture/executor.h"
#include "symbolic/values/builtin_method.h"
#include "symbolic/values/builtins.h"
#include "symbolic/values/iterator.h"
#include "symbolic/values/sequence.h"
#include "symbolic/values/user_object.h"
#include "symbolic/values/value_tools.h"

namespace cdynamo::symbolic {

Py_ssize_t find_in_deque(Executor& ex, DequeValue& deque, const ValuePtr& wanted, Py_ssize_t start,
                         Py_ssize_t stop) {
  const uint64_t version = deque.version();
  for (Py_ssize_t i = start; i < stop && i < static_cast<Py_ssize_t>(deque.size(ex)); ++i) {
    ValuePtr item = deque.item(ex, static_cast<size_t>(i));
    const bool equal = values_equal(ex, item, wanted);
    if (deque.version() != version) raise_error(ex, PyExc_RuntimeError, "deque mutated during iteration");
    if (equal) return i;
  }
  return -1;
}

void extend_deque(Executor& ex, DequeValue& deque, const ValuePtr& iterable, bool left) {
  auto add = [&](ValuePtr item) {
    left ? deque.append_left(ex, std::move(item)) : deque.append(ex, std::move(item));
  };
  if (deque_in(iterable) == &deque) {
    const std::vector<ValuePtr> more = deque.items(ex);
    for (const ValuePtr& item : more) add(item);
    return;
  }
  // One by one: an iterator may look at the deque, or raise half-way.
  ValuePtr iterator = iterate_value(ex, iterable);
  for (size_t count = 1; ValuePtr item = next_value(ex, iterator); ++count) {
    add(std::move(item));
    require_short(count, *iterable);
  }
}

namespace {

[[noreturn]] void raise_missing(Executor& ex, const ValuePtr& wanted) {
  PyRef shown = string_argument(ex, to_string(ex, wanted, true));
  raise_error(ex, PyExc_ValueError, std::string(PyUnicode_AsUTF8(shown.get())) + " is not in deque");
}

DequeValue& deque_of(const ValuePtr& self) { return *deque_in(self); }

ValuePtr append(Executor& ex, const ValuePtr& self, const CallArgs& args) {
  require_count(ex, "append", args, 1, 1);
  deque_of(self).append(ex, args.positional[0]);
  return ex.none();
}
ValuePtr append_left(Executor& ex, const ValuePtr& self, const CallArgs& args) {
  require_count(ex, "appendleft", args, 1, 1);
  deque_of(self).append_left(ex, args.positional[0]);
  return ex.none();
}
ValuePtr extend(Executor& ex, const ValuePtr& self, const CallArgs& args) {
  require_count(ex, "extend", args, 1, 1);
  extend_deque(ex, deque_of(self), args.positional[0], false);
  return ex.none();
}
ValuePtr extend_left(Executor& ex, const ValuePtr& self, const CallArgs& args) {
  require_count(ex, "extendleft", args, 1, 1);
  extend_deque(ex, deque_of(self), args.positional[0], true);
  return ex.none();
}

ValuePtr take_end(Executor& ex, const ValuePtr& self, const CallArgs& args, bool left) {
  require_count(ex, left ? "popleft" : "pop", args, 0, 0);
  const size_t size = deque_of(self).size(ex);
  if (size == 0) raise_error(ex, PyExc_IndexError, "pop from an empty deque");
  return deque_of(self).take(ex, left ? 0 : size - 1);
}
ValuePtr pop(Executor& ex, const ValuePtr& self, const CallArgs& args) {
  return take_end(ex, self, args, false);
}
ValuePtr pop_left(Executor& ex, const ValuePtr& self, const CallArgs& args) {
  return take_end(ex, self, args, true);
}

ValuePtr rotate(Executor& ex, const ValuePtr& self, const CallArgs& args) {
  require_count(ex, "rotate", args, 0, 1);
  deque_of(self).rotate(ex, args.positional.empty() ? 1 : index_argument(ex, args.positional[0]));
  return ex.none();
}

// deque_insert
ValuePtr insert(Executor& ex, const ValuePtr& self, const CallArgs& args) {
  require_count(ex, "insert", args, 2, 2);
  DequeValue& deque = deque_of(self);
  const Py_ssize_t index = index_argument(ex, args.positional[0]);
  const auto size = static_cast<Py_ssize_t>(deque.size(ex));
  const ValuePtr& item = args.positional[1];
  if (deque.max_length(ex) == size) raise_error(ex, PyExc_IndexError, "deque already at its maximum size");
  if (index >= size) {
    deque.append(ex, item);
  } else if (index <= -size || index == 0) {
    deque.append_left(ex, item);
  } else {
    deque.rotate(ex, -index);
    index < 0 ? deque.append(ex, item) : deque.append_left(ex, item);
    deque.rotate(ex, index);
  }
  return ex.none();
}

ValuePtr remove(Executor& ex, const ValuePtr& self, const CallArgs& args) {
  require_count(ex, "remove", args, 1, 1);
  DequeValue& deque = deque_of(self);
  const uint64_t version = deque.version();
  for (size_t i = 0; i < deque.size(ex); ++i) {
    ValuePtr item = deque.item(ex, i);
    const bool equal = values_equal(ex, item, args.positional[0]);
    if (deque.version() != version) raise_error(ex, PyExc_IndexError, "deque mutated during iteration");
    if (!equal) continue;
    deque.set_item(ex, ex.constant_int(static_cast<int64_t>(i)), nullptr);
    return ex.none();
  }
  raise_missing(ex, args.positional[0]);
}

ValuePtr clear(Executor& ex, const ValuePtr& self, const CallArgs& args) {
  require_count(ex, "clear", args, 0, 0);
  if (deque_of(self).size(ex) > 0) deque_of(self).replace(ex, {});
  return ex.none();
}

ValuePtr copy(Executor& ex, const ValuePtr& self, const CallArgs& args) {
  require_count(ex, "copy", args, 0, 0);
  DequeValue& deque = deque_of(self);
  if (!deque.is_plain()) break_graph("CD0202", "copy of a subclass of deque");
  return new_deque(deque.items(ex), deque.max_length(ex));
}

// The items are exchanged in place: for iterators nothing changes.
ValuePtr reverse(Executor& ex, const ValuePtr& self, const CallArgs& args) {
  require_count(ex, "reverse", args, 0, 0);
  DequeValue& deque = deque_of(self);
  std::vector<ValuePtr> items = deque.items(ex);
  std::ranges::reverse(items);
  for (size_t i = 0; i < items.size(); ++i) deque.assign(ex, i, items[i]);
  return ex.none();
}

ValuePtr index(Executor& ex, const ValuePtr& self, const CallArgs& args) {
  require_count(ex, "index", args, 1, 3);
  DequeValue& deque = deque_of(self);
  const auto size = static_cast<Py_ssize_t>(deque.size(ex));
  auto clip = [&](size_t position, Py_ssize_t missing) {
    if (args.positional.size() <= position) return missing;
    const Py_ssize_t bound = index_argument(ex, args.positional[position]);
    return std::clamp<Py_ssize_t>(bound < 0 ? bound + size : bound, 0, size);
  };
  const Py_ssize_t found = find_in_deque(ex, deque, args.positional[0], clip(1, 0), clip(2, size));
  if (found >= 0) return ex.constant_int(found);
  raise_missing(ex, args.positional[0]);
}

ValuePtr count(Executor& ex, const ValuePtr& self, const CallArgs& args) {
  require_count(ex, "count", args, 1, 1);
  DequeValue& deque = deque_of(self);
  const auto size = static_cast<Py_ssize_t>(deque.size(ex));
  int64_t count = 0;
  for (Py_ssize_t at = 0; (at = find_in_deque(ex, deque, args.positional[0], at, size)) >= 0; ++at) ++count;
  return ex.constant_int(count);
}

Py_ssize_t max_length_argument(Executor& ex, const ValuePtr& value) {
  if (!value || is_none(value)) return DequeValue::kUnbounded;
  if (!is_integer_value(value)) raise_error(ex, PyExc_TypeError, "an integer is required");
  const Py_ssize_t length = index_argument(ex, value);
  if (length < 0) raise_error(ex, PyExc_ValueError, "maxlen must be non-negative");
  return length;
}

ValuePtr init(Executor& ex, const ValuePtr& self, const CallArgs& args) {
  auto bound = bind_arguments(ex, "deque", args, {"iterable?", "maxlen?"});
  DequeValue& deque = deque_of(self);
  deque.restart(ex, max_length_argument(ex, bound[1]));
  if (bound[0]) extend_deque(ex, deque, bound[0], false);
  return ex.none();
}

ValuePtr reversed(Executor& ex, const ValuePtr& self, const CallArgs& args) {
  require_count(ex, "__reversed__", args, 0, 0);
  return new_deque_iterator(ex, self, true);
}

constexpr BuiltinMethodRow kDequeMethods[] = {
    {"append", append},
    {"appendleft", append_left},
    {"extend", extend},
    {"extendleft", extend_left},
    {"pop", pop},
    {"popleft", pop_left},
    {"rotate", rotate},
    {"insert", insert},
    {"remove", remove},
    {"clear", clear},
    {"copy", copy},
    {"__copy__", copy},
    {"reverse", reverse},
    {"index", index},
    {"count", count},
    {"__init__", init},
    {"__reversed__", reversed},
};

// dequeiter_next, dequereviter_next
class DequeIterator final : public IteratorValue {
 public:
  DequeIterator(Executor& ex, ValuePtr deque, bool reversed)
      : deque_(std::move(deque)),
        reversed_(reversed),
        left_(deque_in(deque_)->size(ex)),
        version_(deque_in(deque_)->version()) {}
  ~DequeIterator() override { release(std::move(deque_)); }
  PyTypeObject* type() const override {
    static PyTypeObject* types[2] = {iterator_type("__iter__"), iterator_type("__reversed__")};
    return types[reversed_];
  }
  ValuePtr next(Executor& ex) override {
    DequeValue& deque = *deque_in(deque_);
    if (deque.version() != version_) {
      left_ = 0;
      raise_error(ex, PyExc_RuntimeError, "deque mutated during iteration");
    }
    if (left_ == 0) return nullptr;
    const size_t at = reversed_ ? left_ - 1 : deque.size(ex) - left_;
    --left_;
    return deque.item(ex, at);
  }
  std::vector<ValuePtr> held() const override { return {deque_}; }
  RecipePtr make_recipe_now(Executor& ex) override {
    DequeValue& deque = *deque_in(deque_);
    if (deque.is_filled_later()) break_graph("CD0211", "an iterator over a deque that was made or changed");
    const size_t taken = deque.size(ex) - left_;
    return advanced_recipe(
        call_recipe(library_object("builtins", reversed_ ? "reversed" : "iter"), {deque_->recipe(ex)}),
        static_cast<Py_ssize_t>(taken));
  }

 private:
  static PyTypeObject* iterator_type(const char* method) {
    PyRef empty = checked(PyObject_CallNoArgs(reinterpret_cast<PyObject*>(deque_type())));
    PyRef iterator = checked(PyObject_CallMethod(empty.get(), method, nullptr));
    return Py_TYPE(iterator.get());
  }
  ValuePtr deque_;
  bool reversed_;
  size_t left_;
  uint64_t version_;
};

}  // namespace

ValuePtr DequeValue::get_attribute(Executor& ex, PyObject* name) {
  if (auto method = find_builtin_method(shared_from_this(), name, kDequeMethods)) return method;
  if (PyUnicode_CompareWithASCIIString(name, "maxlen") == 0)
    return max_length(ex) < 0 ? ex.none() : ex.constant_int(max_length_);
  return builtin_attribute(ex, shared_from_this(), name);
}

ValuePtr new_deque_iterator(Executor& ex, ValuePtr deque, bool reversed) {
  return std::make_shared<DequeIterator>(ex, std::move(deque), reversed);
}

ValuePtr make_deque(Executor& ex, const CallArgs& args) {
  auto deque = new_deque({}, DequeValue::kUnbounded);
  init(ex, deque, args);
  return deque;
}

}  // namespace cdynamo::symbolic
