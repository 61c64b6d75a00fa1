// Builtin functions and classes of C: a table by the object's identity. Pure ones that are not in the table
// are folded when all arguments are known; anything else breaks the graph by name.
#pragma once

#include "symbolic/capture/value.h"

namespace cdynamo::symbolic {

// A call of a C callable that is no class.
ValuePtr call_builtin(Executor& ex, PyObject* callable, const CallArgs& args);
// int(x), list(x), type(x), enumerate(x) ...; null: not a class of the table.
ValuePtr call_builtin_class(Executor& ex, PyTypeObject* type, const CallArgs& args);

// A call of a live object of a C type that has no kind of its own.
ValuePtr call_opaque(Executor& ex, const ValuePtr& callable, const CallArgs& args);

using BuiltinFunction = ValuePtr (*)(Executor& ex, const CallArgs& args);
struct BuiltinRow {
  const char* module;
  const char* name;
  BuiltinFunction apply;
};
std::span<const BuiltinRow> builtin_functions();  // builtins.cpp: builtins
std::span<const BuiltinRow> builtin_classes();    // builtin_classes.cpp
std::span<const BuiltinRow>
library_functions();  // library_functions.cpp: operator, functools, collections, copy ...

std::span<const BuiltinRow> copy_functions();  // copying.cpp: copy
std::span<const BuiltinRow> json_functions();  // json.cpp
std::span<const BuiltinRow>
introspection_functions();                         // frames/introspection.cpp: inspect, importlib, functools
std::span<const BuiltinRow> class_functions();     // frames/made_classes.cpp: dataclasses, __build_class__
std::span<const BuiltinRow> class_classes();       // frames/made_classes.cpp: typing.TypeVar
std::span<const BuiltinRow> definition_classes();  // frames/definitions.cpp: property, classmethod ...
std::span<const BuiltinRow> output_functions();    // frames/output.cpp: print, logging
std::span<const BuiltinRow> warning_functions();   // frames/warnings.cpp

// frames/introspection.cpp: the calls of cached functions that have no effects of their own come after all effects, so that
// a function whose result is no longer there finds what it reads.
void replay_last(Executor& ex);
// frames/cached_calls.cpp: a call of functools.lru_cache's wrapper.
ValuePtr call_cached_function(Executor& ex, const ValuePtr& callable, const CallArgs& args);

// A Python function of the standard library that the tables state instead of its bytecode; null: none of
// these.
ValuePtr call_library_function(Executor& ex, PyObject* function, const CallArgs& args);

// C types whose instances never change and whose methods only compute.
bool is_pure_type(PyTypeObject* type);
bool is_pure_c_object(PyObject* object);
// What the program has registered in place of the function (torch.compiler.substitute_in_graph), or the package for a library's in C.
// Null: there is nothing.
ValuePtr call_substitute(Executor& ex, PyObject* function, const CallArgs& args);

// sorted() and list.sort(), by `key` (null: none) and <: sorting.cpp. Where one of these raises an exception the values are left in
// the order that CPython leaves them in.
void sort_values(Executor& ex, std::vector<ValuePtr>& values, const ValuePtr& key, bool reverse);
// Methods of files that write text; null: none of them. frames/output.cpp
ValuePtr call_stream_method(Executor& ex, std::string_view name, const ValuePtr& self, const CallArgs& args);
// str(x), or repr(x).
ValuePtr to_string(Executor& ex, const ValuePtr& value, bool repr);
ValuePtr get_attribute_or_null(Executor& ex, const ValuePtr& object, PyObject* name);  // AttributeError: null

}  // namespace cdynamo::symbolic
