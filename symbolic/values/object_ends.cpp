#include "symbolic/values/object_ends.h"

#include <algorithm>
#include <string>

#include "symbolic/capture/executor_state.h"
#include "symbolic/capture/value_factories.h"
#include "symbolic/interop/finalizers.h"
#include "symbolic/values/holder_search.h"
#include "symbolic/values/value_tools.h"

namespace cdynamo::symbolic {

void break_before_end(PyObject* object) {
  break_graph("CD0221", std::string("class ") + Py_TYPE(object)->tp_name);
}

void note_held_by_stack(Executor& ex, const ValuePtr& value) {
  const PyRef object = value && value->source ? follow(*value->source, ex.state().request.roots) : PyRef();
  std::vector<ValuePtr>& held = ex.state().held_by_stacks;
  if (object && runs_code_when_it_dies(object.get()) && std::ranges::find(held, value) == held.end())
    held.push_back(value);
}

void require_held_by_stacks(Executor& ex) {
  for (const ValuePtr& value : ex.state().held_by_stacks) {
    const PyRef object = follow(*value->source, ex.state().request.roots);
    HolderSearch search(ex, value);
    const auto is_in = [&](const ValuePtr& holder) { return search.is_in(holder); };
    if (object && !is_held_by_frame(ex, object.get()) && !any_held(ex, is_in) &&
        !is_kept(ex, value, nullptr, true))
      break_before_end(object.get());
  }
}

}  // namespace cdynamo::symbolic
