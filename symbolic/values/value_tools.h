// What the kinds of values share: sources, constants, guards, Python's own errors, arguments of C functions.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "symbolic/capture/executor.h"
#include "symbolic/capture/value.h"
#include "symbolic/interop/loaded_object.h"

namespace cdynamo::symbolic {

// ---- sources
bool has_names_only(PyObject* dict);  // all keys are strings

SourcePtr constant_source(PyObject* object);
ValuePtr constant_value(Executor& ex, PyObject* object);  // an object that stays what it is
// What a guarded class or set holds: no entry keeps it alive where its own class allows that.
SourcePtr held_by_guarded_source(PyObject* object);
SourcePtr attribute_source(const SourcePtr& base, PyObject* name);
SourcePtr index_source(const SourcePtr& base, Py_ssize_t index);
SourcePtr key_source(const SourcePtr& base, PyObject* key);
SourcePtr value_at_source(const SourcePtr& base, Py_ssize_t index);
SourcePtr key_at_source(const SourcePtr& base, Py_ssize_t index);
SourcePtr instance_dict_source(const SourcePtr& base);
SourcePtr module_global_source(PyObject* module, PyObject* name);
SourcePtr derived_source(SourceKind kind, const SourcePtr& base);
SourcePtr numbered_source(SourceKind kind, const SourcePtr& base, Py_ssize_t index);

// ---- guards
void add_guard(Executor& ex, GuardKind kind, const SourcePtr& source, PyObject* object = nullptr,
               Py_ssize_t index = -1);
void guard_exact_type(Executor& ex, PyObject* object, const SourcePtr& source);
// The class is as it was at capture: what is found on it is constant. Dropped for classes that cannot change.
void guard_class(Executor& ex, PyTypeObject* type);

// ---- recipes
RecipePtr make_recipe(RecipeKind kind, PyObject* object = nullptr, std::vector<RecipePtr> items = {});
RecipePtr source_recipe(const SourcePtr& source);
RecipePtr input_recipe(Executor& ex, const graph::Value* value);  // null: no input of the graph
// Sets `slot`, unless making the parts has come back here (an object that refers to what holds it) and set it.
RecipePtr first_recipe(RecipePtr& slot, RecipePtr made);
RecipePtr call_recipe(PyObject* callable, std::vector<RecipePtr> arguments);
std::vector<RecipePtr> recipes_of(Executor& ex, const std::vector<ValuePtr>& values);

// ---- constants
bool is_none(const ValuePtr& value);
// The object of a constant, or null. Borrowed from the value (constants keep their objects alive).
PyObject* constant_object(const ValuePtr& value);
// An int constant or one that is specialised here; breaks the graph for anything else (`__index__` is
// honoured).
Py_ssize_t index_argument(Executor& ex, const ValuePtr& value);
bool is_integer_value(const ValuePtr& value);
bool is_instance_of(const ValuePtr& value,
                    PyTypeObject* type);  // by the exact type's bases, no __instancecheck__
PyRef string_argument(Executor& ex, const ValuePtr& value);  // an exact str that is known

// A real object with the same contents, for pure C functions: containers are copied, symbolic ints
// specialised. Null (no error set) where something in it is known only at run time.
PyRef materialize(Executor& ex, const ValuePtr& value);
// A value for an object that a pure function has just made: lists and dicts become new mutable values.
ValuePtr wrap_fresh(Executor& ex, PyRef object);
// Calls a pure C function on materialized arguments; breaks the graph where one is not known.
ValuePtr fold_call(Executor& ex, PyObject* callable, const CallArgs& args);
// Breaks the graph where `callable` would work on an int of thousands of digits, or on the text of one.
void refuse_long_number(PyObject* callable, PyObject* argument);
// Breaks the graph where the text of the object is an int's of more digits than Python may be told to make.
void refuse_limited_text(PyObject* object);
bool try_fold_call(Executor& ex, PyObject* callable, const CallArgs& args, ValuePtr* result);

// ---- errors of the user's program
PyTypeObject* exception_type(PyObject* exception_class);
// Raises an exception that an operation has made; what is being handled is its context.
[[noreturn]] void raise_new(Executor& ex, const ValuePtr& exception);
[[noreturn]] void raise_error(Executor& ex, PyObject* type, const std::string& message);
// The Python error that is set in this thread becomes the user's: PythonRaise (PythonError for interrupts, no
// memory).
[[noreturn]] void raise_current_error(Executor& ex);
PyRef checked_user(Executor& ex, PyObject* new_reference);
bool matches_exception(const PythonRaise& raised, PyObject* type);

// ---- arguments of C functions
// Positional and keyword arguments in the order of `names`; a name that ends in '?' is optional (null when
// missing), one that starts with '*' is keyword-only. Raises TypeError as CPython does, in its own words as
// far as they matter.
std::vector<ValuePtr> bind_arguments(Executor& ex, const char* function, const CallArgs& args,
                                     std::initializer_list<const char*> names);
CallArgs positional(std::vector<ValuePtr> values);
void require_no_keywords(Executor& ex, const char* function, const CallArgs& args);
void require_count(Executor& ex, const char* function, const CallArgs& args, size_t least, size_t most);

// ---- protocols
std::vector<ValuePtr> items_of(Executor& ex, const ValuePtr& iterable);
ValuePtr call_method(Executor& ex, const ValuePtr& self, const char* name,
                     std::vector<ValuePtr> arguments = {});
// What __len__ and __bool__ have returned, as Python takes it.
ValuePtr checked_length(Executor& ex, const ValuePtr& returned);
bool checked_truth(Executor& ex, const ValuePtr& returned);
// A method of the object's class, bound (special methods skip the instance); null where the class has none.
ValuePtr lookup_special(Executor& ex, const ValuePtr& self, const char* name);
// `a is b`. Where they are not, no other call that fits has one object for both.
bool same_object(Executor& ex, const ValuePtr& a, const ValuePtr& b);
void note_identity(Executor& ex, const SymbolicValue& value);  // it is none of the others of its type
bool values_equal(Executor& ex, const ValuePtr& a,
                  const ValuePtr& b);          // identity, then ==, as PyObject_RichCompareBool
bool is_iterator_type(PyTypeObject* type);     // has __next__
std::string type_name(const ValuePtr& value);  // as errors name it: of a class of C with its module

}  // namespace cdynamo::symbolic
