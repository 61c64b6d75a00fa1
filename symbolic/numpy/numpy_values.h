// NumPy's objects as symbolic values: arrays, scalars, dtypes, functions and ufuncs.
#pragma once

#include <functional>

#include "graph/op.h"
#include "symbolic/capture/value_factories.h"
#include "symbolic/tensors/array_value.h"

namespace cdynamo::symbolic {

// numpy.ndarray, or one of NumPy's scalars known only at run time (what x.sum() gives).
class NumpyValue final : public ArrayValue {
 public:
  NumpyValue(graph::Value* value, bool is_scalar, SourcePtr from = nullptr)
      : ArrayValue(value, std::move(from)), is_scalar_(is_scalar) {}
  bool is_scalar() const override { return is_scalar_; }
  graph::Framework framework() const override { return graph::Framework::kNumpy; }

  PyTypeObject* type() const override;
  std::string describe() const override {
    return std::string(is_scalar_ ? "NumPy scalar " : "array ") + type_text(array_type());
  }
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
  RecipePtr recipe(Executor& ex) override;
  // It was made of constants, and holds what `content` holds, until something is written to it.
  void note_content(PyRef content) { known_ = std::move(content); }
  // Python's number of the one element that it holds; null: it is not known.
  ValuePtr known_number(Executor& ex) const;

 protected:
  RecipeKind output_kind() const override {
    return is_scalar_ ? RecipeKind::kNumpyScalar : RecipeKind::kTensor;
  }

 private:
  ValuePtr beside_tensor(Executor& ex, int nb_op, const ValuePtr& tensor, bool reflected);
  ValuePtr made_operand(Executor& ex, const ValuePtr& other) const;
  bool is_known(Executor& ex) const;
  ValuePtr known_item(Executor& ex, const ValuePtr& key, PyRef* part) const;
  bool is_scalar_;
  PyRef known_;
  RecipePtr read_only_;  // what makes an output that is not writeable
};

// What stands for an input, or for an array that is a part of the program.
std::shared_ptr<ArrayValue> make_array_input(graph::Value* value, const SourcePtr& source, PyObject* object);

// ---- calls
// recorded_call under NumPy's rules.
template <typename F>
ValuePtr numpy_call(Executor& ex, const char* kind, PyRef target, const CallArgs& args, F&& body) {
  const FrameworkRules rules(ex, graph::Framework::kNumpy);
  return recorded_call(ex, kind, std::move(target), args, std::forward<F>(body));
}

// numpy.asarray(x) and the like, as the program would call it.
ValuePtr call_numpy_function(Executor& ex, const char* name, std::vector<ValuePtr> args);
// 0-dim results are scalars, as NumPy's functions and ufuncs give them.
ValuePtr make_numpy_result(Executor& ex, graph::Value* value);
// What NumPy gives where a tensor was among its arguments: Tensor.__array_wrap__ of each result.
ValuePtr wrapped_for_tensor(Executor& ex, const ValuePtr& result);
// A call of NumPy's with tensors among the arguments; `call` makes the same call with arrays in their place. Null: the function's
// Python is to be inlined, for it asks for methods of its arguments.
ValuePtr call_with_tensors(Executor& ex, PyObject* function, const CallArgs& args,
                           const std::function<ValuePtr(const CallArgs&)>& call);
ValuePtr call_numpy_operator(Executor& ex, const graph::OpDef& op, bool in_place, const CallArgs& args);
// The operator of the table with this NumPy name ("numpy.add", "numpy.ndarray.sum"); null: none.
const graph::OpDef* find_numpy_operator(std::string_view path);
ValuePtr call_numpy_named(Executor& ex, const char* path, std::vector<ValuePtr> args, bool in_place = false);
// A value of NumPy's world as a graph value: arrays, scalars, constants of NumPy's scalar types; null for
// others.
graph::Value* numpy_graph_value(Executor& ex, const ValuePtr& value);
// A constant int that uint64 holds, and int64 does not.
bool is_upper_uint64(const ValuePtr& value);
graph::Value* upper_uint64(Executor& ex, const ValuePtr& value);
bool is_numpy_scalar_constant(const ValuePtr& value);

}  // namespace cdynamo::symbolic
