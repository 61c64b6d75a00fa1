// The passes from a captured graph to the core graph that lowering reads, one file each in graph/passes/;
// `prepare` is the pipeline.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "graph/graph.h"

namespace cdynamo::graph {

class Builder;

// How an output of the captured graph relates to storage that is there already, as in eager.
struct OutputAlias {
  enum Kind : uint8_t { kFresh, kInput, kViewOfInput, kViewOfOutput } kind = kFresh;
  int index = -1;  // kFresh: index in core->outputs; kInput, kViewOfInput: the input; kViewOfOutput: index in
                   // core->outputs
  std::vector<Sym> sizes, strides;
  Sym offset;                  // views: elements, counted from the data pointer of the input or output
  std::optional<DType> dtype;  // of a view that takes the elements for others
};

struct Prepared {
  std::unique_ptr<Graph>
      core;  // its outputs are the fresh ones only, each once; inputs are the captured graph's
  std::vector<OutputAlias> outputs;  // one for each output of the captured graph
};

// Called after each stage with its name and the graph as it stands.
using DumpFn = std::function<void(const char* stage, const Graph&)>;

// Attention that is written out by hand, on a GPU: sizes of query and key are (B, H, L, E) and (B, H, S, E).
struct AttentionShape {
  TensorType query, key;
  Sym value_size;
  bool for_training = false;
};
// Whether one call computes it faster than its products and its softmax.
using GainsByAttention = std::function<bool(const AttentionShape&)>;

// functionalize (which decomposes) -> simplify -> recognize attention -> sums over masks -> common subexpressions
// -> dead code -> verify. The result has the captured graph's inputs in the same order. `for_training`: what derivatives
// depend on stays: core.detach and its kin, views of dims of one element.
// Throws Unsupported, and UserError where eager refuses a write.
Prepared prepare(const Graph& captured, const DumpFn& dump = {}, bool for_training = false,
                 const GainsByAttention& gains = {});
// The stages after functionalize.
void optimize(Graph& core, const DumpFn& dump = {}, bool for_training = false,
              const GainsByAttention& gains = {});

// Captured graph with in-place nodes and views -> core graph without them; writes to inputs become
// Graph::mutations. Inputs are taken not to overlap each other: capture guards that.
Prepared functionalize(const Graph& captured);
// Rewrites as data: rewrites.cpp. True when something changed.
bool simplify(Graph& core, bool for_training = false);
// Appends what a captured graph without writes to its inputs computes, as core nodes; gives its outputs.
std::vector<Value*> expand_captured(Builder& builder, const Graph& captured,
                                    const std::vector<Value*>& inputs);
// matmul, scale, mask, softmax, matmul -> core.sdpa; on a GPU where `gains` says so.
bool recognize_attention(Graph& core, bool for_training = false, const GainsByAttention& gains = {});
// Sums over what a mask selects are sums over all elements, of 0 for the others.
bool sum_where_selected(Graph& core);
// Elements that a mask selects are brought together without their places.
bool compress_selected(Graph& core);
bool eliminate_common_subexpressions(Graph& core, bool for_training = false);
bool eliminate_dead_code(Graph& core, bool keep_random = true);

// core.regroup becomes shifts and conversions.
void expand_regroups(Graph& core);

// Before the first: core.copy of what no program can write to, as it is neither an input nor a result.
void remove_inner_copies(Graph& core);
// After the last differentiation: what stands for derivatives alone (core.h) has done its work.
bool remove_detach(Graph& core);
// core.function alone: its readers read what it stands for, those in `values` (results of nodes) too. Operands that
// nothing but the derivative asked for are free.
void remove_functions(Graph& core, std::vector<Value*>* values = nullptr);

// Checks every invariant of graph.h and core.h; returns what is broken, one line each (empty: sound).
std::vector<std::string> verify(const Graph& graph, bool core);

// "%add_3: f32[8, s0] = aten::add(%x, %y, alpha=1)   # model.py:12 in forward: x + y"
std::string print_readable(const Graph& graph);
std::string to_dot(const Graph& graph);

}  // namespace cdynamo::graph
