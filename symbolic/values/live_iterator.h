// Iterators that come in: what they give next is looked at, and guarded, without advancing them; they are advanced
// as the program did when the graph has run.
#pragma once

#include "symbolic/values/iterator.h"

namespace cdynamo::symbolic {

// Null where what the object gives next is known to nobody: a generator, an iterator of the program's or of a
// library's.
ValuePtr wrap_iterator(Executor& ex, PyObject* object, const SourcePtr& source);

}  // namespace cdynamo::symbolic
