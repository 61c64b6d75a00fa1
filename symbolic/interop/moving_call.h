// A call that takes its arguments off the caller's stack. CPython keeps what it calls a function with until that returns, where
// a frame hook is on; entered code hands over the locals of a frame, which then are that frame's alone.
#pragma once

#include <vector>

#include "symbolic/interop/py_ref.h"

namespace cdynamo::symbolic {

// moving_call(function, *args) -> function(*args), to be called by code that ends with what it has pushed.
PyObject* moving_call();

// Calls the function; the references are dropped when its frame begins, where a hook is on, and when it returns elsewhere.
PyRef call_moving(PyObject* function, std::vector<PyObject*>& arguments);

// What the caller of the frame that begins has moved into it; the frame has references of its own.
void drop_moved_arguments(PyCodeObject* code);

}  // namespace cdynamo::symbolic
