// weakref.proxy(object): every operation on it is one on the object, as long as that is known to live.
#pragma once

#include "symbolic/capture/value.h"

namespace cdynamo::symbolic {

class WeakProxyValue final : public SymbolicValue {
 public:
  // `reference`: what gives the object when it is called.
  WeakProxyValue(ValuePtr reference, PyTypeObject* type) : reference_(std::move(reference)), type_(type) {}
  ValuePtr object(Executor& ex) const { return reference_->call(ex, {}); }

  PyTypeObject* type() const override { return type_; }
  std::string describe() const override { return "proxy by a " + reference_->describe(); }
  PyObject* real_object() const override { return live.get(); }
  ValuePtr get_attribute(Executor& ex, PyObject* name) override;
  void set_attribute(Executor& ex, PyObject* name, const ValuePtr& value) override;
  ValuePtr call(Executor& ex, const CallArgs& args) override;
  ValuePtr get_item(Executor& ex, const ValuePtr& key) override;
  void set_item(Executor& ex, const ValuePtr& key, const ValuePtr& value) override;
  bool contains(Executor& ex, const ValuePtr& item) override;
  ValuePtr length(Executor& ex) override;
  ValuePtr iterate(Executor& ex) override;
  ValuePtr next(Executor& ex) override;
  std::optional<bool> truth(Executor& ex) override;
  ValuePtr unary(Executor& ex, Op op) override;
  ValuePtr binary(Executor& ex, int nb_op, const ValuePtr& other, bool reflected) override;
  ValuePtr compare(Executor& ex, int py_op, const ValuePtr& other) override;
  RecipePtr recipe(Executor& ex) override;
  void forget() override { reference_ = nullptr; }

  PyRef live;  // the proxy itself, if it came in

 private:
  ValuePtr reference_;
  PyTypeObject* type_;
  RecipePtr recipe_;
};

// weakref.proxy(object)
ValuePtr make_weak_proxy(Executor& ex, const CallArgs& args);
// A proxy that came in; null: the object is none.
ValuePtr wrap_weak_proxy(Executor& ex, PyObject* object, const SourcePtr& source);
// What a proxy stands for; any other value is itself.
ValuePtr without_proxy(Executor& ex, const ValuePtr& value);

}  // namespace cdynamo::symbolic
