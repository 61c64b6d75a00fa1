// Eager's rules for views, shared by the entries that are views: sizes, strides, and whether a call aliases
// its operand.
#pragma once

#include "graph/ops/entry.h"
#include "graph/strides.h"

namespace cdynamo::graph {

// The context of any symbol in the type; one of its own where all is static.
SymContext& context_of(const TensorType& type);
const TensorType& self_type(const Node& node);

// `sizes` with its -1 worked out; throws eager's RuntimeError where the elements do not fit.
std::vector<Sym> resolve_sizes(SymContext& sym, const TensorType& self, std::vector<Sym> sizes);

TensorType with_layout(const TensorType& self, std::vector<Sym> sizes, std::vector<Sym> strides);
// view: eager's strides, or its error where a copy would be needed.
TensorType view_type(SymContext& sym, const TensorType& self, std::vector<Sym> sizes);
// reshape: a view where that is possible, else a contiguous copy.
TensorType reshape_type(SymContext& sym, const TensorType& self, std::vector<Sym> sizes);
TensorType unsqueezed(const TensorType& self, int64_t dim);
TensorType without_dims(const TensorType& self,
                        const std::vector<int64_t>& dims);  // squeeze, select: dims removed
TensorType permuted(const TensorType& self, const std::vector<int64_t>& order);
TensorType expanded(SymContext& sym, const TensorType& self, std::vector<Sym> sizes);

// view(dtype): whether the elements of one dtype can be taken for those of the other, one by one (core.bitcast).
bool can_bitcast(DType from, DType to);
// What view(dtype) gives. Bytes of elements of another width lie along the last dim, which is contiguous. Throws Unsupported
// where eager refuses it, for bools, whose other bits are nobody's, and for half types.
TensorType regrouped(Graph& graph, const TensorType& self, DType dtype);
Value* with_bits_as(Builder& builder, Value* value, DType dtype);

// Aliases of what may be a view: by whether the result's layout can be had without a copy.
Alias alias_if_viewable(const Node& node);
Alias alias_always_view(const Node& node);

// Results whose pixels are moved or made anew: channels last where the operand is.
void strides_of_pixels(Graph& graph, const Args& args, std::vector<TensorType>& results);

// Python's slice bounds: clamped to 0..size, negative ones from the end.
Sym clamp_bound(SymContext& sym, const Sym& bound, const Sym& size);
// An index in -size..size-1; throws IndexError.
Sym wrap_index(SymContext& sym, const Sym& index, const Sym& size, const std::string& message);

}  // namespace cdynamo::graph
