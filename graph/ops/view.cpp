// Views of one tensor: view, reshape, expand, permute, squeeze, select, slice, diagonal and their kin.
#include <algorithm>
#include <numeric>

#include "graph/ops/view_rules.h"

namespace cdynamo::graph {
namespace {

const TensorType& self_of(const Args& args) { return args.value(args.schema().params[0].name)->type; }
Tensor self_tensor(Builder& b, const Args& args) { return wrap(b, args.value(args.schema().params[0].name)); }

// ---- another shape for the same elements ----------------------------------------------------------------

std::vector<Sym> target_sizes(const Args& args) {
  if (args.schema().find("size") >= 0) return args.sizes("size");
  if (args.schema().find("shape") >= 0) return args.sizes("shape");
  return args.value("other")->type.sizes;
}

// NumPy looks past dims of size one, whose strides PyTorch goes by.
TensorType reshaped_as_numpy(Graph& graph, const TensorType& self, TensorType result) {
  if (graph.framework != Framework::kNumpy || result.sizes == self.sizes) return result;
  TensorType packed = self;
  packed.sizes.clear(), packed.strides.clear();
  for (int d = 0; d < self.rank(); ++d) {
    if (self.sizes[d].maybe_constant() == 1) continue;
    packed.sizes.push_back(self.sizes[d]);
    packed.strides.push_back(self.strides[d]);
  }
  if (packed.rank() == self.rank()) return result;
  if (packed.rank() == 0)
    result.strides.assign(result.rank(), Sym(1));
  else if (auto strides = view_strides(*graph.sym, packed, result.sizes))
    result.strides = *std::move(strides);
  return result;
}

// The same memory, other elements.
TensorType type_of_bits(Graph& graph, const Args& args) {
  const Value* self = args.value("self");
  const DType dtype = *args.dtype("dtype");
  if (self->requires_grad) throw Unsupported("view() as another dtype of what requires grad");
  return dtype == self->type.dtype ? self->type : regrouped(graph, self->type, dtype);
}

std::vector<TensorType> infer_view(Graph& graph, const Args& args) {
  if (args.has("dtype")) return {type_of_bits(graph, args)};
  const TensorType& self = self_of(args);
  return {reshaped_as_numpy(graph, self, view_type(*graph.sym, self, target_sizes(args)))};
}
std::vector<TensorType> infer_reshape(Graph& graph, const Args& args) {
  const TensorType& self = self_of(args);
  return {reshaped_as_numpy(graph, self, reshape_type(*graph.sym, self, target_sizes(args)))};
}
std::vector<Value*> reshape_body(Builder& b, const Args& args) {
  if (args.has("dtype")) {
    Value* self = args.value("self");
    return {with_bits_as(b, self, *args.dtype("dtype"))};
  }
  return one(reshape(self_tensor(b, args), resolve_sizes(b.sym(), self_of(args), target_sizes(args))));
}

std::vector<Sym> flattened(const Args& args) {
  const TensorType& self = self_of(args);
  int64_t start = 0, end = -1;
  if (args.schema().find("start_dim") >= 0)
    start = args.constant("start_dim"), end = args.constant("end_dim");
  start = wrap_dim(start, self.rank());
  end = wrap_dim(end, self.rank());
  if (start > end) runtime_error("flatten() has invalid args: start_dim cannot come after end_dim");
  if (self.rank() == 0) return {1};
  std::vector<Sym> sizes(self.sizes.begin(), self.sizes.begin() + start);
  Sym merged = 1;
  for (int64_t d = start; d <= end; ++d) merged = merged * self.sizes[d];
  sizes.push_back(merged);
  sizes.insert(sizes.end(), self.sizes.begin() + end + 1, self.sizes.end());
  return sizes;
}

std::vector<TensorType> infer_flatten(Graph& graph, const Args& args) {
  std::vector<Sym> sizes = flattened(args);
  if (sizes.size() == self_of(args).sizes.size()) return {self_of(args)};
  return {reshape_type(*graph.sym, self_of(args), std::move(sizes))};
}
std::vector<Value*> flatten_body(Builder& b, const Args& args) {
  return one(reshape(self_tensor(b, args), flattened(args)));
}
Alias flatten_alias(const Node& node) {
  if (self_type(node).rank() == node.results[0]->type.rank()) return Alias::kSelf;
  return alias_if_viewable(node);
}

// ravel gives a contiguous tensor: a copy where the strides are not row-major, even in one dim; else a view, even of one dim.
std::vector<TensorType> infer_ravel(Graph& graph, const Args& args) {
  TensorType type = self_of(args);
  const std::vector<Sym> sizes = {type.numel()};
  // One element, or none, is contiguous with any stride, and keeps it.
  auto seen = is_contiguous(*graph.sym, type) ? view_strides(*graph.sym, type, sizes) : std::nullopt;
  type.sizes = sizes;
  type.strides = seen.value_or(std::vector<Sym>{1});
  return {type};
}
Alias ravel_alias(const Node& node) {
  const TensorType& self = self_type(node);
  return is_contiguous(context_of(self), self) ? Alias::kView : Alias::kNone;
}

std::vector<Sym> unflattened(Graph& graph, const Args& args) {
  const TensorType& self = self_of(args);
  int64_t dim = wrap_dim(args.constant("dim"), self.rank());
  TensorType part = self;
  part.sizes = {self.sizes.at(dim)};
  std::vector<Sym> inner = args.sizes("sizes");
  if (inner.empty()) runtime_error("unflatten: sizes must be non-empty");
  inner = resolve_sizes(*graph.sym, part, std::move(inner));
  std::vector<Sym> sizes(self.sizes.begin(), self.sizes.begin() + dim);
  sizes.insert(sizes.end(), inner.begin(), inner.end());
  sizes.insert(sizes.end(), self.sizes.begin() + dim + 1, self.sizes.end());
  return sizes;
}
std::vector<TensorType> infer_unflatten(Graph& graph, const Args& args) {
  return {view_type(*graph.sym, self_of(args), unflattened(graph, args))};
}

// ---- dims in another order ------------------------------------------------------------------------------

using OrderFn = Dims (*)(const Args&);

Dims identity_order(int64_t rank) {
  Dims order(rank);
  std::iota(order.begin(), order.end(), 0);
  return order;
}
Dims swapped(int64_t rank, int64_t a, int64_t b) {
  a = wrap_dim(a, rank);
  b = wrap_dim(b, rank);
  Dims order = identity_order(rank);
  if (rank > 0) std::swap(order[a], order[b]);
  return order;
}

Dims permute_order(const Args& args) {
  int64_t rank = self_of(args).rank();
  Dims dims = args.constants("dims");
  if (static_cast<int64_t>(dims.size()) != rank)
    runtime_error(
        "permute(sparse_coo): number of dimensions in the tensor input does not match the length of the "
        "desired "
        "ordering of dimensions i.e. input.dim() = " +
        std::to_string(rank) + " is not equal to len(dims) = " + std::to_string(dims.size()));
  std::vector<bool> seen(rank, false);
  for (int64_t& dim : dims) {
    dim = wrap_dim(dim, rank);
    if (seen[dim]) runtime_error("permute(): duplicate dims are not allowed.");
    seen[dim] = true;
  }
  return dims;
}
Dims transpose_order(const Args& args) {
  const Schema& schema = args.schema();
  return swapped(self_of(args).rank(), args.constant(schema.params[1].name),
                 args.constant(schema.params[2].name));
}
Dims t_order(const Args& args) {
  int64_t rank = self_of(args).rank();
  if (rank > 2)
    runtime_error("t() expects a tensor with <= 2 dimensions, but self is " + std::to_string(rank) + "D");
  return rank == 2 ? Dims{1, 0} : identity_order(rank);
}
Dims matrix_order(const Args& args) {
  int64_t rank = self_of(args).rank();
  if (rank < 2)
    runtime_error("tensor.mT is only supported on matrices or batches of matrices. Got " +
                  std::to_string(rank) + "-D tensor.");
  return swapped(rank, -2, -1);
}
Dims moved_order(const Args& args) {
  int64_t rank = self_of(args).rank();
  Dims source = args.constants("source"), destination = args.constants("destination");
  if (source.size() != destination.size()) runtime_error("movedim: Invalid source or destination dims");
  Dims order(rank, -1);
  std::vector<bool> used(rank, false);
  for (size_t i = 0; i < source.size(); ++i) {
    int64_t from = wrap_dim(source[i], rank), to = wrap_dim(destination[i], rank);
    if (rank == 0) continue;
    if (used[from] || order[to] >= 0) runtime_error("movedim: repeated dim in source or destination");
    order[to] = from;
    used[from] = true;
  }
  int64_t next = 0;
  for (int64_t& dim : order) {
    if (dim >= 0) continue;
    while (used[next]) ++next;
    dim = next++;
  }
  return order;
}

template <OrderFn order>
std::vector<TensorType> infer_order(Graph&, const Args& args) {
  return {permuted(self_of(args), order(args))};
}
template <OrderFn order>
std::vector<Value*> order_body(Builder& b, const Args& args) {
  return one(permute(self_tensor(b, args), order(args)));
}

template <OrderFn order>
OpDef reordering(std::string_view name, std::vector<std::string_view> schemas,
                 std::vector<std::string_view> torch_names = {},
                 std::vector<std::string_view> numpy_names = {}) {
  return {.name = name,
          .family = Family::kComposite,
          .schemas = std::move(schemas),
          .torch_names = std::move(torch_names),
          .numpy_names = std::move(numpy_names),
          .body = order_body<order>,
          .infer = infer_order<order>,
          .in_place_variant = false,
          .view = true};
}

// ---- dims of size 1 -------------------------------------------------------------------------------------

Dims squeezed_dims(Graph& graph, const Args& args) {
  const TensorType& self = self_of(args);
  Dims candidates;
  if (args.schema().find("dim") < 0)
    candidates = identity_order(self.rank());
  else
    candidates = wrap_dims(args.constants("dim"), self.rank(), false);
  Dims dims;
  for (int64_t dim : candidates)
    if (graph.sym->guard_eq(self.sizes[dim], 1, "squeeze")) dims.push_back(dim);
  return dims;
}
std::vector<TensorType> infer_squeeze(Graph& graph, const Args& args) {
  return {without_dims(self_of(args), squeezed_dims(graph, args))};
}
std::vector<Value*> squeeze_body(Builder& b, const Args& args) {
  Tensor self = self_tensor(b, args);
  return one(reshape(self, without_dims(self.type(), squeezed_dims(b.graph(), args)).sizes));
}

std::vector<TensorType> infer_unsqueeze(Graph&, const Args& args) {
  return {unsqueezed(self_of(args), args.constant("dim"))};
}
std::vector<Value*> unsqueeze_body(Builder& b, const Args& args) {
  return one(unsqueeze(self_tensor(b, args), args.constant("dim")));
}

// ---- expand ---------------------------------------------------------------------------------------------

std::vector<TensorType> infer_expand(Graph& graph, const Args& args) {
  return {expanded(*graph.sym, self_of(args), target_sizes(args))};
}
std::vector<Value*> expand_body(Builder& b, const Args& args) {
  Tensor self = self_tensor(b, args);
  return one(expand(self, expanded(b.sym(), self.type(), target_sizes(args)).sizes));
}

// ---- parts ----------------------------------------------------------------------------------------------

struct Range {
  int64_t dim;
  Sym start, size, step = 1;
};

Range select_range(Graph& graph, const Args& args) {
  const TensorType& self = self_of(args);
  if (self.rank() == 0) index_error("select() cannot be applied to a 0-dim tensor.");
  int64_t dim = wrap_dim(args.constant("dim"), self.rank());
  Sym index = args.integer("index");
  std::string message = "select(): index " + std::to_string(graph.sym->hint(index)) +
                        " out of range for tensor of size " + sizes_text(self.sizes) + " at dimension " +
                        std::to_string(dim);
  return {dim, wrap_index(*graph.sym, index, self.sizes[dim], message), 1};
}

Range slice_range(Graph& graph, const Args& args) {
  const TensorType& self = self_of(args);
  if (self.rank() == 0) runtime_error("slice() cannot be applied to a 0-dim tensor.");
  int64_t dim = wrap_dim(args.constant("dim"), self.rank());
  SymContext& sym = *graph.sym;
  Sym step = args.integer("step");
  if (!sym.guard(Relation::kLt, 0, step, "slice")) runtime_error("slice step must be positive");
  Sym start = clamp_bound(sym, args.has("start") ? args.integer("start") : Sym(0), self.sizes[dim]);
  Sym end = clamp_bound(sym, args.has("end") ? args.integer("end") : self.sizes[dim], self.sizes[dim]);
  if (sym.reads_data(end - start))
    end = max(end, start);
  else if (sym.guard(Relation::kLt, end, start, "slice"))
    end = start;
  return {dim, start, floordiv(end - start + step - 1, step), step};
}

Range narrow_range(Graph& graph, const Args& args) {
  const TensorType& self = self_of(args);
  if (self.rank() == 0) runtime_error("narrow() cannot be applied to a 0-dim tensor.");
  int64_t dim = wrap_dim(args.constant("dim"), self.rank());
  SymContext& sym = *graph.sym;
  Sym start = args.integer("start"), length = args.integer("length");
  if (sym.reads_data(start)) sym.require(Relation::kLe, 0, start, "narrow");
  if (sym.reads_data(start + length)) sym.require(Relation::kLe, start + length, self.sizes[dim], "narrow");
  if (sym.guard(Relation::kLt, length, 0, "narrow")) runtime_error("narrow(): length must be non-negative.");
  if (sym.guard(Relation::kLt, start, 0 - self.sizes[dim], "narrow") ||
      sym.guard(Relation::kLt, self.sizes[dim], start, "narrow"))
    index_error("start out of range");
  if (sym.guard(Relation::kLt, start, 0, "narrow")) start = start + self.sizes[dim];
  if (sym.guard(Relation::kLt, self.sizes[dim], start + length, "narrow"))
    runtime_error("start + length exceeds dimension size");
  return {dim, start, length};
}

TensorType ranged(const TensorType& self, const Range& range) {
  TensorType type = self;
  type.sizes[range.dim] = range.size;
  type.strides[range.dim] = type.strides[range.dim] * range.step;
  return type;
}

template <Range (*range)(Graph&, const Args&)>
std::vector<TensorType> infer_range(Graph& graph, const Args& args) {
  return {ranged(self_of(args), range(graph, args))};
}
template <Range (*range)(Graph&, const Args&)>
std::vector<Value*> range_body(Builder& b, const Args& args) {
  Range r = range(b.graph(), args);
  return one(slice(self_tensor(b, args), r.dim, r.start, r.size, r.step));
}
std::vector<TensorType> infer_select(Graph& graph, const Args& args) {
  return {without_dims(self_of(args), {select_range(graph, args).dim})};
}
std::vector<Value*> select_body(Builder& b, const Args& args) {
  Range r = select_range(b.graph(), args);
  return one(select(self_tensor(b, args), r.dim, r.start));
}

std::vector<Value*> diagonal_body(Builder& b, const Args& args) {
  Tensor self = self_tensor(b, args);
  int64_t dim1 = wrap_dim(args.constant("dim1"), self.rank()),
          dim2 = wrap_dim(args.constant("dim2"), self.rank());
  if (dim1 == dim2 || self.rank() < 2)
    runtime_error("diagonal dimensions cannot be identical " + std::to_string(dim1) + ", " +
                  std::to_string(dim2));
  return forward(b, "core.diagonal", {self.value, Sym(args.constant("offset")), Sym(dim1), Sym(dim2)});
}

// Tensor.unfold: windows along one dim as a new last dim.
struct Unfold {
  int64_t dim;
  Sym count, size, step;
};
Unfold unfold_of(Graph& graph, const Args& args) {
  const TensorType& self = self_of(args);
  Unfold u{wrap_dim(args.constant("dimension"), self.rank()), 0, args.integer("size"), args.integer("step")};
  Sym extent = self.rank() == 0 ? Sym(1) : self.sizes[u.dim];
  if (graph.sym->guard(Relation::kLt, u.size, 0, "unfold"))
    runtime_error("size is " + u.size.str() + " but must be >= 0");
  if (graph.sym->guard(Relation::kLt, extent, u.size, "unfold"))
    runtime_error("maximum size for tensor at dimension is too small");
  if (!graph.sym->guard(Relation::kLt, 0, u.step, "unfold")) runtime_error("step must be > 0");
  u.count = floordiv(extent - u.size, u.step) + 1;
  return u;
}
std::vector<TensorType> infer_unfold(Graph& graph, const Args& args) {
  const TensorType& self = self_of(args);
  Unfold u = unfold_of(graph, args);
  TensorType type = self;
  if (self.rank() == 0) return {with_layout(self, {u.size}, {1})};
  type.sizes[u.dim] = u.count;
  type.strides[u.dim] = self.strides[u.dim] * u.step;
  type.sizes.push_back(u.size);
  type.strides.push_back(self.strides[u.dim]);
  return {type};
}
std::vector<Value*> unfold_body(Builder& b, const Args& args) {
  Tensor self = self_tensor(b, args);
  Unfold u = unfold_of(b.graph(), args);
  if (self.rank() == 0) return one(reshape(self, {u.size}));
  auto list = [](Sym s) { return std::vector<Sym>{s}; };
  return forward(
      b, "core.window",
      {self.value, list(u.dim), list(u.size), list(u.step), list(0), list(1), list(u.count), Sym(0)});
}

// ---- the operand itself ---------------------------------------------------------------------------------

std::vector<TensorType> infer_self(Graph&, const Args& args) { return {self_of(args)}; }
std::vector<Value*> self_body(Builder&, const Args& args) {
  return {args.value(args.schema().params[0].name)};
}

OpDef view(std::string_view name, std::vector<std::string_view> schemas, BodyFn body, InferFn infer,
           std::vector<std::string_view> torch_names = {}, std::vector<std::string_view> numpy_names = {}) {
  return {.name = name,
          .family = Family::kComposite,
          .schemas = std::move(schemas),
          .torch_names = std::move(torch_names),
          .numpy_names = std::move(numpy_names),
          .body = body,
          .infer = infer,
          .in_place_variant = false,
          .view = true};
}

OpDef maybe_view(std::string_view name, std::vector<std::string_view> schemas, BodyFn body, InferFn infer,
                 AliasFn alias, std::vector<std::string_view> torch_names = {},
                 std::vector<std::string_view> numpy_names = {}) {
  OpDef op = view(name, std::move(schemas), body, infer, std::move(torch_names), std::move(numpy_names));
  op.view = false;
  op.alias = alias;
  return op;
}

std::vector<OpDef> shapes() {
  return {
      view("view",
           {"view(Tensor self, int[] size) -> Tensor", "view.dtype(Tensor self, ScalarType dtype) -> Tensor"},
           reshape_body, infer_view),
      view("view_as", {"view_as(Tensor self, Tensor other) -> Tensor"}, reshape_body, infer_view),
      maybe_view("reshape", {"reshape(Tensor self, int[] shape) -> Tensor"}, reshape_body, infer_reshape,
                 alias_if_viewable),
      maybe_view("reshape_as", {"reshape_as(Tensor self, Tensor other) -> Tensor"}, reshape_body,
                 infer_reshape, alias_if_viewable),
      maybe_view("flatten", {"flatten.using_ints(Tensor self, int start_dim=0, int end_dim=-1) -> Tensor"},
                 flatten_body, infer_flatten, flatten_alias),
      maybe_view("ravel", {"ravel(Tensor self) -> Tensor"}, flatten_body, infer_ravel, ravel_alias),
      view("unflatten", {"unflatten.int(Tensor self, int dim, int[] sizes) -> Tensor"},
           CDYNAMO_BODY(return one(reshape(self_tensor(b, args), unflattened(b.graph(), args)))),
           infer_unflatten),
      view("squeeze",
           {"squeeze(Tensor self) -> Tensor", "squeeze.dim(Tensor self, int dim) -> Tensor",
            "squeeze.dims(Tensor self, int[] dim) -> Tensor"},
           squeeze_body, infer_squeeze),
      view("unsqueeze", {"unsqueeze(Tensor self, int dim) -> Tensor"}, unsqueeze_body, infer_unsqueeze),
      view("expand", {"expand(Tensor self, int[] size, *, bool implicit=False) -> Tensor"}, expand_body,
           infer_expand),
      view("expand_as", {"expand_as(Tensor self, Tensor other) -> Tensor"}, expand_body, infer_expand),
      view("broadcast_to", {"broadcast_to(Tensor self, int[] size) -> Tensor"}, expand_body, infer_expand),
      view("detach", {"detach(Tensor self) -> Tensor"},
           CDYNAMO_BODY(return one(detach(self_tensor(b, args)))), infer_self),
      // Counts its writes for itself, where what `detach` gives shares the count of its tensor.
      view("data", {"data(Tensor self) -> Tensor"}, CDYNAMO_BODY(return one(detach(self_tensor(b, args)))),
           infer_self),
      // PyTorch knows nothing of what else is in its memory.
      view("from_numpy", {"from_numpy(Tensor self) -> Tensor"},
           CDYNAMO_BODY(return one(detach(self_tensor(b, args)))), infer_self),
      view("alias", {"alias(Tensor self) -> Tensor"}, self_body, infer_self),
  };
}

std::vector<OpDef> orders() {
  return {
      reordering<permute_order>("permute", {"permute(Tensor self, int[] dims) -> Tensor"}),
      reordering<transpose_order>("transpose", {"transpose.int(Tensor self, int dim0, int dim1) -> Tensor"},
                                  {"torch.swapdims", "torch.Tensor.swapdims"}),
      reordering<transpose_order>("swapaxes", {"swapaxes(Tensor self, int axis0, int axis1) -> Tensor"}),
      reordering<t_order>("t", {"t(Tensor self) -> Tensor"}),
      reordering<matrix_order>(
          "mT", {"mT(Tensor self) -> Tensor"},
          {"torch.Tensor.mT", "torch.Tensor.mH", "torch.adjoint", "torch.Tensor.adjoint"}),
      reordering<moved_order>("movedim",
                              {"movedim.int(Tensor self, int source, int destination) -> Tensor",
                               "movedim.intlist(Tensor self, int[] source, int[] destination) -> Tensor"},
                              {"torch.moveaxis", "torch.Tensor.moveaxis"}),
  };
}

std::vector<OpDef> parts() {
  return {
      view("select", {"select.int(Tensor self, int dim, int index) -> Tensor"}, select_body, infer_select),
      view("slice",
           {"slice.Tensor(Tensor self, int dim=0, int? start=None, int? end=None, int step=1) -> Tensor"},
           range_body<slice_range>, infer_range<slice_range>),
      view("narrow", {"narrow(Tensor self, int dim, int start, int length) -> Tensor"},
           range_body<narrow_range>, infer_range<narrow_range>),
      {.name = "diagonal",
       .family = Family::kComposite,
       .schemas = {"diagonal(Tensor self, int offset=0, int dim1=0, int dim2=1) -> Tensor"},
       .body = diagonal_body,
       .in_place_variant = false,
       .view = true},
      {.name = "linalg_diagonal",
       .family = Family::kComposite,
       .schemas = {"linalg_diagonal(Tensor A, *, int offset=0, int dim1=-2, int dim2=-1) -> Tensor"},
       .torch_names = {"torch.linalg.diagonal"},
       .body = diagonal_body,
       .in_place_variant = false,
       .view = true},
      view("unfold", {"unfold(Tensor self, int dimension, int size, int step) -> Tensor"}, unfold_body,
           infer_unfold),
  };
}

}  // namespace

std::vector<OpDef> view_ops() {
  std::vector<OpDef> ops = shapes();
  for (auto part : {orders, parts})
    for (OpDef& op : part()) ops.push_back(std::move(op));
  return ops;
}

}  // namespace cdynamo::graph
