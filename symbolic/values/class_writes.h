// Attributes of classes that were there before, as captured code assigns them (`Counter.calls += 1`): plain objects, no methods or
// descriptors. They are assigned among the effects. Names that are assigned so are read through the class from then on, as an
// attribute of any object is (interop/written_names.h).
#pragma once

#include "symbolic/values/class_value.h"

namespace cdynamo::symbolic {

// False: it is no such assignment (a null value: a deletion).
bool write_class_attribute(Executor& ex, const ValuePtr& cls, PyObject* name, const ValuePtr& value);
void emit_class_writes(Executor& ex, ClassValue& cls);

// What stands under the name in this very class, and in the first of the MRO that has it, if captured code assigns such names; null
// otherwise.
ValuePtr written_in_class(Executor& ex, PyTypeObject* type, PyObject* name);
ValuePtr written_attribute(Executor& ex, PyTypeObject* type, PyObject* name);

}  // namespace cdynamo::symbolic
