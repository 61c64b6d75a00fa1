// What the files of calls of NumPy share: keywords, ufuncs' methods, scalar types. Internal to symbolic/numpy.
#pragma once

#include "symbolic/numpy/numpy_values.h"

namespace cdynamo::symbolic {

// Null: there is none of this name.
PyObject* keyword_of(const CallArgs& args, const char* name, ValuePtr* value);
void erase_keyword(CallArgs& args, const char* name);
bool only_constants(const CallArgs& args);
bool is_text(const ValuePtr& value, const char* text);  // the constant str

// numpy.add.reduce, accumulate, at, outer, reduceat; null: `name` is another attribute. `op`: the ufunc's entry, where it has one,
// `is_own`: it is NumPy's, not one that the program has made.
ValuePtr ufunc_method(const ValuePtr& ufunc, const graph::OpDef* op, bool is_own, PyObject* name);

// numpy.float32, numpy.complex128 ...
bool is_numpy_scalar_type(PyObject* object);
// Null: one whose numbers graphs do not have.
ValuePtr wrap_scalar_type(Executor& ex, PyObject* object, const SourcePtr& source);

}  // namespace cdynamo::symbolic
