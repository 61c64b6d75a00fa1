// Methods of re.Pattern: those that call a function of the program's, or give an iterator, are Python over the matches; others are
// called while capturing.
#pragma once

#include <string_view>

#include "symbolic/capture/value.h"

namespace cdynamo::symbolic {

// Null: `callable`, a bound method of C called `name`, is none.
ValuePtr call_pattern_method(Executor& ex, PyObject* callable, std::string_view name, const CallArgs& args);

}  // namespace cdynamo::symbolic
