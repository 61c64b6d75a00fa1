#include "symbolic/values/weak_proxy.h"

#include "symbolic/capture/executor_state.h"
#include "symbolic/capture/value_factories.h"
#include "symbolic/interop/weak_reference_access.h"
#include "symbolic/values/builtins.h"
#include "symbolic/values/iterator.h"
#include "symbolic/values/value_tools.h"
#include "symbolic/values/weak_reference.h"

namespace cdynamo::symbolic {

namespace {

// What a proxy that came in leads to.
class ReferentOfProxy final : public SymbolicValue {
 public:
  ReferentOfProxy(PyObject* proxy, SourcePtr proxy_source) : proxy_(PyRef::borrow(proxy)) {
    source = std::move(proxy_source);
  }
  PyTypeObject* type() const override { return &_PyWeakref_RefType; }
  std::string describe() const override { return "weak reference"; }
  ValuePtr call(Executor& ex, const CallArgs&) override {
    const ValuePtr object =
        ex.wrap(referent(proxy_.get()).get(), derived_source(SourceKind::kReferent, source));
    if (is_none(object) || may_have_died(ex, object)) break_graph("CD0224", object->describe());
    return object;
  }
  RecipePtr recipe(Executor&) override { return source_recipe(source); }

 private:
  PyRef proxy_;
};

}  // namespace

ValuePtr WeakProxyValue::get_attribute(Executor& ex, PyObject* name) {
  return object(ex)->get_attribute(ex, name);
}
void WeakProxyValue::set_attribute(Executor& ex, PyObject* name, const ValuePtr& value) {
  object(ex)->set_attribute(ex, name, value);
}
ValuePtr WeakProxyValue::call(Executor& ex, const CallArgs& args) { return object(ex)->call(ex, args); }
ValuePtr WeakProxyValue::get_item(Executor& ex, const ValuePtr& key) { return object(ex)->get_item(ex, key); }
void WeakProxyValue::set_item(Executor& ex, const ValuePtr& key, const ValuePtr& value) {
  object(ex)->set_item(ex, key, value);
}
bool WeakProxyValue::contains(Executor& ex, const ValuePtr& item) { return object(ex)->contains(ex, item); }
ValuePtr WeakProxyValue::length(Executor& ex) { return object(ex)->length(ex); }
ValuePtr WeakProxyValue::iterate(Executor& ex) { return iterate_value(ex, object(ex)); }
ValuePtr WeakProxyValue::next(Executor& ex) { return next_value(ex, object(ex)); }
std::optional<bool> WeakProxyValue::truth(Executor& ex) { return object(ex)->truth(ex); }
ValuePtr WeakProxyValue::unary(Executor& ex, Op op) { return object(ex)->unary(ex, op); }

// proxy_add and the like unwrap both operands, and begin anew.
ValuePtr WeakProxyValue::binary(Executor& ex, int nb_op, const ValuePtr& other, bool reflected) {
  const ValuePtr mine = object(ex), others = without_proxy(ex, other);
  return binary_operation(ex, nb_op, reflected ? others : mine, reflected ? mine : others);
}
ValuePtr WeakProxyValue::compare(Executor& ex, int py_op, const ValuePtr& other) {
  return compare_operation(ex, py_op, object(ex), without_proxy(ex, other));
}

RecipePtr WeakProxyValue::recipe(Executor& ex) {
  if (recipe_) return recipe_;
  if (source) return recipe_ = source_recipe(source);
  return first_recipe(recipe_, call_recipe(library_object("weakref", "proxy"), {object(ex)->recipe(ex)}));
}

ValuePtr make_weak_proxy(Executor& ex, const CallArgs& args) {
  require_no_keywords(ex, "proxy", args);
  require_count(ex, "proxy", args, 1, 2);
  if (args.positional.size() == 2 && !is_none(args.positional[1]))
    break_graph("CD0224", "a proxy with a callback");
  const ValuePtr& object = args.positional[0];
  if (!PyType_SUPPORTS_WEAKREFS(object->type()))
    raise_error(ex, PyExc_TypeError, "cannot create weak reference to '" + type_name(object) + "' object");
  PyTypeObject* type = object->type()->tp_call ? &_PyWeakref_CallableProxyType : &_PyWeakref_ProxyType;
  ValuePtr proxy = std::make_shared<WeakProxyValue>(weak_reference_to(ex, object), type);
  ex.state().cyclic[proxy.get()] = proxy;
  return proxy;
}

ValuePtr wrap_weak_proxy(Executor& ex, PyObject* object, const SourcePtr& source) {
  if (!PyWeakref_CheckProxy(object)) return nullptr;
  guard_exact_type(ex, object, source);
  auto proxy =
      std::make_shared<WeakProxyValue>(std::make_shared<ReferentOfProxy>(object, source), Py_TYPE(object));
  proxy->live = PyRef::borrow(object);
  proxy->source = source;
  return proxy;
}

ValuePtr without_proxy(Executor& ex, const ValuePtr& value) {
  auto* proxy = dynamic_cast<WeakProxyValue*>(value.get());
  return proxy ? proxy->object(ex) : value;
}

}  // namespace cdynamo::symbolic
