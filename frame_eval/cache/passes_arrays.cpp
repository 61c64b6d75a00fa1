#include "frame_eval/cache/passes_arrays.h"

#include "symbolic/interop/iterator_access.h"
#include "symbolic/interop/py_ref.h"
#include "symbolic/interop/tensor_access.h"

namespace cdynamo::frame_eval {
namespace {

using symbolic::PyRef;

// Iterators that say what they iterate over without being advanced.
bool is_plain_iterator(PyTypeObject* type) {
  for (const PyTypeObject* known :
       {&PyEnum_Type, &PyZip_Type, &PyReversed_Type, &PyListIter_Type, &PyTupleIter_Type, &PyDictIterKey_Type,
        &PyDictIterValue_Type, &PyDictIterItem_Type})
    if (type == known) return true;
  return false;
}

bool holds_array(PyObject* object, int depth) {
  if (!object || depth < 0) return false;
  if (symbolic::tensor_kind(object) != symbolic::TensorKind::kNone) return true;
  if (PyCell_Check(object)) return holds_array(PyCell_GET(object), depth);
  if (PyList_CheckExact(object))
    return PyList_GET_SIZE(object) > 0 && holds_array(PyList_GET_ITEM(object, 0), depth - 1);
  if (PyTuple_CheckExact(object)) {
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(object); ++i)
      if (holds_array(PyTuple_GET_ITEM(object, i), depth - 1)) return true;
    return false;
  }
  if (Py_TYPE(object) == &PyRangeIter_Type) return false;
  if (!is_plain_iterator(Py_TYPE(object))) return Py_TYPE(object)->tp_iternext != nullptr;
  const PyRef parts = symbolic::reduced(object);
  return parts && holds_array(PyTuple_GET_ITEM(parts.get(), 1), depth);
}

}  // namespace

bool passes_arrays(const symbolic::Roots& roots) {
  constexpr int kDepth = 4;  // zip of lists of tuples
  for (Py_ssize_t i = 0; i < roots.num_arguments; ++i)
    if (holds_array(roots.arguments[i], kDepth)) return true;
  return roots.closure && holds_array(roots.closure, kDepth);
}

}  // namespace cdynamo::frame_eval
