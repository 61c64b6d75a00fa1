// Whether Python code runs as an object dies: where the last reference to it may go, the graph breaks, so that it dies in
// its turn.
#pragma once

#include "symbolic/interop/py_ref.h"

namespace cdynamo::symbolic {

// Its class has __del__, a weak reference to it a callback, or it is a generator that waits; or it is a container of what is
// so. Or what it alone holds, in attributes or a closure too, has a weak reference with a callback.
bool runs_code_when_it_dies(PyObject* object);
// Or what attributes of it alone hold is so: of an object that nothing but the call holds.
bool runs_code_when_all_of_it_dies(PyObject* object);
// Likewise, where containers of weakref's that drop an entry do not count.
bool runs_other_code_when_it_dies(PyObject* object);

}  // namespace cdynamo::symbolic
