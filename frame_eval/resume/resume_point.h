// Where a function is resumed after a graph break, and the frames that wait to be.
//
// A continuation's stub calls a ResumePoint with the parts of its frame, and returns the Resumption that it gets. Whoever
// ran the continuation gives it back to its own caller, and so on to the call that the function began with, which calls
// the resume function (frame_eval/call): nothing nests, however often a function is resumed.
//
// Where a continuation has called that of an inner function, it gets the inner one's Resumption for the call's result. Its
// ResumePoint makes one of both: the frame at its call, with the inner function and the arguments of that among its own.
#pragma once

#include <memory>
#include <vector>

#include "frame_eval/resume/entered_code.h"

namespace cdynamo::frame_eval {

// The function object for entered code: the code and cells are given, the rest is the caller's.
PyRef make_function(PyObject* code, PyObject* globals, PyObject* const* cells, Py_ssize_t num_cells);

// A callable for stubs; one for each place. Throws PythonError.
PyRef resume_point(const std::shared_ptr<OriginalCode>& original, const EntryPoint& entry);

// A frame that is to be resumed: the function to call, and references to its arguments, which are handed over.
struct WaitingFrame {
  PyRef function;
  std::vector<PyObject*> arguments;
  PyRef locals;              // what cdynamo_running_locals gave for the frame before, or null
  bool owns_locals = false;  // else they are those of a frame that this one called
};
// A static type, made ready when it is first needed; null, with an error set: it cannot be.
PyTypeObject* ready(PyTypeObject& type);
// How many of the arguments of a resume function are cells and locals: the first ones.
Py_ssize_t first_stack_argument(const WaitingFrame& frame);
bool is_resumption(PyObject* object);
WaitingFrame take_frame(PyRef resumption);

}  // namespace cdynamo::frame_eval
