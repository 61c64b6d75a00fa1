#include "symbolic/values/weak_reference.h"

#include "symbolic/capture/executor_state.h"
#include "symbolic/capture/value_factories.h"
#include "symbolic/interop/weak_reference_access.h"
#include "symbolic/values/made_weak_reference.h"
#include "symbolic/values/value_tools.h"

namespace cdynamo::symbolic {

bool may_be_held_by_nothing(const SourcePtr& source) {
  if (source->kind == SourceKind::kArgument) return true;
  const Source* root = source.get();
  for (; root->base; root = root->base.get())
    if (root->kind == SourceKind::kUpcoming) return true;
  return root->kind == SourceKind::kArgument && root->label.starts_with(".stack");
}

namespace {

bool may_have_died(Executor& ex, PyObject* object, const SourcePtr& source) {
  if (is_held_by_frame(ex, object)) return false;
  const Executor::State& state = ex.state();
  return state.let_go_of_holder || state.let_go.contains(object) || may_be_held_by_nothing(source);
}

[[noreturn]] void refuse(PyObject* object) {
  break_graph("CD0224", std::string("a ") + Py_TYPE(object)->tp_name);
}

// A tensor that comes in is known by its source alone. Null: the object is made here.
PyRef live_referent(Executor& ex, const ValuePtr& value) {
  if (!value->source) return {};
  if (!value->real_object() && is_array(value)) return follow(*value->source, ex.state().request.roots);
  return PyRef::borrow(value->real_object());
}

// What a reference leads to, whatever a subclass has for its __call__; null: the value is none.
ValuePtr referent_in(Executor& ex, const ValuePtr& value) {
  if (WeakReferenceValue* made = made_reference_in(value)) return made->call(ex, {});
  auto* object = dynamic_cast<UserObjectValue*>(value.get());
  return object && is_weak_reference(*object) ? call_weak_reference(ex, *object, {}) : nullptr;
}

}  // namespace

bool has_identity(PyTypeObject* type) {
  return type->tp_hash == PyBaseObject_Type.tp_hash &&
         type->tp_richcompare == PyBaseObject_Type.tp_richcompare;
}

bool may_have_died(Executor& ex, const ValuePtr& object) {
  return may_have_died(ex, live_referent(ex, object).get(), object->source);
}

ValuePtr make_weak_reference(Executor& ex, const CallArgs& args) {
  require_no_keywords(ex, "ref", args);
  require_count(ex, "__new__", args, 1, 2);
  const ValuePtr& value = args.positional[0];
  if (!PyType_SUPPORTS_WEAKREFS(value->type()))
    raise_error(ex, PyExc_TypeError, "cannot create weak reference to '" + type_name(value) + "' object");
  if (args.positional.size() == 2 && !is_none(args.positional[1]))
    return make_weak_reference_with(ex, value, args.positional[1]);
  return weak_reference_to(ex, value);
}

ValuePtr weak_reference_to(Executor& ex, const ValuePtr& value) {
  const PyRef object = live_referent(ex, value);
  if (!object && !value->source) return made_weak_reference(ex, value);
  PyRef reference = object ? weak_reference(object.get()) : PyRef();
  if (!reference) break_graph("CD0224", value->describe());
  return ex.wrap(reference.get(), value->source->kind == SourceKind::kConstant
                                      ? constant_source(reference.get())
                                      : derived_source(SourceKind::kWeakReference, value->source));
}

bool is_weak_reference(const UserObjectValue& value) {
  return value.real_object() && value.source && PyWeakref_CheckRef(value.real_object());
}

ValuePtr call_weak_reference(Executor& ex, UserObjectValue& reference, const CallArgs& args) {
  require_no_keywords(ex, "weakref", args);
  require_count(ex, "weakref", args, 0, 0);
  const PyRef object = referent(reference.real_object());
  const SourcePtr source = derived_source(SourceKind::kReferent, reference.source);
  if (object.get() == Py_None) return ex.wrap(Py_None, source);
  const auto known = ex.state().by_object.find(object.get());
  const bool is_known = known != ex.state().by_object.end() && known->second->source;
  if (may_have_died(ex, object.get(), is_known ? known->second->source : source)) refuse(object.get());
  return ex.wrap(object.get(), source);
}

ValuePtr compare_weak_references(Executor& ex, const ValuePtr& reference, int py_op, const ValuePtr& other) {
  if (py_op != Py_EQ && py_op != Py_NE) return nullptr;
  const ValuePtr others = referent_in(ex, other);
  if (!others) return nullptr;
  const ValuePtr mine = referent_in(ex, reference);
  // Two of dead objects are equal where they are the same reference.
  if (is_none(mine) || is_none(others)) refuse(Py_None);
  return compare_operation(ex, py_op, mine, others);
}

PyRef weak_reference_key(Executor& ex, UserObjectValue& reference) {
  const PyRef object = referent(reference.real_object());
  if (object.get() == Py_None || !has_identity(Py_TYPE(object.get())))
    break_graph("CD0210", "a weak reference to a " + std::string(Py_TYPE(object.get())->tp_name));
  if (reference.source->kind != SourceKind::kConstant)
    add_guard(ex, GuardKind::kIdentity, reference.source, reference.real_object());
  return PyRef::borrow(reference.real_object());
}

void note_change(Executor& ex, bool is_first, const std::vector<ValuePtr>& items) {
  if (!is_first) return;
  for (const ValuePtr& item : items)
    if (item) ex.state().note_let_go(item->real_object());
}

}  // namespace cdynamo::symbolic
