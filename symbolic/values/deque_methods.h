// What deque's methods and its data model share.
#pragma once

#include "symbolic/values/deque.h"

namespace cdynamo::symbolic {

// The first position in [start, stop) that equals `wanted`, or -1. Raises RuntimeError where comparing changes the deque.
Py_ssize_t find_in_deque(Executor& ex, DequeValue& deque, const ValuePtr& wanted, Py_ssize_t start,
                         Py_ssize_t stop);
void extend_deque(Executor& ex, DequeValue& deque, const ValuePtr& iterable, bool left);

}  // namespace cdynamo::symbolic
