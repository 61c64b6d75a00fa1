#include "lowering/loops/access.h"

#include <algorithm>

namespace cdynamo::lowering {
namespace {

using Indices = std::vector<Index>;

Index minus(const Index& index, const Sym& offset) { return add(index, constant_index(Sym() - offset)); }

Access self_access(const graph::Args& args, Indices index) {
  return {args.value("self"), std::move(index), {}};
}

Indices expand_index(const Value& self, Indices index) {
  for (size_t d = 0; d < index.size(); ++d)
    if (self.type.sizes[d] == Sym(1)) index[d] = constant_index(Sym());
  return index;
}

Indices permute_index(const graph::Args& args, const Indices& index) {
  Indices result(index.size());
  const std::vector<int64_t> dims = args.constants("dims");
  for (size_t d = 0; d < dims.size(); ++d) result[dims[d]] = index[d];
  return result;
}

Indices slice_index(const graph::Args& args, const Indices& index) {
  Indices result;
  const std::vector<Sym> start = args.sizes("start"), step = args.sizes("step");
  for (size_t d = 0; d < index.size(); ++d)
    result.push_back(add(scale(index[d], step[d]), constant_index(start[d])));
  return result;
}

struct Diagonal {
  int64_t offset, dim1, dim2;
  explicit Diagonal(const graph::Args& args)
      : offset(args.constant("offset")), dim1(args.constant("dim1")), dim2(args.constant("dim2")) {}
  Sym row_offset() const { return Sym(std::max<int64_t>(-offset, 0)); }
  Sym column_offset() const { return Sym(std::max<int64_t>(offset, 0)); }
};

Indices diagonal_index(const graph::Args& args, const Indices& index) {
  const Diagonal diagonal(args);
  Indices result(index.size() + 1);
  size_t next = 0;
  for (int64_t d = 0; d < static_cast<int64_t>(result.size()); ++d) {
    if (d == diagonal.dim1)
      result[d] = add(index.back(), constant_index(diagonal.row_offset()));
    else if (d == diagonal.dim2)
      result[d] = add(index.back(), constant_index(diagonal.column_offset()));
    else
      result[d] = index[next++];
  }
  return result;
}

Access window_access(const graph::Args& args, const Indices& index) {
  const std::vector<int64_t> dims = args.constants("dims");
  const std::vector<Sym> stride = args.sizes("stride"), padding = args.sizes("padding"),
                         dilation = args.sizes("dilation");
  const Value* self = args.value("self");
  Access access = self_access(args, Indices(index.begin(), index.begin() + self->type.rank()));
  for (size_t k = 0; k < dims.size(); ++k) {
    const int64_t d = dims[k];
    Index& at = access.index[d];
    at = minus(add(scale(at, stride[k]), scale(index[self->type.rank() + k], dilation[k])), padding[k]);
    access.where.push_back({at, Sym(), self->type.sizes[d]});
  }
  return access;
}

Access pad_access(const graph::Args& args, const Indices& index) {
  const std::vector<Sym> low = args.sizes("low"), high = args.sizes("high");
  const Value* self = args.value("self");
  Access access = self_access(args, index);
  for (size_t d = 0; d < index.size(); ++d) {
    access.index[d] = minus(index[d], low[d]);
    if (!(low[d] == Sym()) || !(high[d] == Sym()))
      access.where.push_back({access.index[d], Sym(), self->type.sizes[d]});
  }
  return access;
}

std::vector<Access> concat_accesses(const graph::Args& args, const Indices& index) {
  const int64_t dim = args.constant("dim");
  std::vector<Access> result;
  Sym start;
  for (const Value* value : args.values("values")) {
    Access access{value, index, {}};
    access.index[dim] = minus(index[dim], start);
    access.where.push_back({access.index[dim], Sym(), value->type.sizes[dim]});
    start = start + value->type.sizes[dim];
    result.push_back(std::move(access));
  }
  return result;
}

std::vector<Access> slice_scatter_accesses(const graph::Args& args, const Indices& index,
                                           const AccessScope& scope) {
  const std::vector<Sym> start = args.sizes("start"), step = args.sizes("step");
  const Value *self = args.value("self"), *src = args.value("src");
  Access access{src, {}, {}};
  for (size_t d = 0; d < index.size(); ++d) {
    // Position along the slice times |step|.
    const int64_t stride = step[d].is_constant() ? step[d].constant() : 0;
    if (stride == 0) throw graph::Unsupported("slice_scatter with a symbolic step");
    const Index distance =
        stride > 0 ? minus(index[d], start[d]) : minus(scale(index[d], Sym(-1)), Sym() - start[d]);
    const int64_t step_size = std::abs(stride);
    const bool whole = start[d] == Sym() && stride == 1 && src->type.sizes[d] == self->type.sizes[d];
    if (!whole) access.where.push_back({distance, Sym(), src->type.sizes[d] * Sym(step_size), step_size});
    if (step_size == 1) {
      access.index.push_back(distance);
    } else {
      if (!scope.emitter) throw CannotFuse{"an index is not affine"};
      access.index.push_back(register_index(scope.emitter->div_mod(distance, Sym(step_size), std::nullopt)));
    }
  }
  return {access, {self, index, {}}};
}

std::vector<Access> diagonal_scatter_accesses(const graph::Args& args, const Indices& index) {
  const Diagonal diagonal(args);
  Access access{args.value("src"), {}, {}};
  for (int64_t d = 0; d < static_cast<int64_t>(index.size()); ++d)
    if (d != diagonal.dim1 && d != diagonal.dim2) access.index.push_back(index[d]);
  const Index row = minus(index[diagonal.dim1], diagonal.row_offset());
  const Index column = minus(index[diagonal.dim2], diagonal.column_offset());
  access.index.push_back(row);
  access.where.push_back({add(row, scale(column, Sym(-1))), Sym(), Sym(1)});
  access.where.push_back({row, Sym(), access.operand->type.sizes.back()});
  return {access, {args.value("self"), index, {}}};
}

}  // namespace

std::vector<Access> accesses(const Node& node, const Indices& index, const AccessScope& scope) {
  const graph::Args args = args_of(node);
  std::vector<Access> result;
  switch (scope.context.kind(node)) {
    case CoreKind::kFull:
    case CoreKind::kIota: return {};
    case CoreKind::kExpand: return {self_access(args, expand_index(*args.value("self"), index))};
    case CoreKind::kPermute: return {self_access(args, permute_index(args, index))};
    case CoreKind::kReshape:
      return {
          self_access(args, reshape_index(index, node.results[0]->type.sizes, args.value("self")->type.sizes,
                                          scope.extents, scope.context.sym, scope.emitter))};
    case CoreKind::kSlice: return {self_access(args, slice_index(args, index))};
    case CoreKind::kDiagonal: return {self_access(args, diagonal_index(args, index))};
    case CoreKind::kWindow: return {window_access(args, index)};
    case CoreKind::kPad: return {pad_access(args, index)};
    case CoreKind::kConcat: return concat_accesses(args, index);
    case CoreKind::kSliceScatter: return slice_scatter_accesses(args, index, scope);
    case CoreKind::kDiagonalScatter: return diagonal_scatter_accesses(args, index);
    case CoreKind::kGather: return {{args.value("index"), index, {}}};
    case CoreKind::kIndex:
      for (const Value* indices : args.values("indices"))
        result.push_back({indices, Indices(index.begin(), index.begin() + indices->type.rank()), {}});
      return result;
    case CoreKind::kPointwise:
    case CoreKind::kCast:
      graph::for_each_operand(const_cast<Node&>(node),
                              [&](Value*& value) { result.push_back({value, index, {}}); });
      return result;
    default: throw graph::InternalError("accesses: not a loop operator: " + std::string(node.op->name));
  }
}

std::vector<Index> reduction_operand_index(const Node& node, const Indices& index, const Indices& reduced) {
  const graph::Args args = args_of(node);
  const std::vector<int64_t> dims = args.constants("dims");
  Indices result;
  size_t kept = 0, gone = 0;
  for (int64_t d = 0; d < args.value("self")->type.rank(); ++d) {
    const bool is_reduced = std::find(dims.begin(), dims.end(), d) != dims.end();
    result.push_back(is_reduced ? reduced[gone++] : index[kept++]);
  }
  return result;
}

std::vector<Sym> reduced_sizes(const Node& node) {
  const graph::Args args = args_of(node);
  std::vector<Sym> sizes;
  for (int64_t d : args.constants("dims")) sizes.push_back(args.value("self")->type.sizes[d]);
  return sizes;
}

double fill_value(const Node& node) { return args_of(node).number("fill"); }

}  // namespace cdynamo::lowering
