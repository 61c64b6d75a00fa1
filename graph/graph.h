// The tensor IR: SSA nodes in the order of execution, each with a pointer to its operator's table entry.
//
// Two vocabularies, one IR. A *captured* graph holds the user's calls (linear, layer_norm, add_ ...),
// in-place nodes included; `decompose` and `functionalize` make from it a *core* graph: pure nodes of the
// core operators only (graph/core.h), which is what lowering reads.
//
// Meaning. Integer arithmetic wraps; integer division by zero is checked by the operator that needs it.
// Floating point follows IEEE 754, round to nearest, and NaN and infinity are kept; no reassociation but
// inside reductions, no contraction. float16 and bfloat16 operators compute in float32 and round once, at the
// end of each operator. Nodes of a captured graph execute in order and in-place nodes write through to every
// view of the storage; nodes of a core graph are pure and only data dependence orders them. A view's result
// shares its operand's storage in a captured graph; in a core graph it is a value like any other.
#pragma once

#include <list>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "graph/sizes/sym.h"
#include "runtime/types.h"

namespace cdynamo::graph {

using runtime::Device;
using runtime::DType;
struct OpDef;
struct Graph;
struct Node;
struct Value;

// Strides count elements, as in PyTorch. A `weak` value is a Python number or a wrapped 0-dim scalar: in
// promotion its category counts and its width does not.
struct TensorType {
  DType dtype = DType::kF32;
  Device device;
  std::vector<Sym> sizes;
  std::vector<Sym> strides;
  bool weak = false;
  int rank() const { return static_cast<int>(sizes.size()); }
  Sym numel() const;
};
std::vector<Sym> contiguous_strides(const std::vector<Sym>& sizes);

// One result of a node, or a graph input (node == nullptr).
struct Value {
  Node* node = nullptr;
  int index = 0;  // which result
  TensorType type;
  std::string name;            // "add_3": unique in its graph
  int id = -1;                 // dense, unique in its graph
  bool requires_grad = false;  // captured graphs: as the tensor's is in eager
  bool has_history = false;    // inputs of those: the engine calls something of the program's behind it
};

// Which library a call is one of: it decides promotion, default dtypes, strides and errors.
enum class Framework : uint8_t { kTorch, kNumpy };

// The argument of a node. A Scalar of the schema is a Sym, double or bool; optional and absent is monostate;
// `Tensor?[]` holds null pointers for None. A `Graph` is a function of captured level: what autograd.function
// differentiates as.
using Arg =
    std::variant<std::monostate, Value*, Sym, double, bool, std::string, DType, Device, std::vector<Value*>,
                 std::vector<Sym>, std::vector<double>, std::vector<bool>, std::shared_ptr<const Graph>>;

// Where in the user's program a node comes from.
struct SourceLocation {
  std::string file, function, text;  // text: the source line, stripped
  int line = 0;
};

struct Node {
  const OpDef* op = nullptr;
  int overload = 0;       // index in op->schemas
  bool in_place = false;  // the call was op_(): results[0] is the new content of args[0]'s storage
  bool no_grad = false;   // captured graphs: made under no_grad: a view, or from what requires grad (cut)
  std::vector<Arg> args;  // one for each parameter of the schema, defaults filled in
  std::vector<Value*> results;
  // The checkpoint (torch.utils.checkpoint) that the call lies in, the outermost of several; 0: none. What a
  // region computes is not kept for a backward, but computed again from what came into the region. Negative:
  // random numbers would be drawn anew (preserve_rng_state=False).
  int region = 0;
  int location = -1;   // index in Graph::locations
  int user_call = -1;  // the capture's own record of the Python call; -1 for nodes made by passes
  Framework framework = Framework::kTorch;  // whose rules the call follows
  bool is_merged =
      false;  // it stands for several calls of the program, each with a history of its own in eager
  int id = -1;
};

struct Graph {
  explicit Graph(std::shared_ptr<SymContext> context = std::make_shared<SymContext>());
  ~Graph();
  Graph(const Graph&) = delete;

  std::shared_ptr<SymContext> sym;
  // Whose rules the nodes follow that are added next. One graph may hold nodes of both; between two calls it is torch's then.
  Framework framework = Framework::kTorch;
  DType torch_float = DType::kF32;         // torch.get_default_dtype()
  std::list<std::unique_ptr<Node>> nodes;  // execution order
  std::vector<Value*> inputs;
  std::vector<Value*> outputs;  // may repeat values and may name inputs
  // Core graphs: after the outputs are computed, `value` is written back to `input`'s storage. It is a node's
  // result, and not a view's: all values are there before any input is written.
  struct Mutation {
    int input;
    Value* value;
  };
  std::vector<Mutation> mutations;
  std::vector<SourceLocation> locations;

  DType default_float() const { return framework == Framework::kNumpy ? DType::kF64 : torch_float; }
  // Whether a node follows these rules; of a graph without nodes, whether the next one would.
  bool has_nodes_of(Framework rules) const;
  Value* add_input(TensorType type, std::string name);
  // Appends a node with `types.size()` results. Does no inference: see Builder.
  Node* add_node(const OpDef* op, int overload, std::vector<Arg> args, std::vector<TensorType> types);
  Value* new_value(Node* node, int index, TensorType type);
  int next_value_id() const { return static_cast<int>(values_.size()); }
  Value* value(int id) const { return values_[id].get(); }
  std::unique_ptr<Graph> clone() const;

 private:
  std::vector<std::unique_ptr<Value>> values_;
  int next_node_id_ = 0;
};

// Calls fn(Value*&) for each value among a node's arguments, lists included, null entries left out.
template <typename F>
void for_each_operand(Node& node, F&& fn) {
  for (Arg& arg : node.args) {
    if (auto* value = std::get_if<Value*>(&arg)) {
      if (*value) fn(*value);
    } else if (auto* list = std::get_if<std::vector<Value*>>(&arg)) {
      for (Value*& value : *list)
        if (value) fn(value);
    }
  }
}

}  // namespace cdynamo::graph
