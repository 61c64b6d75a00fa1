// Where the elements of a view lie in the storage that it looks at, and the steps that lead from a storage's
// base tensor to a view of it. Functionalisation keeps a chain of steps for each view: applied forwards they
// derive the view's content from the storage's, applied backwards they write the view's content into the
// storage's.
#pragma once

#include <vector>

#include "graph/builder.h"

namespace cdynamo::graph {

// Elements, counted from the base tensor's first one.
struct StorageLayout {
  std::vector<Sym> sizes, strides;
  Sym offset = 0;
};

// One core view node with its operand left out.
struct ViewStep {
  const OpDef* op = nullptr;
  int overload = 0;
  std::vector<Arg> args;  // args[0] is not read
  std::vector<Sym> operand_sizes;
  std::vector<Sym> result_sizes;
};

// Captured graphs: what PyTorch's autograd knows of how a view was made. A view that is `special` is one where it refuses
// writes that it would have to note, and reads once its storage was written to.
struct ViewHistory {
  const Value* root = nullptr;  // the first tensor of the storage
  const Value* counter =
      nullptr;               // whose count of writes it shares: the root's, or that of a `.data` on the way
  bool detached = false;     // `detach`, `.data`, `from_numpy` or what is_recast() is on the way
  bool own_storage = false;  // `from_numpy` is: to PyTorch it shares its memory with no other tensor
  // Since that: a view on the way was made under no_grad (with a base that requires grad it is another leaf) ...
  bool no_grad = false;
  bool one_of_several = false;  // ... or by `unbind` or `split`, with others.
  bool special() const { return no_grad || one_of_several; }
  bool has_own_counter() const { return counter != root; }
};
ViewHistory view_history(const Value* value);
// A view of integers' bits, or as integers: to autograd it is no view.
bool is_recast(const Value& view);
// What a view is a view of: the first operand, or the one at its place where there are several (broadcast_tensors);
// null where that is no tensor.
Value* viewed_operand(const Value& view);

// One write of a captured graph, in the order of execution.
struct CapturedWrite {
  const Node* node;
  const Value* target;
};
std::vector<CapturedWrite> captured_writes(const Graph& captured);

// Core graphs: what a view looks at, null where `value` is none; and what lies beneath all views.
Value* viewed(const Value* value);
const Value* base_of(const Value* value);

// Is `op` an index map whose result may share its operand's storage?
bool is_aliasing_view(const OpDef& op);
ViewStep make_view_step(const Node& view);
// The layout after the step; false where the step needs a copy.
bool advance(SymContext& context, const ViewStep& step, StorageLayout& layout);
Value* apply(Builder& builder, const ViewStep& step, Value* operand);
// `operand` with the elements that the step selects replaced by `content`. Throws where elements are selected
// twice.
Value* scatter_back(Builder& builder, const ViewStep& step, Value* operand, Value* content);

// Equal under what is known, and under the hints with a guard where it is not known.
bool same_size(SymContext& context, const Sym& a, const Sym& b);
bool same_sizes(SymContext& context, const std::vector<Sym>& a, const std::vector<Sym>& b);

}  // namespace cdynamo::graph
