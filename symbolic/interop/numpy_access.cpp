#include "symbolic/interop/numpy_access.h"

namespace cdynamo::symbolic::numpy_access {
namespace {

enum class Status : uint8_t { kUnknown, kReady, kRefused };
Status g_status = Status::kUnknown;
Api g_api;

bool resolve(PyObject* multiarray) {
  PyObject* capsule = PyDict_GetItemString(PyModule_GetDict(multiarray), "_ARRAY_API");
  if (!capsule || !PyCapsule_CheckExact(capsule)) return false;
  void** slots = static_cast<void**>(PyCapsule_GetPointer(capsule, nullptr));
  if (!slots) return false;
  // The slots used here have not moved between these two ABIs.
  auto abi_version = reinterpret_cast<unsigned (*)()>(slots[0]);
  unsigned major = abi_version() >> 24;
  if (major != 1 && major != 2) return false;
  g_api.major = major;
  g_api.array_type = static_cast<PyTypeObject*>(slots[2]);
  g_api.descr_type = static_cast<PyTypeObject*>(slots[3]);
  g_api.generic_type = static_cast<PyTypeObject*>(slots[10]);
  g_api.descr_from_type = reinterpret_cast<decltype(Api::descr_from_type)>(slots[45]);
  g_api.copy_into = reinterpret_cast<decltype(Api::copy_into)>(slots[50]);
  g_api.scalar = reinterpret_cast<decltype(Api::scalar)>(slots[60]);
  g_api.from_scalar = reinterpret_cast<decltype(Api::from_scalar)>(slots[61]);
  g_api.scalar_as_ctype = reinterpret_cast<decltype(Api::scalar_as_ctype)>(slots[62]);
  g_api.new_from_descr = reinterpret_cast<decltype(Api::new_from_descr)>(slots[94]);
  g_api.set_base = reinterpret_cast<decltype(Api::set_base)>(slots[282]);
  return PyType_Check(reinterpret_cast<PyObject*>(g_api.array_type));
}

// A small array must read back as it was made.
bool probe() {
  const intptr_t sizes[] = {2, 3}, strides[] = {4, 8};
  PyObject* made = g_api.new_from_descr(
      g_api.array_type, g_api.descr_from_type(kTypeNumbers[static_cast<int>(runtime::DType::kF32)]), 2, sizes,
      strides, nullptr, 0, nullptr);
  if (!made) return false;
  const Array* a = array(made);
  runtime::DType dtype;
  bool ok = Py_TYPE(made) == g_api.array_type && a->rank == 2 && a->sizes[0] == 2 && a->sizes[1] == 3 &&
            a->strides[0] == 4 && a->strides[1] == 8 && dtype_of_descr(a->descr, &dtype) &&
            dtype == runtime::DType::kF32 && (a->flags & kAligned) && (a->flags & kWriteable);
  Py_DECREF(made);
  return ok;
}

}  // namespace

const Api* api() {
  if (g_status == Status::kReady) return &g_api;
  if (g_status == Status::kRefused) return nullptr;
  PyObject* modules = PyImport_GetModuleDict();
  PyObject* multiarray = PyDict_GetItemString(modules, "numpy._core.multiarray");
  if (!multiarray) multiarray = PyDict_GetItemString(modules, "numpy.core.multiarray");
  PyObject* numpy = PyDict_GetItemString(modules, "numpy");
  if (!multiarray || !numpy || !PyModule_Check(multiarray) || !PyModule_Check(numpy)) return nullptr;
  // While numpy is being imported its last names are missing: ask again later.
  if (!PyDict_GetItemString(PyModule_GetDict(numpy), "ndarray") ||
      !PyDict_GetItemString(PyModule_GetDict(numpy), "linalg"))
    return nullptr;
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  bool ok = resolve(multiarray) && probe();
  PyErr_Clear();
  PyErr_Restore(type, value, traceback);
  g_status = ok ? Status::kReady : Status::kRefused;
  return ok ? &g_api : nullptr;
}

bool dtype_of_descr(const Descr* descr, runtime::DType* dtype) {
  if (descr->byteorder == '>') return false;
  int number = descr->type_number;
  if (number == 9 || number == 10) number -= 2;  // long long, which is long here
  for (int i = 0; i < runtime::kNumDTypes; ++i)
    if (kTypeNumbers[i] == number && number >= 0) {
      *dtype = static_cast<runtime::DType>(i);
      return true;
    }
  return false;
}

}  // namespace cdynamo::symbolic::numpy_access
