// What passes that put nodes into the middle of a graph do alike.
#pragma once

#include <iterator>
#include <list>
#include <memory>

#include "graph/op.h"

namespace cdynamo::graph {

using Position = std::list<std::unique_ptr<Node>>::iterator;

inline Args args_of(const Node& node) { return Args(node.op->parsed[node.overload], node.args); }
inline CoreKind kind_of(const Node& node) { return node.op->core.kind; }
inline bool is(const Value* value, std::string_view name) {
  return value && value->node && value->node->op->name == name;
}
inline Value* operand(const Value* value, int index) { return std::get<Value*>(value->node->args[index]); }

// What `make` appends goes to before `at`; gives what it gives.
template <typename F>
Value* insert_before(Graph& graph, Position at, F&& make) {
  const bool empty = graph.nodes.empty();
  const auto last = empty ? graph.nodes.end() : std::prev(graph.nodes.end());
  Value* value = make();
  const auto first = empty ? graph.nodes.begin() : std::next(last);
  graph.nodes.splice(at, graph.nodes, first, graph.nodes.end());
  return value;
}

// From `first` on, but not in `but`; outputs and mutations too.
inline void replace_uses(Graph& graph, const Value* old, Value* by, Position first,
                         const Node* but = nullptr) {
  const auto swap = [&](Value*& value) {
    if (value == old) value = by;
  };
  for (auto at = first; at != graph.nodes.end(); ++at)
    if (at->get() != but) for_each_operand(**at, swap);
  for (Value*& output : graph.outputs) swap(output);
  for (Graph::Mutation& mutation : graph.mutations) swap(mutation.value);
}

}  // namespace cdynamo::graph
