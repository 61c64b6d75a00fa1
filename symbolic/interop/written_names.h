// Names of classes that captured code assigns (RemovableHandle.next_id += 1): what stands there changes from call to call, so it is
// guarded by itself, and not with the class.
#pragma once

#include "symbolic/interop/py_ref.h"

namespace cdynamo::symbolic {

void note_written_name(PyTypeObject* type, PyObject* name);
bool is_written_name(PyTypeObject* type, PyObject* name);
bool has_written_names(PyTypeObject* type);

}  // namespace cdynamo::symbolic
