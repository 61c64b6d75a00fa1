// Iterators that CPython implements in C: over sequences, dicts, callables; enumerate, zip, map, filter,
// reversed. Each is suspended state: `next` gives an item, or null when it is exhausted. One that is alive at
// a graph break is made again at the position it had.
#pragma once

#include "symbolic/capture/value.h"
#include "symbolic/values/dict.h"

namespace cdynamo::symbolic {

class IteratorValue : public SymbolicValue {
 public:
  ValuePtr get_attribute(Executor& ex, PyObject* name) override;
  ValuePtr iterate(Executor&) override { return shared_from_this(); }
  std::optional<bool> truth(Executor&) override { return true; }
  std::optional<std::vector<ValuePtr>> unpack(Executor& ex) override;
  RecipePtr recipe(Executor& ex) override;
  // What CPython's refers to; nothing once it is exhausted, where it lets go then. May be null in part.
  virtual std::vector<ValuePtr> held() const { return {}; }

 protected:
  virtual RecipePtr make_recipe_now(Executor& ex) = 0;

 private:
  RecipePtr recipe_;
};

// The iterator that `iterator` gives, so many items further.
RecipePtr advanced_recipe(RecipePtr iterator, Py_ssize_t steps);

// Over a list, tuple, range, or any object with __getitem__ (PySeqIter).
ValuePtr new_sequence_iterator(ValuePtr sequence);
ValuePtr new_constant_iterator(ValuePtr items, ValuePtr constant);  // over a string or bytes
ValuePtr new_reversed_iterator(Executor& ex, const ValuePtr& sequence);
ValuePtr new_dict_iterator(ValuePtr dict, DictViewKind kind);
ValuePtr new_enumerate(Executor& ex, const CallArgs& args);
ValuePtr new_zip(Executor& ex, const CallArgs& args);
ValuePtr new_map(Executor& ex, const CallArgs& args);
ValuePtr new_filter(Executor& ex, const CallArgs& args);
ValuePtr new_set_iterator(Executor& ex, ValuePtr set);
ValuePtr new_callable_iterator(ValuePtr callable, ValuePtr sentinel);

// iter(x) and next(it) as the builtins do them.
ValuePtr iterate_value(Executor& ex, const ValuePtr& value);
ValuePtr next_value(Executor& ex, const ValuePtr& iterator);  // null: exhausted
// What an iterator calls for its next item: null, too, where that raises StopIteration.
ValuePtr call_or_end(Executor& ex, const ValuePtr& function, const CallArgs& args);

}  // namespace cdynamo::symbolic
