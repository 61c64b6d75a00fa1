// Instances of frozen dataclasses as keys of dicts and sets.
#pragma once

#include "symbolic/values/user_object.h"

namespace cdynamo::symbolic {

// An object that hashes and compares as the instance does: by the fields. Null: __hash__ and __eq__ are not those that
// @dataclass(frozen=True) writes.
PyRef dataclass_key(Executor& ex, UserObjectValue& instance, PyObject* hash, PyObject* equal);

}  // namespace cdynamo::symbolic
