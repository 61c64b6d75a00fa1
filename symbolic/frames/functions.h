// Functions, bound methods and cells. A call of a Python function is inlined: arguments are bound as CPython
// does (initialize_locals, Python/ceval.c) and its bytecode runs in a SymbolicFrame of its own.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "symbolic/capture/value.h"

namespace cdynamo::symbolic {

class DictValue;

class CellValue final : public SymbolicValue {
 public:
  // A cell made during capture, with its contents (null: empty), or a live one.
  explicit CellValue(ValuePtr contents) : contents_(std::move(contents)), loaded_(true) {}
  CellValue(PyObject* cell, SourcePtr cell_source, SourcePtr contents_source);

  PyTypeObject* type() const override { return &PyCell_Type; }
  PyObject* real_object() const override { return cell_.get(); }
  ValuePtr get_attribute(Executor& ex, PyObject* name) override;
  ValuePtr contents(Executor& ex);                              // null: empty
  const ValuePtr& known_contents() const { return contents_; }  // null: empty, or not looked at
  // The live object in it, without a look at what it is; null: none, or one that is made during capture.
  PyObject* live_contents() const;
  void set_contents(Executor& ex, ValuePtr value);
  void note_read(Executor& ex);  // a variable is read
  bool has_recipe() const { return recipe_ != nullptr; }
  RecipePtr recipe(Executor& ex) override;
  void emit_effects(Executor& ex) override;
  void forget() override {
    contents_ = nullptr;
  }  // a function and its own cell keep each other alive otherwise

 private:
  PyRef cell_;  // null: made during capture
  SourcePtr contents_source_;
  ValuePtr contents_;
  bool loaded_ = false;  // contents_ is what the cell holds
  RecipePtr recipe_;
};

// What a function is made of. Of a live function these are read through its source when they are needed.
class FunctionValue final : public SymbolicValue {
 public:
  FunctionValue(PyRef code, PyRef globals, ValuePtr qualified_name);  // MAKE_FUNCTION
  FunctionValue(PyObject* function, SourcePtr source);                // a live one

  PyTypeObject* type() const override { return &PyFunction_Type; }
  std::string describe() const override;
  PyObject* real_object() const override { return function_.get(); }
  ValuePtr get_attribute(Executor& ex, PyObject* name) override;
  void set_attribute(Executor& ex, PyObject* name, const ValuePtr& value) override;
  ValuePtr call(Executor& ex, const CallArgs& args) override;
  std::optional<bool> truth(Executor&) override { return true; }
  PyRef hash_key(Executor& ex) override;
  PyRef materialize(Executor& ex) override;
  RecipePtr recipe(Executor& ex) override;
  void emit_effects(Executor& ex) override;

  // The names in its __dict__; a live function is told from others by a guard.
  std::vector<PyRef> own_names(Executor& ex);

  // Its __name__ or __qualname__ was set during capture.
  bool is_renamed() const;
  // Made during capture, and Python has got it.
  bool is_handed_out() const { return !function_ && recipe_; }

  void forget() override { attributes_.clear(); }

  PyCodeObject* code() const { return reinterpret_cast<PyCodeObject*>(code_.get()); }
  PyObject* globals() const { return globals_.get(); }
  DictValue* shown_dict(Executor& ex) const;  // its __dict__, where the program has asked for it
  std::vector<ValuePtr> closure(Executor& ex);
  std::vector<ValuePtr> held() const;  // defaults and attributes that captured code has given it
  // The default of a parameter: positional by its index in co_varnames, keyword-only by name. Null: none.
  ValuePtr positional_default(Executor& ex, int parameter);
  ValuePtr keyword_default(Executor& ex, PyObject* name);

  // Parts that MAKE_FUNCTION sets.
  ValuePtr defaults, keyword_defaults, annotations, cells;

 private:
  ValuePtr own_attribute(Executor& ex, PyObject* name);  // of __dict__; null: none
  bool is_known() const {
    return !source || source->kind == SourceKind::kConstant;
  }  // always this very object
  // Of a known function they are, but for those whose end runs code: nothing that is compiled is to hold these.
  bool has_constant_defaults() const;
  void guard_code(Executor& ex);
  bool guarded_presence(Executor& ex, PyObject* name);
  PyRef function_, code_, globals_;
  ValuePtr qualified_name_;
  std::vector<std::pair<PyRef, ValuePtr>> attributes_;  // set during capture; null value: deleted
  bool guarded_ = false;
  PyRef identity_;  // stands for a function made during capture as a key
  RecipePtr recipe_;
};

class BoundMethodValue final : public SymbolicValue {
 public:
  BoundMethodValue(ValuePtr function, ValuePtr self)
      : function_(std::move(function)), self_(std::move(self)) {}
  PyTypeObject* type() const override { return &PyMethod_Type; }
  std::string describe() const override { return "method " + function_->describe(); }
  const ValuePtr& function() const { return function_; }
  const ValuePtr& self() const { return self_; }
  ValuePtr get_attribute(Executor& ex, PyObject* name) override;
  ValuePtr call(Executor& ex, const CallArgs& args) override;
  ValuePtr compare(Executor& ex, int py_op, const ValuePtr& other) override;
  std::optional<bool> truth(Executor&) override { return true; }
  RecipePtr recipe(Executor& ex) override;
  PyRef object;  // the live method, where there is one
  PyObject* real_object() const override { return object.get(); }

 private:
  ValuePtr function_, self_;
  RecipePtr recipe_;
};

// Marked by cdynamo.disable or torch.compiler.disable: it runs in Python, with all that it calls.
bool is_disabled(PyObject* function);

// How a call fills the parameters of a function: co_varnames' argument slots, in order.
struct Parameters {
  explicit Parameters(PyCodeObject* code);
  int positional, keyword_only;
  bool var_positional, var_keyword;
  int total() const { return positional + keyword_only + var_positional + var_keyword; }
};

// Runs `function`'s code on bound arguments, one for each parameter slot. `is_linked`: an instruction of a linked frame has
// called it for its result (SymbolicFrame::is_linked).
ValuePtr run_function(Executor& ex, FunctionValue& function, std::vector<ValuePtr> arguments,
                      bool is_linked = false);
// Binds; breaks the graph where the arguments do not fit, so that Python raises its own error.
std::vector<ValuePtr> bind_call(Executor& ex, FunctionValue& function, const CallArgs& args);

// compiler_functions.cpp
// What functions of torch.compile's mean in captured code; null: not one of them. `module`: __name__ of the function's globals.
ValuePtr call_compiler_function(Executor& ex, FunctionValue& function, const char* module,
                                const CallArgs& args);

}  // namespace cdynamo::symbolic
