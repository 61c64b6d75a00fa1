// The part of NumPy's C API that tensor_access reaches, taken from the capsule that NumPy offers, so that
// nothing of NumPy is needed to build. Internal to symbolic/.
#pragma once

#include <Python.h>

#include <cstdint>

#include "runtime/types.h"

namespace cdynamo::symbolic::numpy_access {

// PyArray_Descr: the fields that are the same in NumPy 1 and 2.
struct Descr {
  PyObject_HEAD PyTypeObject* scalar_type;
  char kind, type, byteorder, flags;
  int type_number;
};
// PyArrayObject_fields.
struct Array {
  PyObject_HEAD char* data;
  int rank;
  intptr_t* sizes;
  intptr_t* strides;  // bytes
  PyObject* base;
  Descr* descr;
  int flags;
};
enum ArrayFlag : int { kAligned = 0x100, kWriteable = 0x400 };

struct Api {
  unsigned major;  // of the ABI: 1 or 2, as NumPy's own
  PyTypeObject* array_type;
  PyTypeObject* descr_type;    // numpy.dtype
  PyTypeObject* generic_type;  // numpy.generic: the base of its scalars
  Descr* (*descr_from_type)(int);
  PyObject* (*new_from_descr)(PyTypeObject*, Descr*, int, const intptr_t*, const intptr_t*, void*, int,
                              PyObject*);
  PyObject* (*scalar)(void*, Descr*, PyObject*);
  int (*copy_into)(PyObject* to, PyObject* from);
  int (*set_base)(PyObject*, PyObject*);
  PyObject* (*from_scalar)(PyObject*, Descr*);  // a 0-dim array; null: of the scalar's own dtype
  void (*scalar_as_ctype)(PyObject*, void*);
};
// Null where NumPy is not loaded or has another ABI.
const Api* api();
// Whether it is an array, of numpy.ndarray or a subclass.
inline bool is_array_object(PyObject* object) {
  const Api* numpy = api();
  return numpy && PyObject_TypeCheck(object, numpy->array_type);
}
// Whether it is an instance of numpy.generic: np.float32(1), but no array without dims.
inline bool is_scalar(PyObject* object) {
  const Api* numpy = api();
  return numpy && PyObject_TypeCheck(object, numpy->generic_type);
}

// NPY_BOOL ... by DType; -1: NumPy has no such type.
inline constexpr int kTypeNumbers[runtime::kNumDTypes] = {0, 2, 1, 3, 5, 7, 23, -1, 11, 12, 4, 6, 8};
bool dtype_of_descr(const Descr* descr, runtime::DType* dtype);

inline Array* array(PyObject* object) { return reinterpret_cast<Array*>(object); }

}  // namespace cdynamo::symbolic::numpy_access
