// Where values live: inputs and outputs in the caller's memory, views of them as strides, the rest
// contiguous.
#include <algorithm>

#include "lowering/fusion.h"

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

bool resolve_view(const LoweringContext& context, const Value& value, Layout* layout) {
  // Axis d stands for dim d of the value; where a reshape must cut one there are no strides.
  std::vector<Index> index;
  for (size_t d = 0; d < value.type.sizes.size(); ++d)
    index.push_back(value.type.sizes[d] == Sym(1) ? constant_index(Sym()) : axis_index(static_cast<int>(d)));
  const AccessScope scope{context, value.type.sizes, nullptr};
  const Value* at = &value;
  try {
    while (at->node && is_view(context.kind(*at->node)) && context.layouts[at->id].buffer < 0) {
      const std::vector<Access> reads = accesses(*at->node, index, scope);
      if (reads.size() != 1 || !reads[0].where.empty()) return false;
      index = reads[0].index;
      at = reads[0].operand;
    }
  } catch (const SplitAxis&) {
    return false;
  } catch (const CannotFuse&) {
    return false;
  }
  const Layout& base = context.layouts[at->id];
  if (base.buffer < 0) return false;
  layout->buffer = base.buffer;
  layout->strides.assign(value.type.sizes.size(), Sym());
  layout->offset = base.offset;
  for (size_t d = 0; d < index.size(); ++d) {
    for (const IndexTerm& term : index[d].terms) {
      if (term.axis < 0) return false;
      layout->strides[term.axis] = layout->strides[term.axis] + term.stride * base.strides[d];
    }
    layout->offset = layout->offset + index[d].offset * base.strides[d];
  }
  return true;
}

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
        context.layouts[value->id] = {value->id, graph::contiguous_strides(value->type.sizes), Sym()};
  }
  return owners;
}

}  // namespace cdynamo::lowering
