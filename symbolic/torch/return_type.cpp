#include "symbolic/torch/return_type.h"

#include <structmember.h>

#include "symbolic/values/value_tools.h"

namespace cdynamo::symbolic {

ValuePtr make_return_type(Executor&, const graph::Schema& schema, const std::vector<ValuePtr>& items) {
  // "-> (Tensor values, Tensor indices)": a result without a name ends right after its type.
  size_t results = schema.text.rfind("->");
  std::string_view text = std::string_view(schema.text).substr(results == std::string::npos ? 0 : results);
  size_t type_end = text.find("Tensor");
  if (schema.num_results < 2 || type_end == text.npos) return nullptr;
  type_end += 6;
  if (type_end < text.size() && text[type_end] == '(') type_end = text.find(')', type_end) + 1;
  if (type_end >= text.size() || text[type_end] != ' ') return nullptr;
  PyObject* type = library_object("torch.return_types", schema.name.c_str());
  if (!type || !PyType_Check(type)) return nullptr;
  return std::make_shared<ReturnTypeValue>(reinterpret_cast<PyTypeObject*>(type), items);
}

ValuePtr ReturnTypeValue::get_attribute(Executor& ex, PyObject* name) {
  // A structseq's fields are member descriptors at the offsets of a tuple's items.
  PyObject* attribute = _PyType_Lookup(type_, name);
  if (attribute && Py_IS_TYPE(attribute, &PyMemberDescr_Type)) {
    const PyMemberDef* member = reinterpret_cast<PyMemberDescrObject*>(attribute)->d_member;
    size_t index =
        (static_cast<size_t>(member->offset) - offsetof(PyTupleObject, ob_item)) / sizeof(PyObject*);
    if (index < tuple_->size(ex)) return tuple_->item(ex, index);
  }
  return attribute_of_kind_of_tuple(ex, shared_from_this(), *tuple_, name);
}

RecipePtr ReturnTypeValue::recipe(Executor& ex) {
  if (!recipe_) recipe_ = call_recipe(reinterpret_cast<PyObject*>(type_), {tuple_->recipe(ex)});
  return recipe_;
}

}  // namespace cdynamo::symbolic
