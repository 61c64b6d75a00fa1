// Builder: appends nodes to a graph with their types inferred. `call` takes any operator of the table by its
// schema; Tensor and the functions below are sugar for the bodies and derivatives in the table.
//
//   Builder b(graph);
//   Tensor x = wrap(b, value);
//   Tensor y = exp(x - amax(x, {-1}, /*keepdim=*/true));
//   Tensor z = y / sum(y, {-1}, true);
//
// In core mode (`Builder(graph, Level::kCore)`) composites are expanded as they are called, operands of
// pointwise nodes are expanded to one shape and cast to one dtype by explicit nodes, and constants become
// core.full. In captured mode the same calls give the same results with eager's strides; that is how the
// types of composites are inferred.
#pragma once

#include <initializer_list>

#include "graph/op.h"

namespace cdynamo::graph {

enum class Level : uint8_t { kCaptured, kCore };

class Builder {
 public:
  explicit Builder(Graph& graph, Level level = Level::kCaptured) : graph_(graph), level_(level) {}
  Graph& graph() { return graph_; }
  Level level() const { return level_; }
  SymContext& sym() { return *graph_.sym; }

  // Infers the types and appends one node (captured level), or the node's expansion (core level).
  // `args` is complete: one for each parameter of the overload's schema. Throws UserError, Unsupported.
  std::vector<Value*> call(const OpDef& op, int overload, std::vector<Arg> args, bool in_place = false);
  // By name, arguments positional with the schema's defaults filled in: call("softmax", {x, Sym(-1)}).
  std::vector<Value*> call(std::string_view op, std::vector<Arg> args);
  Value* call1(std::string_view op, std::vector<Arg> args) { return call(op, std::move(args)).at(0); }

  // The types that call would give its results; at captured level with eager's strides.
  std::vector<TensorType> infer(const OpDef& op, int overload, const std::vector<Arg>& args,
                                bool in_place = false);

  // Appends a node as it is, its types known.
  std::vector<Value*> append(const OpDef& op, int overload, std::vector<Arg> args,
                             std::vector<TensorType> types, bool in_place);

  // Nodes appended from here on carry this location, user call and region (Node::region).
  void set_location(int location, int user_call, int region) {
    location_ = location;
    user_call_ = user_call;
    region_ = region;
  }
  // Where nodes without tensors among their operands have their results, from here on: on the device of what they are
  // part of.
  void set_device(Device device) { device_ = device; }
  Device device() const { return device_; }
  // The same while one lives.
  class OnDevice {
   public:
    OnDevice(Builder& builder, Device device) : builder_(builder), before_(builder.device_) {
      builder.device_ = device;
    }
    ~OnDevice() { builder_.device_ = before_; }
    OnDevice(const OnDevice&) = delete;

   private:
    Builder& builder_;
    Device before_;
  };

 private:
  std::vector<Value*> call_core(const OpDef& op, int overload, std::vector<Arg> args);
  void gather_operands(const OpDef& op, std::vector<Arg>& args, const std::vector<TensorType>& types);
  Device device_of_results(const OpDef& op, const std::vector<Arg>& args) const;
  void place(const OpDef& op, const std::vector<Arg>& args, std::vector<TensorType>& types) const;

  Graph& graph_;
  Level level_;
  int location_ = -1, user_call_ = -1, region_ = 0;
  Device device_;
};

// A value with its builder, for bodies that read like the formula.
struct Tensor {
  Builder* builder = nullptr;
  Value* value = nullptr;
  const TensorType& type() const { return value->type; }
  DType dtype() const { return value->type.dtype; }
  int rank() const { return value->type.rank(); }
  const std::vector<Sym>& sizes() const { return value->type.sizes; }
  Sym size(int64_t dim) const;  // negative dims count from the end
};

inline Tensor wrap(Builder& builder, Value* value) { return {&builder, value}; }

// ---- sugar: the formulas of the table -------------------------------------------------------------------

using Dims = std::vector<int64_t>;
// A tensor or a Python number: an operand.
struct Operand {
  Operand(Tensor tensor) : arg(tensor.value), builder(tensor.builder) {}
  Operand(double number) : arg(number) {}
  Operand(int number) : arg(Sym(number)) {}
  Operand(int64_t number) : arg(Sym(number)) {}
  Operand(Sym number) : arg(std::move(number)) {}
  Operand(Arg given, Builder* builder) : arg(std::move(given)), builder(builder) {}
  Arg arg;
  Builder* builder = nullptr;
};

Tensor apply(std::string_view op, std::initializer_list<Operand> operands);  // a pointwise operator by name
Tensor operator+(Operand a, Operand b);
Tensor operator-(Operand a, Operand b);
Tensor operator*(Operand a, Operand b);
Tensor operator/(Operand a, Operand b);
Tensor operator-(Tensor a);
// clang-format off
#define CDYNAMO_UNARY(name) \
  inline Tensor name(Tensor x) { return apply(#name, {x}); }
CDYNAMO_UNARY(neg) CDYNAMO_UNARY(abs) CDYNAMO_UNARY(sign) CDYNAMO_UNARY(exp) CDYNAMO_UNARY(exp2)
CDYNAMO_UNARY(expm1) CDYNAMO_UNARY(log) CDYNAMO_UNARY(log2) CDYNAMO_UNARY(log10) CDYNAMO_UNARY(log1p)
CDYNAMO_UNARY(sqrt) CDYNAMO_UNARY(rsqrt) CDYNAMO_UNARY(reciprocal) CDYNAMO_UNARY(sin) CDYNAMO_UNARY(cos)
CDYNAMO_UNARY(tan) CDYNAMO_UNARY(sinh) CDYNAMO_UNARY(cosh) CDYNAMO_UNARY(tanh) CDYNAMO_UNARY(erf)
CDYNAMO_UNARY(erfc) CDYNAMO_UNARY(sigmoid) CDYNAMO_UNARY(floor) CDYNAMO_UNARY(ceil) CDYNAMO_UNARY(trunc)
CDYNAMO_UNARY(isnan) CDYNAMO_UNARY(isinf) CDYNAMO_UNARY(logical_not) CDYNAMO_UNARY(digamma)
#undef CDYNAMO_UNARY
#define CDYNAMO_BINARY(name) \
  inline Tensor name(Operand x, Operand y) { return apply(#name, {x, y}); }
CDYNAMO_BINARY(eq) CDYNAMO_BINARY(ne) CDYNAMO_BINARY(lt) CDYNAMO_BINARY(le) CDYNAMO_BINARY(gt)
CDYNAMO_BINARY(ge) CDYNAMO_BINARY(maximum) CDYNAMO_BINARY(minimum) CDYNAMO_BINARY(pow)
CDYNAMO_BINARY(atan2) CDYNAMO_BINARY(logical_and) CDYNAMO_BINARY(logical_or) CDYNAMO_BINARY(floor_divide)
CDYNAMO_BINARY(remainder) CDYNAMO_BINARY(fmod)
#undef CDYNAMO_BINARY
    // clang-format on
    Tensor where(Tensor condition, Operand yes, Operand no);

Tensor cast(Tensor x, DType dtype);  // itself where it has that dtype
Tensor to_device(Tensor x, Device device);
Tensor to_compute(Tensor x);  // half types to float32
Tensor full(Builder& b, std::vector<Sym> sizes, Arg value, DType dtype);
Tensor full_like(Tensor x, Arg value);  // same sizes and dtype
Tensor iota(Builder& b, std::vector<Sym> sizes, int64_t dim, DType dtype);

Tensor expand(Tensor x, std::vector<Sym> sizes);  // prepends dims, stretches sizes of 1
Tensor permute(Tensor x, Dims dims);
Tensor transpose(Tensor x, int64_t dim0, int64_t dim1);
Tensor reshape(Tensor x, std::vector<Sym> sizes);  // no -1
Tensor unsqueeze(Tensor x, int64_t dim);
Tensor squeeze(Tensor x, int64_t dim);  // the dim is of size 1
Tensor slice(Tensor x, int64_t dim, Sym start, Sym size, Sym step = 1);
Tensor select(Tensor x, int64_t dim, Sym index);
Tensor flip(Tensor x, const Dims& dims);
Tensor pad(Tensor x, std::vector<Sym> low, std::vector<Sym> high, Arg fill);
Tensor concat(const std::vector<Tensor>& tensors, int64_t dim);

// Over wrapped, distinct dims. The dtype is the operand's; sum and prod of bool are refused (cast first).
Tensor reduce(std::string_view core_op, Tensor x, Dims dims, bool keepdim);
Tensor sum(Tensor x, Dims dims, bool keepdim = false);
Tensor prod(Tensor x, Dims dims, bool keepdim = false);
Tensor amax(Tensor x, Dims dims, bool keepdim = false);
Tensor amin(Tensor x, Dims dims, bool keepdim = false);
Tensor any(Tensor x, Dims dims, bool keepdim = false);
Tensor all(Tensor x, Dims dims, bool keepdim = false);
Tensor mean(Tensor x, Dims dims, bool keepdim = false);
Sym count_along(Tensor x, const Dims& dims);  // elements reduced

Tensor mm(Tensor a, Tensor b);
Tensor bmm(Tensor a, Tensor b);
Tensor matmul(Tensor a, Tensor b);  // torch.matmul's rules
Tensor gather(Tensor x, Tensor index, int64_t dim);
Tensor detach(Tensor x);      // no gradient flows through it
Tensor contiguous(Tensor x);  // a copy with row-major strides unless it has them

}  // namespace cdynamo::graph
