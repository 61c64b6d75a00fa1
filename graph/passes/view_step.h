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

// Captured graphs: is it a view that `unbind` or `split` gave with others, or a view of such a one? PyTorch refuses
// writes to those where it would have to note them.
bool is_one_of_several_views(const Value* value);

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
