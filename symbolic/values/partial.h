// functools.partial: a callable with arguments to begin with.
#pragma once

#include "symbolic/capture/value.h"

namespace cdynamo::symbolic {

class PartialValue final : public SymbolicValue {
 public:
  // `keywords`: a dict, which the program may change.
  PartialValue(ValuePtr function, std::vector<ValuePtr> positional, ValuePtr keywords)
      : function_(std::move(function)), positional_(std::move(positional)), keywords_(std::move(keywords)) {}
  PyTypeObject* type() const override;
  PyObject* real_object() const override { return object.get(); }
  ValuePtr get_attribute(Executor& ex, PyObject* name) override;
  void set_attribute(Executor& ex, PyObject* name, const ValuePtr& value) override;
  ValuePtr call(Executor& ex, const CallArgs& args) override;
  std::optional<bool> truth(Executor&) override { return true; }
  PyRef hash_key(Executor& ex) override;
  RecipePtr recipe(Executor& ex) override;

  CallArgs bound(Executor& ex) const;
  std::vector<ValuePtr> held() const;  // the function, its arguments and the dict of its keywords
  PyRef object;                        // the live partial, where there is one

 private:
  ValuePtr function_;
  std::vector<ValuePtr> positional_;
  ValuePtr keywords_;
  bool keywords_are_shown_ = false;
  std::vector<std::pair<PyRef, ValuePtr>> attributes_;  // of one that captured code has made
  RecipePtr recipe_;
};

ValuePtr make_partial(Executor& ex, const CallArgs& args);
ValuePtr wrap_partial(Executor& ex, PyObject* object, const SourcePtr& source);  // null: not a partial

}  // namespace cdynamo::symbolic
