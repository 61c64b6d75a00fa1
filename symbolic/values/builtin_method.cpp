#include "symbolic/values/builtin_method.h"

#include "symbolic/values/sequence.h"
#include "symbolic/values/value_tools.h"

namespace cdynamo::symbolic {

ValuePtr find_builtin_method(const ValuePtr& self, PyObject* name, std::span<const BuiltinMethodRow> rows) {
  const char* text = PyUnicode_AsUTF8(name);
  for (const BuiltinMethodRow& row : rows)
    if (std::string_view(row.name) == text) return std::make_shared<BuiltinMethodValue>(self, row);
  return nullptr;
}

ValuePtr BuiltinMethodValue::get_attribute(Executor& ex, PyObject* name) {
  std::string_view text = PyUnicode_AsUTF8(name);
  if (text == "__self__") return self_;
  if (text == "__name__") return ex.constant(PyRef::borrow(interned(row_.name)));
  return SymbolicValue::get_attribute(ex, name);
}

// meth_richcompare: the same method of the same object.
ValuePtr BuiltinMethodValue::compare(Executor& ex, int py_op, const ValuePtr& other) {
  auto* method = dynamic_cast<BuiltinMethodValue*>(other.get());
  if (!method || (py_op != Py_EQ && py_op != Py_NE)) return nullptr;
  const bool equal = &row_ == &method->row_ && same_object(ex, self_, method->self_);
  return make_bool(ex, equal == (py_op == Py_EQ));
}

RecipePtr BuiltinMethodValue::recipe(Executor& ex) {
  if (!recipe_ && source) recipe_ = source_recipe(source);
  if (!recipe_) {
    recipe_ = call_recipe(library_object("builtins", "getattr"),
                          {self_->recipe(ex), make_recipe(RecipeKind::kConstant, interned(row_.name))});
  }
  return recipe_;
}

}  // namespace cdynamo::symbolic
