// What the rooms of symbolic/ that stand above capture give to those below them: values for objects, and the few questions
// that a lower room asks of a higher one. This header is the only seam that calls upwards: each room includes what stands
// below it (tools/layers.py), and what is declared here is implemented where the sections say.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "symbolic/capture/executor.h"
#include "symbolic/capture/value.h"
#include "symbolic/interop/python_side.h"

namespace cdynamo::graph {
struct Value;
}

namespace cdynamo::symbolic {

// ---- symbolic/tensors

// A call of a function of Python's operator module ("add"), recorded, whose nodes `body` makes.
ValuePtr recorded_operator(Executor& ex, const char* function, std::vector<ValuePtr> operands,
                           const std::function<ValuePtr()>& body);

// A tensor or array as it is now, to be shown when the graph has run, whatever is written to it. Null: it is none, or its text
// names what PyTorch's autograd has made.
ValuePtr snapshot_of_array(Executor& ex, const ValuePtr& value);
bool is_array(const ValuePtr& value);

// What copy.copy, or copy.deepcopy (`deep`), gives of a tensor or array. Null: it is none, or of a kind that PyTorch copies in
// another way. `others`: those that the same deepcopy has copied; eager copies a storage that they share once.
ValuePtr copy_of_array(Executor& ex, const ValuePtr& value, bool deep, std::vector<ValuePtr>& others);

// ---- symbolic/torch

// A tensor or parameter that comes in. Tensors of kinds that are not compiled get a value that breaks when it
// is used.
ValuePtr wrap_torch_tensor(Executor& ex, PyObject* object, const SourcePtr& source);
// A tensor of the graph's own making.
ValuePtr make_tensor(Executor& ex, graph::Value* value);
// Another object of a kind that is torch's: dtypes, devices, Size ... Null: none of these.
ValuePtr wrap_torch_object(Executor& ex, PyObject* object, const SourcePtr& source);
// A function of Python's on numbers, some of which the graph reads from tensors, computed by Python while the graph runs. Null:
// it is none that gives a number, or nobody is there to compute it.
ValuePtr number_when_run(Executor& ex, PyObject* function, const std::vector<ValuePtr>& operands);
// A callable, class or context manager that has a rule (torch.*, Tensor methods): it is not inlined. Null: no rule.
ValuePtr wrap_torch_callable(Executor& ex, PyObject* object, const SourcePtr& source);
// The rule of a method of C of an object of torch's that is no tensor (torch.device.__enter__). Null: no rule.
ValuePtr torch_method_rule(Executor& ex, PyObject* self, PyObject* descriptor);

// ---- symbolic/numpy: as above

ValuePtr wrap_numpy_array(Executor& ex, PyObject* object, const SourcePtr& source);
ValuePtr numpy_array_value(Executor& ex, graph::Value* value);
ValuePtr wrap_numpy_object(Executor& ex, PyObject* object, const SourcePtr& source);  // dtypes, scalars
ValuePtr wrap_numpy_callable(Executor& ex, PyObject* object, const SourcePtr& source);

// An operator or comparison of a known NumPy scalar with a value that is no constant, as binary() and compare() of values.
// NumPy makes an array of whatever stands beside its scalars: breaks the graph for what is no number.
ValuePtr numpy_scalar_binary(Executor& ex, const ValuePtr& scalar, int nb_op, const ValuePtr& other,
                             bool reflected);
ValuePtr numpy_scalar_compare(Executor& ex, const ValuePtr& scalar, int py_op, const ValuePtr& other);

// ---- symbolic/values

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

// ---- symbolic/frames

// functions.h
// A Python function that is inlined when called: `function` is a PyFunction. Its source is kConstant for
// functions found on classes whose guard (kTypeUnchanged) covers them.
ValuePtr wrap_function(Executor& ex, PyObject* function, SourcePtr source);
ValuePtr make_bound_method(Executor& ex, ValuePtr function, ValuePtr self);
// A live bound method: its function and its receiver are reached through it.
ValuePtr wrap_method(Executor& ex, PyObject* method, SourcePtr source);
// The cell object itself.
ValuePtr wrap_cell(Executor& ex, PyObject* cell, SourcePtr source);
// made_classes.h
// property's getter(), setter() or deleter(), of one that a class has; null: another name.
ValuePtr method_of_property(Executor& ex, PyObject* property, PyObject* name);
// A function of a module of polyfills (interop/python_side.def).
ValuePtr polyfill(Executor& ex, PythonSide module, const char* function);

// What a rule written in Python gives; null: NotImplemented, by which it leaves the call to the framework's library. Where it raises, the
// framework has its own words for it: that breaks the graph at `what`.
ValuePtr result_of_rule(Executor& ex, const ValuePtr& rule, const CallArgs& args, const char* what);

// made_classes.h
// `class A(B): ...`, as __build_class__ is called for it; and type(name, bases, namespace).
ValuePtr make_class_of_body(Executor& ex, const CallArgs& args);
ValuePtr make_class_of_namespace(Executor& ex, PyTypeObject* metaclass, const CallArgs& args);
// Enum("Color", "RED GREEN"), of an enum class without members.
ValuePtr make_enum_of_names(Executor& ex, PyTypeObject* cls, const CallArgs& args);
// Sets an attribute of a class (null: deletes it); breaks the graph where the class was not made by captured code.
void set_class_attribute(Executor& ex, PyObject* cls, PyObject* name, const ValuePtr& value);

// exceptions.h
// An instance of the exception class `type` (its own or a user's __init__ run by the caller).
ValuePtr make_exception(Executor& ex, PyTypeObject* type, std::vector<ValuePtr> args);
// What __new__ of its class in C makes of arguments.
ValuePtr new_exception(Executor& ex, PyTypeObject* type, const std::vector<ValuePtr>& args);
// What calling an exception class does, __init__ of user-defined classes included.
ValuePtr construct_exception(Executor& ex, PyTypeObject* type, const CallArgs& args);
ValuePtr wrap_exception(Executor& ex, PyObject* object, SourcePtr source);
// A method that BaseException implements in C, as super() in a user's class reaches it; null: `self` is no
// exception, or there is no such method.
ValuePtr call_exception_method(Executor& ex, const ValuePtr& self, PyObject* name, const CallArgs& args);

// frame.h
// What super() without arguments means in the innermost frame: the class of its __class__ cell, and its first
// argument. Raises RuntimeError where Python does.
std::pair<ValuePtr, ValuePtr> super_arguments(Executor& ex);
// The namespace of the innermost frame's function, for globals(): the live dict. Borrowed.
PyObject* frame_globals(Executor& ex);
// Whether a local of a frame that runs holds the live object.
bool is_held_by_frame(Executor& ex, PyObject* object);
// Whether the test holds for a local, or what a cell holds that is one, of a frame that runs; for such a local, an item of its stack
// or what it returns.
bool any_local(Executor& ex, const std::function<bool(const ValuePtr&)>& test);
bool any_held(Executor& ex, const std::function<bool(const ValuePtr&)>& test);
// What is in a cell, or in those of a function that captured code has made; nothing for anything else.
std::vector<ValuePtr> held_in_cells(Executor& ex, const ValuePtr& holder);
// Where the program is: the line that reports name, of the innermost frame that is the user's own code (null code: no
// frame runs).
struct CodeLine {
  PyCodeObject* code = nullptr;
  int line = -1;
  const char *file = "", *function = "";
};
CodeLine user_line(const SymbolicFrame* innermost);
bool is_in_library(const SymbolicFrame* innermost);  // a library's code runs
// The text of a line of source; empty where it cannot be found.
std::string source_line(PyCodeObject* code, int line);
// The frames that run, outermost first.
std::vector<UserFrame> frames_to(const SymbolicFrame* innermost);

// A Python bool that the graph computes: `element` is a 0-dim bool.
ValuePtr make_data_bool(Executor& ex, graph::Value* element);

// From here on the condition, which only the graph knows, is true or, where `expected` is false, false; a call where it is not
// runs in Python. False: that cannot be said of it.
bool require_truth(Executor& ex, const ValuePtr& condition, bool expected, const char* reason);

// Breaks the graph where eager may have one object for the two tensors, and the graph has two.
void refuse_unknown_identity(Executor& ex, const ValuePtr& left, const ValuePtr& right);

// ---- symbolic/entry

// A branch on data whose both ways are computed (entry/both_ways.cpp): the frame goes on where they meet. False: the condition is no
// such data. Breaks the graph where they cannot be.
bool take_both_ways(Executor& ex, SymbolicFrame& frame, int jump_at, const ValuePtr& condition);

// Which way a branch goes on a value that is known only when the graph has run; nothing where branches are not
// followed (entry/branches.h).
std::optional<bool> follow_branch(Executor& ex, const ValuePtr& condition);
// What cdynamo's own functions (graph_break, is_compiling ...) mean in captured code; null: not one of them. `module`:
// __name__ of the function's globals.
ValuePtr call_own_function(Executor& ex, PyObject* function, std::string_view module, const CallArgs& args);

}  // namespace cdynamo::symbolic
