// Where values live: inputs and outputs in the caller's memory, views of them as strides, the rest
// dense.
#include <algorithm>
#include <optional>

#include "graph/strides.h"
#include "lowering/fusion/fusion.h"
#include "lowering/loops/domain.h"

namespace cdynamo::lowering {
namespace {

bool is_stored_by_step(const LoweringContext& context, const Value& value) {
  return value.node && !context.is_inline(*value.node);
}

// The strides that the operand of a view must have so that the view has `strides`; none where it cannot be
// had.
bool strides_of_base(const LoweringContext& context, const Value& value, const std::vector<Sym>& strides,
                     const Value** base, std::vector<Sym>* base_strides) {
  const Value* at = &value;
  std::vector<Sym> have = strides;
  while (at->node && is_view(context.kind(*at->node))) {
    const graph::Args args = args_of(*at->node);
    const CoreKind kind = context.kind(*at->node);
    if (kind == CoreKind::kReshape) {
      if (!(have == graph::contiguous_strides(at->type.sizes))) return false;
      at = args.value("self");
      have = graph::contiguous_strides(at->type.sizes);
    } else if (kind == CoreKind::kPermute) {
      const std::vector<int64_t> dims = args.constants("dims");
      std::vector<Sym> before(have.size());
      for (size_t d = 0; d < dims.size(); ++d) before[dims[d]] = have[d];
      have = std::move(before);
      at = args.value("self");
    } else {
      return false;
    }
  }
  *base = at;
  *base_strides = std::move(have);
  return true;
}

}  // namespace

namespace {

// Which elements of `owner`'s memory a view reads, as its axes run.
struct ViewIndex {
  const Value* owner;
  std::vector<Index> index;
};

// None where the view reads of no one value at affine indices. Throws SplitAxis.
std::optional<ViewIndex> index_of_view(const LoweringContext& context, const Value& value,
                                       const Domain& domain) {
  ViewIndex view{&value, domain.index()};
  const AccessScope scope{context, domain.extents(), nullptr};
  while (view.owner->node && is_view(context.kind(*view.owner->node)) &&
         context.layouts[view.owner->id].buffer < 0) {
    std::vector<Access> reads = accesses(*view.owner->node, view.index, scope);
    if (reads.size() != 1 || !reads[0].where.empty()) return std::nullopt;
    view = {reads[0].operand, std::move(reads[0].index)};
  }
  return view;
}

// Of each dim, where the axes that it was cut into are one walk through memory.
std::optional<std::vector<Sym>> strides_of_dims(const Domain& domain, const std::vector<Sym>& axis_strides) {
  std::vector<Sym> strides;
  size_t axis = 0;
  for (const Domain::Dim& dim : domain.dims) {
    const size_t end = axis + dim.factors.size();
    for (size_t k = 0; axis + 1 < end; ++axis, ++k)
      if (!(axis_strides[axis] == axis_strides[axis + 1] * dim.factors[k + 1])) return std::nullopt;
    strides.push_back(dim.factors.empty() ? Sym() : axis_strides[axis]);
    axis = end;
  }
  return strides;
}

}  // namespace

bool resolve_view(const LoweringContext& context, const Value& value, BufferLayout* layout) {
  Domain domain(value.type.sizes);
  std::optional<ViewIndex> view;
  for (int splits = 0; !view; ++splits) {
    try {
      view = index_of_view(context, value, domain);
      if (!view) return false;
    } catch (const SplitAxis& request) {
      if (splits == kMostSplits) return false;
      domain.split(request);
    } catch (const CannotFuse&) {
      return false;
    }
  }
  const BufferLayout& owner = context.layouts[view->owner->id];
  if (owner.buffer < 0) return false;
  std::vector<Sym> axis_strides(domain.extents().size());
  Sym offset = owner.offset;
  for (size_t d = 0; d < view->index.size(); ++d) {
    for (const IndexTerm& term : view->index[d].terms) {
      if (term.axis < 0) return false;
      axis_strides[term.axis] = axis_strides[term.axis] + term.stride * owner.strides[d];
    }
    offset = offset + view->index[d].offset * owner.strides[d];
  }
  std::optional<std::vector<Sym>> strides = strides_of_dims(domain, axis_strides);
  if (!strides) return false;
  *layout = {owner.buffer, std::move(*strides), offset};
  return true;
}

namespace {

// The input whose gradient the `index`-th result of core.library_backward is.
const Value* differentiated_input(const Node& node, int index) {
  for (const Value* input : args_of(node).values("inputs"))
    if (runtime::is_float(input->type.dtype) && index-- == 0) return input;
  return nullptr;
}

// Dense, the dims in the order of `input`'s memory, as the framework's gradients mostly are.
std::vector<Sym> strides_like(const LoweringContext& context, const Value& input) {
  const std::vector<Sym> row_major = graph::contiguous_strides(input.type.sizes);
  BufferLayout layout = context.layouts[input.id];
  if (layout.buffer < 0 && !resolve_view(context, input, &layout)) return row_major;
  std::vector<size_t> order(row_major.size());
  for (size_t d = 0; d < order.size(); ++d) order[d] = order.size() - 1 - d;
  for (const Sym& stride : layout.strides)
    if (!stride.is_constant() || stride.constant() <= 0) return row_major;
  std::ranges::stable_sort(order, {}, [&](size_t d) { return layout.strides[d].constant(); });
  std::vector<Sym> strides(order.size());
  Sym next = 1;
  for (size_t d : order) {
    strides[d] = next;
    next = next * input.type.sizes[d];
  }
  return strides;
}

std::vector<Sym> strides_of_inner(const LoweringContext& context, const Value& value) {
  if (!context.channels_last.empty() && context.channels_last[value.id])
    return graph::channels_last_strides(value.type.sizes);
  static const graph::OpDef* backward = &graph::op("core.library_backward");
  const bool is_gradient = value.node && value.node->op == backward;
  const Value* input = is_gradient ? differentiated_input(*value.node, value.index) : nullptr;
  return input ? strides_like(context, *input) : graph::inner_strides(value);
}

}  // namespace

std::vector<const Value*> assign_layouts(LoweringContext& context) {
  for (const Value* input : context.graph.inputs)
    context.layouts[input->id] = {input->id, input->type.strides, Sym()};
  std::vector<const Value*> owners;
  for (const Value* output : context.graph.outputs) {
    const Value* base = nullptr;
    std::vector<Sym> strides;
    const Value* owner = nullptr;
    if (strides_of_base(context, *output, output->type.strides, &base, &strides) &&
        is_stored_by_step(context, *base) && context.layouts[base->id].buffer < 0 &&
        !context.is_empty(*output)) {
      context.layouts[base->id] = {base->id, std::move(strides), Sym()};
      owner = base;
    } else if (output->node && context.is_inline(*output->node) && context.layouts[output->id].buffer < 0) {
      context.layouts[output->id] = {output->id, output->type.strides, Sym()};  // a copy of a view
      owner = output;
    }
    owners.push_back(owner);
  }
  for (const Node* node : context.order) {
    if (context.is_inline(*node)) continue;
    for (const Value* value : node->results)
      if (context.layouts[value->id].buffer < 0)
        context.layouts[value->id] = {value->id, strides_of_inner(context, *value), Sym()};
  }
  return owners;
}

}  // namespace cdynamo::lowering
