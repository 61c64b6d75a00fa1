// Frames: the only interface to CPython's `_PyInterpreterFrame`, whose layout differs in each minor version.
// C, since CPython's internal headers do not compile as C++; frame_311.c, frame_312.c and frame_313.c hold
// what differs, frame_hook.c the rest.
//
//   static PyObject* evaluate(PyThreadState* tstate, CdynamoFrame* frame, int throw_flag) {
//     if (throw_flag || cdynamo_is_tracing(tstate)) return cdynamo_run_default(tstate, frame, throw_flag);
//     PyObject* result = ...;                                  // a new reference, or null with an error set
//     return cdynamo_finish_frame(tstate, frame, result);
//   }
//   cdynamo_hook_install(evaluate);
//
// The hook's callback disposes of its frame in one of three ways, once: cdynamo_run_default (or cdynamo_run_without_hook),
// cdynamo_finish_frame or cdynamo_run_function_in_place_of_frame. No PyFrameObject is ever made of an
// incoming frame: it is not linked into the thread's stack yet, so Python code that runs meanwhile sees its
// caller on top.
#pragma once

#include <Python.h>

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct _PyInterpreterFrame CdynamoFrame;
typedef PyObject* (*CdynamoFrameCallback)(PyThreadState* tstate, CdynamoFrame* frame, int throw_flag);

// ---- the hook (PEP 523), on for all threads of the interpreter while it is installed
// Installs are counted; all of them at one time have the same callback. A hook that another package has
// installed before evaluates what cdynamo leaves to the default. 0; -1 and SystemError when there is another
// callback.
int cdynamo_hook_install(CdynamoFrameCallback callback);
void cdynamo_hook_uninstall(void);
int cdynamo_hook_count(void);  // how many installs are in force

// ---- reading a frame: all references are borrowed
PyCodeObject* cdynamo_frame_code(CdynamoFrame* frame);
PyObject* cdynamo_frame_function(CdynamoFrame* frame);
PyObject* cdynamo_frame_globals(CdynamoFrame* frame);
PyObject* cdynamo_frame_builtins(CdynamoFrame* frame);
// The argument slots in the order of co_varnames: positional, keyword-only, *args as a tuple, **kwargs as a
// dict, defaults filled in. Null (and count 0) when the frame has started, belongs to a generator, or can be
// seen by Python: it must be run by default.
PyObject** cdynamo_frame_arguments(CdynamoFrame* frame, Py_ssize_t* count);
// How many slots of co_varnames are arguments.
Py_ssize_t cdynamo_count_arguments(const PyCodeObject* code);
// The dict that locals(), exec and their like have made of the Python frame that runs now, which holds what the frame's
// locals held then until the frame ends; null where there is none (3.13: never). Borrowed.
PyObject* cdynamo_running_locals(PyThreadState* tstate);
// Makes `locals`, a reference that is handed over, that dict of a frame that has not begun.
void cdynamo_give_locals(CdynamoFrame* frame, PyObject* locals);
// Its code is that of a generator, a coroutine or an asynchronous generator.
int cdynamo_frame_is_generator(CdynamoFrame* frame);
// A trace function of this thread (sys.settrace: debuggers, coverage) or a tool of sys.monitoring that looks
// at lines, branches or instructions is active. Profilers do not count.
int cdynamo_is_tracing(PyThreadState* tstate);

// A frame that is entered now is one too many, which CPython finds out before it runs any of it; or half of the C calls
// that it lets nest (3.12+; it does not count those from Python to Python) are in progress.
int cdynamo_recursion_is_deep(PyThreadState* tstate);

// ---- the three ways to end
PyObject* cdynamo_run_default(PyThreadState* tstate, CdynamoFrame* frame, int throw_flag);
// The same with the hook off until the frame ends, for other threads too: CPython runs what the frame calls in one C frame
// then, where a hook takes C frames for each call.
PyObject* cdynamo_run_without_hook(PyThreadState* tstate, CdynamoFrame* frame, int throw_flag);
// Clears and pops (3.12+; on 3.11 the caller does) a frame that has not started, and returns `result` as it
// is, null included.
PyObject* cdynamo_finish_frame(PyThreadState* tstate, CdynamoFrame* frame, PyObject* result);
// Calls `function` with the argument slots as positional arguments, ends the frame and returns the result.
// `function`: a Python function with just that many positional parameters; or a code object like that, which
// runs with the globals and the closure of the frame's function. The hook does not look at the frame of that
// call itself.
PyObject* cdynamo_run_function_in_place_of_frame(PyThreadState* tstate, CdynamoFrame* frame,
                                                 PyObject* function);

// ---- dicts and classes, for guards
// A number that changes whenever the dict is modified, and that no other dict of the interpreter has ever
// had. 0: this dict has none (3.13: that of an object whose attributes are stored in the object itself).
uint64_t cdynamo_dict_version(PyObject* dict);
// The same, of an object's __dict__: where it has none the attributes move from the object to the dict, as they do when an object
// gets many. The program does not see it. Runs no Python code.
uint64_t cdynamo_instance_dict_version(PyObject* dict);
// The class's version tag, assigned where it has none; 0: it cannot have one. It changes with any attribute of the class or
// its bases, and no other class ever has the same.
unsigned cdynamo_type_version(PyTypeObject* type);

// ---- for frame_hook.c: parts of the above that differ between versions
int cdynamo_frame_is_fresh(
    CdynamoFrame* frame);  // not started, on the thread's stack, without a frame object
PyObject** cdynamo_frame_slots(CdynamoFrame* frame);

#ifdef __cplusplus
}
#endif
