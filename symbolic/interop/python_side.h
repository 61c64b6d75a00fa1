// The package's own Python, as far as C++ calls it: one table (python_side.def). Rows that need no framework are found when
// the package is imported, which fails with an ImportError that names what is missing; the others when they are first used.
//
//   PyRef graph = checked(PyObject_CallOneArg(python_side(PythonSide::kGraph), description));
#pragma once

#include "symbolic/interop/py_ref.h"

namespace cdynamo::symbolic {

enum class PythonSide : int {
#define CDYNAMO_PYTHON(id, module, name, needs) k##id,
#include "symbolic/interop/python_side.def"
#undef CDYNAMO_PYTHON
  kCount
};

// Called at the end of `import cdynamo`. -1 with ImportError.
int connect_python_side();

// Borrowed, kept for the life of the process. Null with ImportError.
PyObject* find_python_side(PythonSide which);
// Never null: throws PythonError.
PyObject* python_side(PythonSide which);

// All of the table, for the tests: a list of (module, name, needs). Null with an error set.
PyObject* python_side_rows();

}  // namespace cdynamo::symbolic
