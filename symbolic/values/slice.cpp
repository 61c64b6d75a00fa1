#include "symbolic/values/slice.h"

#include "symbolic/capture/value_factories.h"
#include "symbolic/values/builtin_method.h"
#include "symbolic/values/sequence.h"
#include "symbolic/values/tuple.h"
#include "symbolic/values/value_tools.h"

namespace cdynamo::symbolic {

ValuePtr make_slice(Executor& ex, ValuePtr start, ValuePtr stop, ValuePtr step) {
  auto or_none = [&](ValuePtr value) { return value ? value : ex.none(); };
  return std::make_shared<SliceValue>(or_none(start), or_none(stop), or_none(step));
}

ValuePtr slice_from_object(Executor& ex, PyObject* object) {
  auto* slice = reinterpret_cast<PySliceObject*>(object);
  return make_slice(ex, ex.constant(PyRef::borrow(slice->start)), ex.constant(PyRef::borrow(slice->stop)),
                    ex.constant(PyRef::borrow(slice->step)));
}

std::optional<PyRef> SliceValue::as_constant() const {
  auto start = start_->as_constant(), stop = stop_->as_constant(), step = step_->as_constant();
  if (!start || !stop || !step) return std::nullopt;
  return checked(PySlice_New(start->get(), stop->get(), step->get()));
}

namespace {
// slice.indices(length) -> (start, stop, step)
ValuePtr indices(Executor& ex, const ValuePtr& self, const CallArgs& args) {
  require_count(ex, "indices", args, 1, 1);
  PyRef slice = self->materialize(ex);
  PyRef length = args.positional[0]->materialize(ex);
  if (!slice || !length) break_graph("CD0215", "slice.indices");
  return ex.constant(checked_user(ex, PyObject_CallMethod(slice.get(), "indices", "O", length.get())));
}
constexpr BuiltinMethodRow kSliceMethods[] = {{"indices", indices}};
}  // namespace

ValuePtr SliceValue::get_attribute(Executor& ex, PyObject* name) {
  std::string_view text = PyUnicode_AsUTF8(name);
  if (text == "start") return start_;
  if (text == "stop") return stop_;
  if (text == "step") return step_;
  if (auto method = find_builtin_method(shared_from_this(), name, kSliceMethods)) return method;
  return builtin_attribute(ex, shared_from_this(), name);
}

ValuePtr SliceValue::compare(Executor& ex, int py_op, const ValuePtr& other) {
  auto* slice = dynamic_cast<SliceValue*>(other.get());
  if (!slice) return nullptr;
  return compare_sequences(ex, py_op, {start_, stop_, step_}, {slice->start_, slice->stop_, slice->step_},
                           LengthsDiffer::kComesLast);
}

PyRef SliceValue::hash_key(Executor& ex) {
#if PY_VERSION_HEX < 0x030C0000
  raise_error(ex, PyExc_TypeError, "unhashable type: 'slice'");
#else
  PyRef slice = materialize(ex);
  if (!slice) break_graph("CD0210", "slice");
  return slice;
#endif
}

ValuePtr SliceValue::length(Executor& ex) {
  raise_error(ex, PyExc_TypeError, "object of type 'slice' has no len()");
}

PyRef SliceValue::materialize(Executor& ex) {
  PyRef start = start_->materialize(ex), stop = stop_->materialize(ex), step = step_->materialize(ex);
  if (!start || !stop || !step) return {};
  return checked(PySlice_New(start.get(), stop.get(), step.get()));
}

RecipePtr SliceValue::recipe(Executor& ex) {
  if (recipe_) return recipe_;
  if (source) return recipe_ = source_recipe(source);
  return first_recipe(recipe_,
                      make_recipe(RecipeKind::kSlice, nullptr, recipes_of(ex, {start_, stop_, step_})));
}

}  // namespace cdynamo::symbolic
