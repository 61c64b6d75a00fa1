#include "symbolic/capture/value.h"

#include "absl/strings/str_cat.h"
#include "symbolic/capture/executor.h"

namespace cdynamo::symbolic {

std::string SymbolicValue::describe() const { return type()->tp_name; }

ValuePtr SymbolicValue::get_attribute(Executor&, PyObject* name) {
  break_graph("CD0200", absl::StrCat("attribute '", PyUnicode_AsUTF8(name), "' of ", describe()));
}

void SymbolicValue::set_attribute(Executor&, PyObject* name, const ValuePtr&) {
  break_graph("CD0201", absl::StrCat("attribute '", PyUnicode_AsUTF8(name), "' of ", describe()));
}

ValuePtr SymbolicValue::call(Executor&, const CallArgs&) { break_graph("CD0202", describe()); }

ValuePtr SymbolicValue::get_item(Executor&, const ValuePtr& key) {
  break_graph("CD0203", absl::StrCat(describe(), " with ", key->describe()));
}

void SymbolicValue::set_item(Executor&, const ValuePtr& key, const ValuePtr&) {
  break_graph("CD0204", absl::StrCat(describe(), " with ", key->describe()));
}

bool SymbolicValue::contains(Executor&, const ValuePtr& item) {
  break_graph("CD0205", absl::StrCat(item->describe(), " in ", describe()));
}

ValuePtr SymbolicValue::length(Executor&) { break_graph("CD0206", describe()); }
ValuePtr SymbolicValue::iterate(Executor&) { break_graph("CD0207", describe()); }
ValuePtr SymbolicValue::next(Executor&) { break_graph("CD0207", describe()); }

// object has neither __bool__ nor __len__: PyObject_IsTrue (Objects/object.c) says true.
std::optional<bool> SymbolicValue::truth(Executor&) { break_graph("CD0208", describe()); }

ValuePtr SymbolicValue::unary(Executor&, Op op) {
  break_graph("CD0209", absl::StrCat(op_name(op), " of ", describe()));
}
ValuePtr SymbolicValue::binary(Executor&, int, const ValuePtr&, bool) { return nullptr; }
ValuePtr SymbolicValue::compare(Executor&, int, const ValuePtr&) { return nullptr; }
std::optional<std::vector<ValuePtr>> SymbolicValue::unpack(Executor&) { return std::nullopt; }

PyRef SymbolicValue::hash_key(Executor&) {
  if (auto object = as_constant()) return *object;
  break_graph("CD0210", describe());
}

PyRef SymbolicValue::materialize(Executor&) {
  if (auto object = as_constant()) return *object;
  return {};
}

}  // namespace cdynamo::symbolic
