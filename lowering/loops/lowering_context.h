// What all of lowering knows about the graph at hand: each node's kind and cost, who uses a value, where
// values live.
#pragma once

#include <vector>

#include "graph/graph.h"
#include "lowering/loops/core_kind.h"

namespace cdynamo::lowering {

using graph::DType;
using graph::Node;
using graph::Sym;
using graph::Value;

// Where a value is in memory: element i.. is at offset + sum of i*strides of the memory of value `buffer`.
struct BufferLayout {
  int buffer = -1;  // id of the value that owns the memory; -1: the value is not in memory
  std::vector<Sym> strides;
  Sym offset;
};

class Target;

struct LoweringContext {
  LoweringContext(const graph::Graph& core, const Target& target);

  const graph::Graph& graph;
  const Target& target;
  graph::SymContext& sym;
  std::vector<const Node*> order;               // the graph's nodes in order; `position` is the inverse
  std::vector<int> position;                    // by node id
  std::vector<CoreKind> kinds;                  // by node id
  std::vector<int> costs;                       // by node id: rough scalar operations of one element
  std::vector<std::vector<const Node*>> users;  // by value id; a node twice if it reads the value twice
  std::vector<char> is_output;        // by value id: written to an output or an input after the graph
  std::vector<char> repeated;         // by node id: cheap, computed again wherever it is read
  std::vector<BufferLayout> layouts;  // by value id
  // By value id, or empty (graph/passes/channels_last.h).
  std::vector<char> channels_last, turned;

  CoreKind kind(const Node& node) const { return kinds[node.id]; }
  int64_t hint(const Sym& sym_size) const {
    return sym_size.is_constant() ? sym_size.constant() : sym.hint(sym_size);
  }
  int64_t numel_hint(const Value& value) const;
  int64_t bytes_hint(const Value& value) const {
    return numel_hint(value) * runtime::bytes(value.type.dtype);
  }
  // Stored before it is read: it has another order in memory than what it is computed of.
  bool is_turned(const Value& value) const { return !turned.empty() && turned[value.id]; }
  bool is_empty(const Value& value) const;  // some size is the constant 0
  // No kernel of its own: a view, a constant, or a cheap node that is repeated at each use.
  bool is_inline(const Node& node) const { return repeated[node.id] || is_view(kind(node)); }
};

// Rough scalar operations of a pointwise operator's code: 1 for an addition, 8 and more for a transcendental
// function.
int scalar_cost(const Node& node);

}  // namespace cdynamo::lowering
