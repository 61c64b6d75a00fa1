// Exceptions inside captured code: instances as values, raise, matching. What the program raises travels
// through C++ as PythonRaise until a frame's exception table catches it; uncaught, it breaks the graph and
// Python raises it.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "symbolic/capture/value.h"

namespace cdynamo::symbolic {

class ExceptionValue final : public SymbolicValue {
 public:
  ExceptionValue(PyTypeObject* type, std::vector<ValuePtr> args);
  ExceptionValue(PyObject* object, SourcePtr from);  // a live one

  PyTypeObject* type() const override { return reinterpret_cast<PyTypeObject*>(type_.get()); }
  std::string describe() const override;
  PyObject* real_object() const override { return object_.get(); }
  ValuePtr get_attribute(Executor& ex, PyObject* name) override;
  void set_attribute(Executor& ex, PyObject* name, const ValuePtr& value) override;
  std::optional<bool> truth(Executor&) override { return true; }
  PyRef materialize(Executor& ex) override;
  RecipePtr recipe(Executor& ex) override;
  void emit_effects(Executor& ex) override;
  void forget() override;

  const std::vector<ValuePtr>& args() const { return args_; }
  std::vector<ValuePtr>& args() { return args_; }
  ValuePtr own_attribute(PyObject* name) const;  // of the instance; null: none
  void set_own_attribute(Executor& ex, PyObject* name, ValuePtr value);
  ValuePtr cause, context;  // null: None
  bool suppress_context = false;
  // Of a group: what it was made of, whatever becomes of `args`. Null: it is none.
  ValuePtr message, exceptions;
  // A group that was split off: of which one. Null: it was not, or has been raised by itself since.
  ValuePtr part_of;
  // The root's step that raised it, from which on it has a traceback; -1: none. Python makes those, so it is not handed over.
  int64_t raised_at = -1;
  int64_t outside_at =
      -1;  // the step that raised it where captured code handled nothing: a caller may; -1: none

 private:
  ValuePtr special_attribute(Executor& ex, const char* name);  // null: not one of BaseException's
  bool is_made_of_args(Executor& ex) const;                    // its class, called with `args`, makes it
  PyRef type_, object_;
  std::vector<ValuePtr> args_;
  std::vector<std::pair<PyRef, ValuePtr>> attributes_;  // of the instance; null value: deleted
  RecipePtr recipe_;
};

// The exception that an except block is handling; null where there is none. One that a caller of captured code handles
// breaks the graph: it is the thread's.
ValuePtr handled_exception(Executor& ex);

// The traceback of what is handled: Python makes it.
ValuePtr make_traceback();

// `raise value` and `raise value from cause`: a class is called. Sets the context as CPython's
// _PyErr_SetObject does.
[[noreturn]] void raise_value(Executor& ex, const ValuePtr& value, const ValuePtr& cause);
// What a generator raises where a StopIteration leaves it (PEP 479).
ValuePtr generator_raised_stop(Executor& ex, const ValuePtr& stop);
// except `target`: target is an exception class or a tuple of them.
bool exception_matches(Executor& ex, const ValuePtr& exception, const ValuePtr& target);
// check_except_type_valid of Python/ceval.c: what `except` refuses, whatever was raised.
void check_exception_classes(Executor& ex, const ValuePtr& target);
// Its class and message, for reports.
std::string exception_text(Executor& ex, const ValuePtr& exception);

}  // namespace cdynamo::symbolic
