// What functools.lru_cache makes of a function (Modules/_functoolsmodule.c), looked at without a call, which would count.
#pragma once

#include "symbolic/interop/py_ref.h"

namespace cdynamo::symbolic {

bool is_cached_function(PyObject* object);

// Under what the cache holds the result of a call (lru_cache_make_key). `keywords`: a dict.
PyRef cache_key(PyObject* function, PyObject* positional, PyObject* keywords);
// The result that is held under `key`; nothing_held() where there is none. Null, without an error, where `function` is no such function.
PyRef held_result(PyObject* function, PyObject* key);
PyObject* nothing_held();  // borrowed; no program's result is this object

bool holds_nothing_ever(PyObject* function);  // maxsize=0
bool is_full(PyObject* function);             // what it holds next drops another result
void count_one_hit_less(PyObject* function);

}  // namespace cdynamo::symbolic
