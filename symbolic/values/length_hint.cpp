#include "symbolic/values/length_hint.h"

#include "symbolic/capture/value_factories.h"
#include "symbolic/values/iterator.h"
#include "symbolic/values/sequence.h"
#include "symbolic/values/user_object.h"
#include "symbolic/values/value_tools.h"

namespace cdynamo::symbolic {
namespace {

// Null: there is none, or it has raised a TypeError, which counts as that.
ValuePtr asked(Executor& ex, UserObjectValue& object, const char* name, bool is_length) {
  try {
    const ValuePtr method = object.special(ex, name, true);
    const ValuePtr returned = method ? method->call(ex, {}) : nullptr;
    return returned && is_length ? checked_length(ex, returned) : returned;
  } catch (const PythonRaise& raised) {
    if (!matches_exception(raised, PyExc_TypeError)) throw;
    return nullptr;
  }
}

}  // namespace

void ask_length_hint(Executor& ex, const ValuePtr& iterable) {
  auto* object = dynamic_cast<UserObjectValue*>(iterable.get());
  if (!object || asked(ex, *object, "__len__", true)) return;
  const ValuePtr hint = asked(ex, *object, "__length_hint__", false);
  if (!hint || hint->real_object() == Py_NotImplemented) return;
  if (!PyType_IsSubtype(hint->type(), &PyLong_Type))
    raise_error(ex, PyExc_TypeError, "__length_hint__ must be an integer, not " + type_name(hint));
  if (is_true(ex, compare_operation(ex, Py_LT, hint, ex.constant_int(0))))
    raise_error(ex, PyExc_ValueError, "__length_hint__() should return >= 0");
}

std::vector<ValuePtr> listed_items(Executor& ex, const ValuePtr& iterable) {
  if (!dynamic_cast<UserObjectValue*>(iterable.get())) return items_of(ex, iterable);
  const ValuePtr iterator = iterate_value(ex, iterable);
  ask_length_hint(ex, iterable);
  std::vector<ValuePtr> items;
  while (ValuePtr item = next_value(ex, iterator)) {
    items.push_back(std::move(item));
    require_short(items.size(), *iterable);
  }
  return items;
}

}  // namespace cdynamo::symbolic
