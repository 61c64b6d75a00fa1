// Methods of re.Pattern that call a function of the program's, or give an iterator. Others are called while capturing.
#pragma once

#include <string_view>

#include "symbolic/capture/value.h"

namespace cdynamo::symbolic {

// Null: `callable`, a bound method of C called `name`, is none of these.
ValuePtr call_pattern_method(Executor& ex, PyObject* callable, std::string_view name, const CallArgs& args);

}  // namespace cdynamo::symbolic
