// Tensors and arrays that are shown: print(x).
#include "symbolic/capture/executor_state.h"
#include "symbolic/capture/value_factories.h"
#include "symbolic/interop/numpy_access.h"
#include "symbolic/tensors/array_value.h"
#include "symbolic/values/value_tools.h"

namespace cdynamo::symbolic {

bool is_array(const ValuePtr& value) { return dynamic_cast<ArrayValue*>(value.get()); }

ValuePtr snapshot_of_array(Executor& ex, const ValuePtr& value) {
  auto* array = dynamic_cast<ArrayValue*>(value.get());
  if (!array) return nullptr;
  if (const numpy_access::Api* numpy = numpy_is_loaded() ? numpy_access::api() : nullptr) {
    if (PyType_IsSubtype(value->type(), numpy->generic_type)) return value;
    if (value->type() == numpy->array_type) return call_method(ex, value, "copy");
  }
  if (std::string_view(value->type()->tp_name) != "Tensor" || array->requires_grad()) return nullptr;
  // The program may have set how tensors are shown.
  const auto& known = ex.state().by_object;
  if (known.contains(library_object("torch._tensor_str", "PRINT_OPTS"))) return nullptr;
  return call_method(ex, call_method(ex, value, "detach"), "clone");
}

}  // namespace cdynamo::symbolic
