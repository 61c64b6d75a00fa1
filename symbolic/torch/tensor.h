// torch.Tensor as a symbolic value. What a method is: an operator of the table where the table has its name,
// a row of tensor_methods.cpp where the answer is no tensor (size, dim, item ...), or torch's own Python
// code, which is inlined.
#pragma once

#include "symbolic/capture/value_factories.h"
#include "symbolic/tensors/array_value.h"

namespace cdynamo::symbolic {

class TensorValue final : public ArrayValue {
 public:
  // `type` is torch.Tensor or Parameter.
  TensorValue(graph::Value* value, PyTypeObject* type, SourcePtr from = nullptr)
      : ArrayValue(value, std::move(from)), type_(type) {}

  PyTypeObject* type() const override { return type_; }
  graph::Framework framework() const override { return graph::Framework::kTorch; }
  std::string describe() const override { return "tensor " + type_text(array_type()); }
  ValuePtr get_attribute(Executor& ex, PyObject* name) override;
  void set_attribute(Executor& ex, PyObject* name, const ValuePtr& value) override;
  ValuePtr get_item(Executor& ex, const ValuePtr& key) override;
  void set_item(Executor& ex, const ValuePtr& key, const ValuePtr& value) override;
  ValuePtr length(Executor& ex) override;
  ValuePtr iterate(Executor& ex) override;
  std::optional<bool> truth(Executor& ex) override;
  ValuePtr unary(Executor& ex, Op op) override;
  ValuePtr binary(Executor& ex, int nb_op, const ValuePtr& other, bool reflected) override;
  ValuePtr compare(Executor& ex, int py_op, const ValuePtr& other) override;
  std::optional<std::vector<ValuePtr>> unpack(Executor& ex) override;

 protected:
  graph::Value* output(Executor& ex) override;
  RecipePtr made_of_output(Executor& ex, RecipePtr output) override;

 private:
  ValuePtr instance_attribute(Executor& ex, PyObject* name);
  ValuePtr own_dict(Executor& ex);
  void set_own_attribute(Executor& ex, PyObject* name, const ValuePtr& value);
  PyTypeObject* type_;
};

ValuePtr self_of(ArrayValue& array);

// What stands for an input, or for a tensor that is a part of the program.
std::shared_ptr<ArrayValue> make_tensor_input(graph::Value* value, const SourcePtr& source, PyObject* object);

// torch.Size of these sizes.
ValuePtr make_size(Executor& ex, const std::vector<graph::Sym>& sizes);

// One call of an operator from Python: binds, checks, appends, wraps. `kind` and `target` as in user_call.h.
ValuePtr call_operator(Executor& ex, const graph::OpDef& op, bool in_place, const char* kind, PyRef target,
                       const CallArgs& args, Convention convention);
// As the method or function of that name would be called, for operators and subscripts; not recorded.
ValuePtr call_named(Executor& ex, const char* op, std::vector<ValuePtr> args, bool in_place = false);

// An attribute that is no method; null where there is none of that name.
ValuePtr tensor_property(Executor& ex, TensorValue& self, std::string_view name);
// A method of tensor_methods.cpp, bound; null where there is none.
ValuePtr tensor_method(Executor& ex, const ValuePtr& self, std::string_view name);

ValuePtr new_tensor_method(Executor& ex, const ValuePtr& self, const CallArgs& args);  // factories.cpp

}  // namespace cdynamo::symbolic
