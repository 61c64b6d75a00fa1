// Callables of torch that are bound by a rule: operators of the table, found by identity, and rows of special
// functions (functions that answer from metadata, modes, factories).
#pragma once

#include "graph/op.h"
#include "symbolic/tensors/array_value.h"

namespace cdynamo::symbolic {

struct OperatorCallable {
  const graph::OpDef* op = nullptr;
  bool in_place = false;
  bool method = false;  // its first argument is the receiver
};
// By the callable's identity; null op: none. The map is made at first use, when torch is there.
OperatorCallable find_torch_operator(PyObject* callable);
// By the attribute's name on torch.Tensor.
OperatorCallable find_tensor_operator(std::string_view name);

using SpecialFunction = ValuePtr (*)(Executor& ex, PyObject* callable, const CallArgs& args);
SpecialFunction find_special_function(PyObject* callable);

struct SpecialRow {
  const char* path;  // "torch.is_tensor"
  SpecialFunction apply;
};
std::span<const SpecialRow> torch_query_functions();        // torch_functions.cpp
std::span<const SpecialRow> torch_factory_functions();      // factories.cpp
std::span<const SpecialRow> torch_mode_functions();         // modes.cpp
std::span<const SpecialRow> factory_default_functions();    // factory_defaults.cpp
std::span<const SpecialRow> function_mode_rules();          // function_modes.cpp
std::span<const SpecialRow> inference_mode_functions();     // inference_mode.cpp
std::span<const SpecialRow> saved_tensor_functions();       // saved_tensors.cpp
std::span<const SpecialRow> made_leaf_functions();          // made_leaves.cpp
std::span<const SpecialRow> torch_autocast_functions();     // autocast.cpp
std::span<const SpecialRow> checkpoint_rules();             // checkpoint.cpp
std::span<const SpecialRow> way_rules();                    // ways.cpp
std::span<const SpecialRow> loop_rules();                   // loops.cpp
std::span<const SpecialRow> autograd_call_rules();          // autograd_call.cpp
std::span<const SpecialRow> user_function_rules();          // user_function.cpp
std::span<const SpecialRow> module_hook_rules();            // module_hooks.cpp
std::span<const SpecialRow> data_rules();                   // data_rules.cpp
std::span<const SpecialRow> foreach_functions();            // foreach.cpp
std::span<const SpecialRow> function_transform_rules();     // function_transforms.cpp
std::span<const SpecialRow> vmap_rules();                   // vmap.cpp
std::span<const SpecialRow> attention_backend_functions();  // attention_backends.cpp
std::span<const SpecialRow> complex_functions();            // complex_tensor.cpp

// Operators that the table lacks, stated in Python in python/cdynamo/polyfills/torch_functions.py and
// inlined.
struct PolyfillRow {
  const char* path;
  const char* function;
};
std::span<const PolyfillRow> torch_polyfills();  // polyfills.cpp
// Whether the polyfill calls none, or those that what it stands for calls: autocast and modes find it as they find that.
bool calls_no_operators(std::string_view polyfill);
// The name of the polyfill of a callable, or of the method of torch.Tensor; null: none.
const char* find_torch_polyfill(PyObject* callable);
const char* find_tensor_polyfill(std::string_view method);

// torch.repeat_interleave, and the method: data_rules.cpp
ValuePtr repeat_interleave(Executor& ex, const char* kind, PyRef target, const CallArgs& args,
                           Convention convention);

// A callable with a rule, as a value; without one it is called in the library.
class TorchCallable final : public SymbolicValue {
 public:
  TorchCallable(PyRef object, OperatorCallable op, SpecialFunction special, const char* polyfill,
                SourcePtr from)
      : object_(std::move(object)), op_(op), special_(special), polyfill_(polyfill) {
    source = std::move(from);
  }
  PyTypeObject* type() const override { return Py_TYPE(object_.get()); }
  std::string describe() const override;
  PyObject* real_object() const override { return object_.get(); }
  std::optional<PyRef> as_constant() const override { return object_; }
  ValuePtr get_attribute(Executor& ex, PyObject* name) override;
  ValuePtr call(Executor& ex, const CallArgs& args) override;
  std::optional<bool> truth(Executor&) override { return true; }
  ValuePtr compare(Executor& ex, int py_op, const ValuePtr& other) override;
  bool is_same_object(const SymbolicValue& other) const override {
    return other.real_object() == object_.get();
  }
  RecipePtr recipe(Executor& ex) override;

 private:
  PyRef object_;
  OperatorCallable op_;
  SpecialFunction special_;
  const char* polyfill_;
  RecipePtr recipe_;
};

}  // namespace cdynamo::symbolic
