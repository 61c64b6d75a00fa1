// What the executor asks of the kinds of values, and what it gives them back: the seam between the parts of
// symbolic/.
//
// symbolic/values implements the data model, symbolic/torch and symbolic/numpy the frameworks, the executor's
// own files (frame, functions, generators, exceptions) run code. Each part includes this header and links
// with its siblings.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "symbolic/capture/executor.h"
#include "symbolic/capture/value.h"

namespace cdynamo::symbolic {

// ---- implemented by symbolic/torch (which asks symbolic/numpy in turn)

// The value of a tensor, an array or another object whose kind the frameworks own (dtypes, devices, Size
// ...). Null when the object is not theirs.
ValuePtr wrap_tensor(Executor& ex, PyObject* object, SourcePtr source);
// The value of a callable, class or context manager that is bound by a rule (torch.*, Tensor methods, np.*):
// it is not inlined. Null where there is no rule.
ValuePtr wrap_framework_callable(Executor& ex, PyObject* object, SourcePtr source);

// ---- implemented by symbolic/values

// The value of any object that is not a tensor's, a framework callable, a Python function, a bound method of
// one, a cell. `source` is null for what a pure function has made. Never null.
ValuePtr wrap_python_object(Executor& ex, PyObject* object, SourcePtr source);

// An immutable object known at capture (None, bool, int, float, complex, str, bytes, tuples and frozensets of
// them, Ellipsis, code objects ...), or a C-level object that is used as it is.
ValuePtr make_constant(Executor& ex, PyRef object);
ValuePtr make_tuple(Executor& ex, std::vector<ValuePtr> items);
ValuePtr make_list(Executor& ex, std::vector<ValuePtr> items);
ValuePtr make_set(Executor& ex, std::vector<ValuePtr> items);
ValuePtr make_dict(Executor& ex, const std::vector<std::pair<ValuePtr, ValuePtr>>& items);
ValuePtr make_slice(Executor& ex, ValuePtr start, ValuePtr stop, ValuePtr step);
// FORMAT_VALUE: conversion is 0, 's', 'r' or 'a'; spec may be null.
ValuePtr format_value(Executor& ex, const ValuePtr& value, int conversion, const ValuePtr& spec);
// BUILD_STRING: each part is a str.
ValuePtr join_strings(Executor& ex, const std::vector<ValuePtr>& parts);

// ---- implemented by the executor

// functions.h
// A Python function that is inlined when called: `function` is a PyFunction. Its source is kConstant for
// functions found on classes whose guard (kTypeUnchanged) covers them.
ValuePtr wrap_function(Executor& ex, PyObject* function, SourcePtr source);
ValuePtr make_bound_method(Executor& ex, ValuePtr function, ValuePtr self);
// The cell object itself.
ValuePtr wrap_cell(Executor& ex, PyObject* cell, SourcePtr source);
// A function of python/cdynamo/polyfills/<module>.py.
ValuePtr polyfill(Executor& ex, const char* module, const char* function);

// exceptions.h
// An instance of the exception class `type` (its own or a user's __init__ run by the caller).
ValuePtr make_exception(Executor& ex, PyTypeObject* type, std::vector<ValuePtr> args);
// What calling an exception class does, __init__ of user-defined classes included.
ValuePtr construct_exception(Executor& ex, PyTypeObject* type, const CallArgs& args);

// frame.h
// What super() without arguments means in the innermost frame: the class of its __class__ cell, and its first
// argument. Raises RuntimeError where Python does.
std::pair<ValuePtr, ValuePtr> super_arguments(Executor& ex);
// The namespace of the innermost frame's function, for globals(): the live dict. Borrowed.
PyObject* frame_globals(Executor& ex);

}  // namespace cdynamo::symbolic
