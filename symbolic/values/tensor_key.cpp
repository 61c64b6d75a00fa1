#include "symbolic/values/tensor_key.h"

#include "symbolic/values/value_tools.h"

namespace cdynamo::symbolic {
namespace {

struct TensorKey {
  PyObject_HEAD const void* identity;
  Py_hash_t hash;
};

const TensorKey* fields_of_key(PyObject* key) { return reinterpret_cast<const TensorKey*>(key); }

PyObject* compare_tensor_keys(PyObject* self, PyObject* other, int py_op) {
  if (py_op != Py_EQ || !is_tensor_key(other)) Py_RETURN_NOTIMPLEMENTED;
  return PyBool_FromLong(fields_of_key(self)->identity == fields_of_key(other)->identity);
}

PyTypeObject tensor_key_type = {
    .ob_base = PyVarObject_HEAD_INIT(nullptr, 0).tp_name = "cdynamo.TensorKey",
    .tp_basicsize = sizeof(TensorKey),
    .tp_hash = [](PyObject* self) { return fields_of_key(self)->hash; },
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .tp_richcompare = compare_tensor_keys,
};

}  // namespace

PyRef tensor_key(const void* identity, Py_hash_t hash) {
  static const int ready = PyType_Ready(&tensor_key_type);
  if (ready < 0) throw PythonError{};
  PyRef key = checked(reinterpret_cast<PyObject*>(PyObject_New(TensorKey, &tensor_key_type)));
  auto* made = reinterpret_cast<TensorKey*>(key.get());
  made->identity = identity;
  made->hash = hash;
  return key;
}

bool is_tensor_key(PyObject* object) { return Py_IS_TYPE(object, &tensor_key_type); }

}  // namespace cdynamo::symbolic
