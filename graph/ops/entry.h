// What the entries of the table are written with: short forms for scalar code, bodies and derivatives.
#pragma once

#include <initializer_list>

#include "graph/autograd/derivative.h"
#include "graph/broadcast.h"
#include "graph/builder.h"
#include "graph/op.h"

// Scalar code: `b` is the builder, `x` the operands, `args` the node's arguments.
#define CDYNAMO_SCALAR(...) [](ScalarBuilder& b, const Scalar* x, const Args& args) -> Scalar { __VA_ARGS__; }
// A body: `b` is the builder, `args` the arguments.
#define CDYNAMO_BODY(...) [](Builder& b, const Args& args) -> std::vector<Value*> { __VA_ARGS__; }
// A derivative: `d`.
#define CDYNAMO_DERIVATIVE(...) [](Derivative& d) { __VA_ARGS__; }

namespace cdynamo::graph {

using runtime::is_float;
using runtime::is_half;
using runtime::is_integer;

// ---- scalar code

inline Scalar number(ScalarBuilder& b, double value, Scalar like) {
  return is_float(like.dtype) ? b.constant(value, like.dtype)
                              : b.constant_int(static_cast<int64_t>(value), like.dtype);
}
using runtime::is_unsigned;
inline bool is_unsigned(Scalar x) { return !runtime::info(x.dtype).is_signed; }

// ---- bodies

inline Tensor operand(Builder& b, const Args& args, std::string_view name) {
  return wrap(b, args.value(name));
}
// A parameter that is a tensor or a number.
inline Operand any_operand(Builder& b, const Args& args, std::string_view name) {
  return Operand(args[name], &b);
}
// Eager's kernels are others there.
inline bool on_gpu(const TensorType& type) { return type.device.type == runtime::DeviceType::kCUDA; }
inline bool on_gpu(Tensor x) { return on_gpu(x.type()); }
inline Tensor self_of(Builder& b, const Args& args) { return operand(b, args, "self"); }
inline std::vector<Value*> one(Tensor tensor) { return {tensor.value}; }
inline std::vector<Value*> forward(Builder& b, std::string_view op, std::vector<Arg> args) {
  return b.call(op, std::move(args));
}

inline TensorType contiguous_type(const Value* like, std::vector<Sym> sizes, DType dtype) {
  TensorType type;
  type.dtype = dtype;
  type.device = like->type.device;
  type.strides = contiguous_strides(sizes);
  type.sizes = std::move(sizes);
  return type;
}
inline std::vector<TensorType> infer_contiguous_self(Graph&, const Args& args) {
  const Value* self = args.value("self");
  return {contiguous_type(self, self->type.sizes, self->type.dtype)};
}
// The order of dims that leads back from `order`.
inline Dims inverse_order(const Dims& order) {
  Dims result(order.size());
  for (size_t i = 0; i < order.size(); ++i) result[order[i]] = static_cast<int64_t>(i);
  return result;
}
inline std::vector<Tensor> tensors_of(Builder& b, const Args& args) {
  std::vector<Tensor> tensors;
  for (Value* value : args.values("tensors")) tensors.push_back(wrap(b, value));
  return tensors;
}

// For composites whose eager kernels write a fresh row-major result.
inline void contiguous_results(Graph&, const Args&, std::vector<TensorType>& results) {
  for (TensorType& type : results) type.strides = contiguous_strides(type.sizes);
}
// dtype= of factories and reductions; `otherwise` where it is not given.
inline DType dtype_or(const Args& args, DType otherwise) { return args.dtype("dtype").value_or(otherwise); }
inline const TensorType& operand_type(const Args& args, std::string_view name) {
  return args.value(name)->type;
}
inline DType operand_dtype(const Args& args, std::string_view name) { return args.value(name)->type.dtype; }

// The dtype that promotion gives: of the arguments, of `self` with `other`.
DType common_dtype(Graph& graph, std::initializer_list<const Arg*> operands);
DType common_dtype(Graph& graph, const Args& args);
bool is_bool(const Arg& arg);

// The same value in memory of its own: eager makes a tensor of it, or of the gradient that flows through,
// where ours would be a view of another.
Tensor own(Tensor x);
// x, with a gradient of zeros for `leader`: where eager's result depends on it by its graph only.
Tensor follow(Tensor x, Tensor leader);
// x, with the gradient that `source` would have, or `slope` times that: where eager's derivative is not that of
// what it computes (it reads rounded statistics, it overflows).
Tensor with_slope(Tensor x, Tensor source);
Tensor with_slope(Tensor x, Tensor source, Tensor slope);
// x, the softmax of `source` along `dim` (or its logarithm), with the gradient that eager computes from what it has saved, the
// result.
Tensor with_softmax_gradient(Tensor x, Tensor source, int64_t dim, bool logarithm);
// From the gradient of a softmax's result to that of its operand.
Tensor softmax_gradient(Tensor result, Tensor grad, int64_t dim);
// The square root, whose gradient at 0 is 0 where that of sqrt is infinite: of sums of squares.
Tensor root(Tensor x);
// The norm of order p over `dims`, computed in x's dtype; its gradient at 0 is 0.
Tensor p_norm(Tensor x, double p, const Dims& dims, bool keepdim);

// Eager's checks: throws the RuntimeError, IndexError ... that eager would raise.
inline void require(bool condition, const char* message) {
  if (!condition) runtime_error(message);
}

// An operator by its body, which writes a fresh row-major result unless `strides` says what eager does.
OpDef composite(std::string_view name, std::vector<std::string_view> schemas, BodyFn body,
                std::vector<std::string_view> torch_names = {}, StridesFn strides = contiguous_results);
OpDef with_in_place_variant(OpDef op);

// OpDef::strides of what keeps the order of self.
void preserved_results(Graph& graph, const Args& args, std::vector<TensorType>& results);
// OpDef::strides where numbers are no operands of eager's iterator, as they are elsewhere.
void strides_of_tensors(Graph& graph, const Args& args, std::vector<TensorType>& results);

}  // namespace cdynamo::graph
