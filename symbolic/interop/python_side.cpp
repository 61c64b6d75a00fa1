#include "symbolic/interop/python_side.h"

#include <array>

namespace cdynamo::symbolic {
namespace {

enum class Needs : uint8_t { kNothing, kNumpy, kTorch };
constexpr const char* kNeeds[] = {"", "numpy", "torch"};

struct PythonSideRow {
  const char *module, *name;
  Needs needs;
};
constexpr PythonSideRow kPythonSideRows[] = {
#define CDYNAMO_PYTHON(id, module, name, needs) {module, name, Needs::needs},
#include "symbolic/interop/python_side.def"
#undef CDYNAMO_PYTHON
};

// Owned; Python objects may not be destroyed after the interpreter.
std::array<PyObject*, static_cast<size_t>(PythonSide::kCount)> found_objects{};

// Null with ImportError, whose cause is what Python raised.
PyRef find_row(const PythonSideRow& row) {
  PyRef found = PyRef::steal(PyImport_ImportModule(row.module));
  if (found && *row.name) found = PyRef::steal(PyObject_GetAttrString(found.get(), row.name));
  if (found || PyErr_ExceptionMatches(PyExc_KeyboardInterrupt) || PyErr_ExceptionMatches(PyExc_MemoryError))
    return found;
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  PyErr_NormalizeException(&type, &value, &traceback);
  PyErr_Format(
      PyExc_ImportError,
      "cdynamo's compiled part needs %s%s%s, which cannot be had (%S): are both parts of one installation?",
      row.module, *row.name ? "." : "", row.name, value);
  Py_XDECREF(type);
  Py_XDECREF(value);
  Py_XDECREF(traceback);
  return {};
}

}  // namespace

PyObject* find_python_side(PythonSide which) {
  PyObject*& object = found_objects[static_cast<size_t>(which)];
  if (!object) {
    PyRef found = find_row(kPythonSideRows[static_cast<size_t>(which)]);
    if (!object) object = found.release();  // the import may have come back here
  }
  return object;
}

PyObject* python_side(PythonSide which) {
  PyObject* object = find_python_side(which);
  if (!object) throw PythonError{};
  return object;
}

int connect_python_side() {
  for (int i = 0; i < static_cast<int>(PythonSide::kCount); ++i)
    if (kPythonSideRows[i].needs == Needs::kNothing && !find_python_side(static_cast<PythonSide>(i)))
      return -1;
  return 0;
}

PyObject* python_side_rows() {
  PyRef list = PyRef::steal(PyList_New(0));
  for (const PythonSideRow& row : kPythonSideRows) {
    PyRef item =
        PyRef::steal(Py_BuildValue("(sss)", row.module, row.name, kNeeds[static_cast<int>(row.needs)]));
    if (!list || !item || PyList_Append(list.get(), item.get()) < 0) return nullptr;
  }
  return list.release();
}

}  // namespace cdynamo::symbolic
