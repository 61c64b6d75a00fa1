// A number that is counted up and never used twice, of which only that is known: torch's ids of hooks, keys of dicts that have no
// other keys of the kind. So which number it is is no reason to compile again.
#pragma once

#include "symbolic/capture/value.h"

namespace cdynamo::symbolic {

// Whether a class counts such numbers under this name.
bool is_counter_of_unique_numbers(PyTypeObject* type, PyObject* name);
// What a class's counter of such numbers holds; null: it is none.
ValuePtr unique_number(Executor& ex, PyTypeObject* type, PyObject* name, PyObject* number,
                       const SourcePtr& source);

}  // namespace cdynamo::symbolic
