// Nothing here runs Python code: dicts are walked in their order, names and values are compared by identity.
#include "frame_eval/guards/class_contents.h"

#include "absl/container/flat_hash_set.h"
#include "symbolic/interop/written_names.h"

namespace cdynamo::frame_eval {

using symbolic::ConstantRef;
using symbolic::PyRef;

namespace {

// By address: where one has died and another class has its place, that one is compared by its contents, too.
absl::flat_hash_set<PyTypeObject*>& changed_classes() {
  static auto& classes = *new absl::flat_hash_set<PyTypeObject*>();
  return classes;
}

// Null: it cannot be written to.
PyObject* dict_of(PyTypeObject* type) {
  const bool is_fixed =
      !PyType_HasFeature(type, Py_TPFLAGS_HEAPTYPE) || PyType_HasFeature(type, Py_TPFLAGS_IMMUTABLETYPE);
  return is_fixed ? nullptr : type->tp_dict;
}

PyTypeObject* base_at(PyTypeObject* type, Py_ssize_t i) {
  return reinterpret_cast<PyTypeObject*>(PyTuple_GET_ITEM(type->tp_mro, i));
}

// No weak reference can be to these. An entry that reads one holds it, or finds it through the class.
bool is_builtin_container(PyObject* value) {
  return PyTuple_CheckExact(value) || PyList_CheckExact(value) || PyDict_CheckExact(value) ||
         PyAnySet_CheckExact(value);
}

// What makes a value the one that it is. Of descriptors that a class has made for itself (`__dict__`, slots), nothing:
// there is no other to take their place.
std::vector<PyRef> parts_of(PyObject* value) {
  std::vector<PyRef> parts;
  const auto add = [&](const char* name) {
    parts.push_back(PyRef::steal(PyObject_GetAttrString(value, name)));
  };
  if (Py_IS_TYPE(value, &PyProperty_Type)) {
    add("fget");
    add("fset");
    add("fdel");
  } else if (Py_IS_TYPE(value, &PyClassMethod_Type) || Py_IS_TYPE(value, &PyStaticMethod_Type)) {
    add("__func__");
  } else if (!Py_IS_TYPE(value, &PyGetSetDescr_Type) && !Py_IS_TYPE(value, &PyMemberDescr_Type) &&
             !is_builtin_container(value)) {
    parts.push_back(PyRef::borrow(value));
  }
  PyErr_Clear();
  return parts;
}

bool have(const std::vector<ConstantRef>& known, const std::vector<PyRef>& parts) {
  if (known.size() != parts.size()) return false;
  for (size_t i = 0; i < parts.size(); ++i)
    if (known[i].get() != parts[i].get()) return false;
  return true;
}

bool has_written_names(PyTypeObject* type) {
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(type->tp_mro); ++i)
    if (symbolic::has_written_names(base_at(type, i))) return true;
  return false;
}

}  // namespace

void ClassContents::note_change(PyTypeObject* type) { changed_classes().insert(type); }

std::shared_ptr<const ClassContents> ClassContents::of(PyTypeObject* type) {
  if (!type->tp_mro) return nullptr;
  if (!changed_classes().contains(type) && !has_written_names(type)) return nullptr;
  return std::shared_ptr<const ClassContents>(new ClassContents(type));
}

ClassContents::ClassContents(PyTypeObject* type) {
  const Py_ssize_t length = PyTuple_GET_SIZE(type->tp_mro);
  bases_.reserve(length);
  for (Py_ssize_t i = 0; i < length; ++i) {
    PyTypeObject* base = base_at(type, i);
    Base& made = bases_.emplace_back();
    made.type = ConstantRef::to(reinterpret_cast<PyObject*>(base));
    PyObject* dict = dict_of(base);
    if (!dict) continue;
    made.items.reserve(PyDict_GET_SIZE(dict));
    Py_ssize_t position = 0;
    PyObject *name, *value;
    while (PyDict_Next(dict, &position, &name, &value)) {
      Item& item = made.items.emplace_back(
          Item{PyRef::borrow(name), value, Py_TYPE(value), symbolic::is_written_name(base, name), {}});
      if (item.is_written) continue;
      for (const PyRef& part : parts_of(value)) item.parts.push_back(ConstantRef::weakly(part.get()));
    }
  }
}

bool ClassContents::is_same(const Base& base, PyTypeObject* type) {
  if (base.type.get() != reinterpret_cast<PyObject*>(type)) return false;
  PyObject* dict = dict_of(type);
  if (!dict) return base.items.empty();
  if (PyDict_GET_SIZE(dict) != static_cast<Py_ssize_t>(base.items.size())) return false;
  auto item = base.items.begin();
  Py_ssize_t position = 0;
  PyObject *name, *value;
  while (PyDict_Next(dict, &position, &name, &value)) {
    if (item->name.get() != name) return false;
    if (item->is_written) {
      ++item;
      continue;
    }
    if (item->value != value || item->kind != Py_TYPE(value)) return false;
    const bool is_itself = item->parts.size() == 1 && item->parts[0].get() == value;
    if (!is_itself && !have(item->parts, parts_of(value))) return false;
    ++item;
  }
  return true;
}

bool ClassContents::are_those_of(PyTypeObject* type) const {
  if (!type->tp_mro || PyTuple_GET_SIZE(type->tp_mro) != static_cast<Py_ssize_t>(bases_.size())) return false;
  for (size_t i = 0; i < bases_.size(); ++i)
    if (!is_same(bases_[i], base_at(type, static_cast<Py_ssize_t>(i)))) return false;
  return true;
}

}  // namespace cdynamo::frame_eval
