// NumPy's random numbers: a Generator or RandomState that comes in, and the functions of numpy.random, which are methods of one. Their
// draws are made as Python's are (values/random_generator.h): the program's own generator draws before the graph runs, and an array
// that it gives is an input of the graph. Its sizes are those of the call that was captured, or follow the sizes that the program asks
// for; they are guarded, as any array's.
#pragma once

#include "symbolic/capture/value.h"

namespace cdynamo::symbolic {

ValuePtr wrap_numpy_generator(Executor& ex, PyObject* object, const SourcePtr& source);  // null: it is none

}  // namespace cdynamo::symbolic
