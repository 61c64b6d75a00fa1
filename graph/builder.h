// Builder: appends nodes to a graph with their types inferred. `call` takes any operator of the table by its schema;
// Tensor and the functions below are sugar for the bodies and derivatives in the table.
//
//   Builder b(graph);
//   Tensor x = b.wrap(value);
//   Tensor y = exp(x - amax(x, {-1}, /*keepdim=*/true));
//   Tensor z = y / sum(y, {-1}, true);
//
// In core mode (`Builder(graph, Level::kCore)`) composites are expanded as they are called, operands of pointwise nodes
// are expanded to one shape and cast to one dtype by explicit nodes, and constants become core.full.
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

  // Nodes appended from here on carry this location and user call.
  void set_location(int location, int user_call) { location_ = location; user_call_ = user_call; }

 private:
  Graph& graph_;
  Level level_;
  int location_ = -1, user_call_ = -1;
};

// A value with its builder, for bodies that read like the formula.
struct Tensor {
  Builder* builder = nullptr;
  Value* value = nullptr;
  operator Value*() const { return value; }
  const TensorType& type() const { return value->type; }
  DType dtype() const { return value->type.dtype; }
  int rank() const { return value->type.rank(); }
  Sym size(int64_t dim) const;  // negative dims count from the end
};

}  // namespace cdynamo::graph
