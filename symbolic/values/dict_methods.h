// The methods of dict, OrderedDict and defaultdict.
#pragma once

#include "symbolic/capture/value.h"

namespace cdynamo::symbolic {

ValuePtr find_dict_method(Executor& ex, const ValuePtr& dict, PyObject* name);

}  // namespace cdynamo::symbolic
