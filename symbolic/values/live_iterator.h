// Iterators that come in: what they give next is looked at, and guarded, without advancing them; they are advanced
// as the program did when the graph has run.
#pragma once

#include "symbolic/values/iterator.h"

namespace cdynamo::symbolic {

// Null where what the object gives next is known to nobody: a generator, an iterator of the program's or of a
// library's.
ValuePtr wrap_iterator(Executor& ex, PyObject* object, const SourcePtr& source);

// iterator.cpp: a zip, map or filter that came in, over iterators that did. It has no state of its own.
ValuePtr new_nested_iterator(PyTypeObject* type, ValuePtr function, std::vector<ValuePtr> iterators,
                             bool strict);

}  // namespace cdynamo::symbolic
