// Rewrites as data: a row says what is looked for, what stands for it instead, and when.
//
//   {"mul(x, 1)", "x"},
//   {"add(x, 0)", "x", integral},
//   {"core.reshape(core.reshape(x))", nullptr, nullptr, merge_reshapes},
//
// A pattern is an operator with its tensor operands in order, nested: a letter stands for any value (the same
// letter for the same value), a number for a core.full of just that number (-0 is not 0). Operands of
// operators that commute are tried in both orders. Arguments that are not tensors do not take part: a
// condition looks at them.
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "graph/builder.h"

namespace cdynamo::graph {

// What a pattern's letters stand for, and the nodes that it went through (the root first).
struct Match {
  std::array<Value*, 26> values = {};
  std::vector<Node*> nodes;
  Value* operator[](char letter) const { return values[letter - 'a']; }
  Node& root() const { return *nodes.front(); }
  const TensorType& type() const { return root().results[0]->type; }
  // Arguments of the n-th operator of the pattern, in the order of reading.
  Args args(size_t n = 0) const { return Args(nodes[n]->op->parsed[nodes[n]->overload], nodes[n]->args); }
};

struct Rewrite {
  const char* pattern;
  const char* result = nullptr;  // in the same notation; null: `build` makes it
  bool (*condition)(const Match&) = nullptr;
  Value* (*build)(Builder&, const Match&) = nullptr;  // null result: does not apply after all
};

// The tables of rewrites.cpp.
std::span<const Rewrite> algebra_rewrites();
std::span<const Rewrite> view_rewrites();
// By conditions that are known. What is left out of a graph that is going to be differentiated has no gradient: eager gives what it
// does not select a gradient of zeros.
std::span<const Rewrite> selection_rewrites();
std::span<const Rewrite> differentiable_selection_rewrites();
// Views that move, add or drop dims of one element only. The strides of gradients tell which there were, so a
// graph that is going to be differentiated keeps them.
std::span<const Rewrite> unit_view_rewrites();

// The number that a core.full holds everywhere; nothing for other values and for symbolic numbers.
std::optional<double> constant_of(const Value* value);

// Rows indexed by the operator at their root.
class RewriteSet {
 public:
  explicit RewriteSet(std::initializer_list<std::span<const Rewrite>> tables);
  ~RewriteSet();
  // What stands for the node's result instead; null where no row applies. New nodes are appended to the
  // builder's graph.
  Value* apply(Builder& builder, Node& node) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// Offers each node, its operands replaced already, to `replacement`; a value that it returns takes the place
// of the node's first result, and nodes that it appends are moved to before the node. An output keeps its
// node where the replacement is an input or another output, and with `outputs_stay` where another call of the
// program has made it: of `x.tanh() * 1` eager's backward reads the one tensor, and the program may write to the other. Nor is
// then what another call reads (`y * y` of `y = x * 1`) replaced by an input or an output. True when something was replaced. Leaves dead nodes behind.
bool rewrite_nodes(Graph& graph, const std::function<Value*(Builder&, Node&)>& replacement,
                   bool outputs_stay = false);

}  // namespace cdynamo::graph
