// The numbers that a function under functools.lru_cache tells of its cache (cache_info), and clearing it.
//
// Calls of cached functions are made after all other effects, where they count. What cache_info() says in between is therefore what it
// says when the call begins and what captured calls have added by then: a hit each, where the cache holds the result. Another call counts
// as a miss of it and calls others: what the numbers are afterwards is not known.
#pragma once

#include "symbolic/capture/executor.h"

namespace cdynamo::symbolic {

void count_hit(Executor& ex, PyObject* function);
void count_unknown(Executor& ex);

// Captured code has cleared the cache: it holds nothing of before.
bool cache_is_cleared(Executor& ex, PyObject* function);
// A cache was cleared or asked: a call that is made while capturing would show.
bool cache_numbers_are_used(Executor& ex);

}  // namespace cdynamo::symbolic
