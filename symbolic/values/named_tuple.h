// The class of a statement `class Point(typing.NamedTuple)` in captured code that has fields alone. As one of collections.namedtuple's it may
// leave: Python gets another one, made when the graph has run.
#pragma once

#include "symbolic/capture/value.h"
#include "symbolic/values/dict.h"

namespace cdynamo::symbolic {

// `names`: what its body has made. Null: it has more than fields with known types and plain defaults.
ValuePtr make_typed_named_tuple(Executor& ex, PyObject* name, DictValue& names);

}  // namespace cdynamo::symbolic
