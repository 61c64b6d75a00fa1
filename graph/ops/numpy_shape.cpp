// NumPy's views, joins and indexing: its signatures over the operators that PyTorch's names have.
#include <algorithm>

#include "graph/ops/numpy_rules.h"
#include "graph/ops/view_rules.h"

namespace cdynamo::graph {
namespace {

Tensor first(Builder& b, const Args& args) { return operand(b, args, args.schema().params[0].name); }

std::vector<Sym> list(const Dims& dims) { return std::vector<Sym>(dims.begin(), dims.end()); }

// ---- views ----------------------------------------------------------------------------------------------

std::vector<Value*> expand_dims_body(Builder& b, const Args& args) {
  Tensor a = first(b, args);
  Dims axes = args.constants("axis");
  int64_t rank = a.rank() + static_cast<int64_t>(axes.size());
  axes = wrap_dims(axes, rank, false);
  // By reshape, which gives dims of size one other strides than unsqueeze does.
  std::vector<Sym> sizes(rank, Sym(1));
  for (int64_t d = 0, from = 0; d < rank; ++d)
    if (std::ranges::find(axes, d) == axes.end()) sizes[d] = a.size(from++);
  return forward(b, "view", {a.value, std::move(sizes)});
}
std::vector<Value*> squeeze_body(Builder& b, const Args& args) {
  Tensor a = first(b, args);
  const OpDef& squeeze = op("squeeze");
  if (!args.has("axis")) return b.call(squeeze, 0, {a.value});
  Dims axes = wrap_dims(args.constants("axis"), a.rank(), false);
  for (int64_t axis : axes)
    if (!b.sym().guard_eq(a.size(axis), 1, "squeeze"))
      value_error("cannot select an axis to squeeze out which has size not equal to one");
  return b.call(squeeze, 2, {a.value, list(axes)});
}
std::vector<Value*> flip_body(Builder& b, const Args& args) {
  Tensor a = first(b, args);
  if (a.rank() == 0 && args.has("axis") && !args.constants("axis").empty())
    index_error("axis is out of bounds for array of dimension 0");
  Dims axes = args.has("axis") ? wrap_dims(args.constants("axis"), a.rank(), false) : wrap_dims({}, a.rank());
  return one(flip(a, axes));
}
template <int64_t axis>
std::vector<Value*> flip_along(Builder& b, const Args& args) {
  Tensor a = first(b, args);
  if (a.rank() <= axis) value_error("Input must be >= " + std::to_string(axis + 1) + "-d.");
  return one(flip(a, {axis}));
}
std::vector<Value*> rot90_body(Builder& b, const Args& args) {
  Tensor m = first(b, args);
  Dims axes = args.constants("axes");
  if (axes.size() != 2) value_error("len(axes) must be 2.");
  wrap_dims(axes, m.rank(), false);  // which are in range and two; their order is the direction
  for (int64_t& axis : axes) axis = wrap_dim(axis, m.rank(), false);
  switch (((args.constant("k") % 4) + 4) % 4) {
    case 1: return one(transpose(flip(m, {axes[1]}), axes[0], axes[1]));
    case 2: return one(flip(m, axes));
    case 3: return one(flip(transpose(m, axes[0], axes[1]), {axes[1]}));
    default: return forward(b, "alias", {m.value});
  }
}
template <int rank>
Tensor at_least(Builder& b, Tensor a) {
  auto add = [&](int64_t dim) { a = wrap(b, b.call1("unsqueeze", {a.value, Sym(dim)})); };
  if (a.rank() == 0) add(0);
  if (rank >= 2 && a.rank() == 1) add(0);
  if (rank == 3 && a.rank() == 2) add(2);
  return a;
}
template <int rank>
std::vector<Value*> at_least_body(Builder& b, const Args& args) {
  return one(at_least<rank>(b, first(b, args)));
}
Alias at_least_alias(const Node& node) {
  return self_type(node).rank() == node.results[0]->type.rank() ? Alias::kSelf : Alias::kView;
}

std::vector<Value*> split_body(Builder& b, const Args& args) {
  Tensor a = first(b, args);
  const int64_t given = args.constant("axis"), rank = a.rank();
  if (given < -rank || given >= rank) index_error("tuple index out of range");
  int64_t axis = wrap_dim(given, rank);
  if (args.schema().find("sections") >= 0) {
    int64_t sections = args.constant("sections");
    if (sections <= 0) value_error("number sections must be larger than 0.");
    if (args.schema().name == "np.split" && !b.sym().guard_eq(mod(a.size(axis), sections), 0, "split"))
      value_error("array split does not result in an equal division");
    return b.call(op("tensor_split"), 0, {a.value, Sym(sections), Sym(axis)});
  }
  return b.call(op("tensor_split"), 1, {a.value, args["indices"], Sym(axis)});
}

// ---- joins ----------------------------------------------------------------------------------------------

std::vector<Value*> concatenate_body(Builder& b, const Args& args) {
  std::vector<Value*> values = args.values("arrays");
  if (values.empty()) value_error("need at least one array to concatenate");
  if (args.has("axis")) return forward(b, "cat", {values, args["axis"]});
  for (Value*& value : values) value = reshape(wrap(b, value), {value->type.numel()}).value;
  return forward(b, "cat", {values, Sym(0)});
}
std::vector<Value*> stack_body(Builder& b, const Args& args) {
  std::vector<Value*> values = args.values("arrays");
  if (values.empty()) value_error("need at least one array to stack");
  int64_t rank = values[0]->type.rank() + 1, axis = wrap_dim(args.constant("axis"), rank);
  for (Value*& value : values) {
    if (value->type.rank() + 1 != rank) value_error("all input arrays must have the same shape");
    value = unsqueeze(wrap(b, value), axis).value;
  }
  return forward(b, "cat", {values, Sym(axis)});
}
// vstack, hstack, dstack: arrays of at least `rank` dims, joined along `axis` (hstack: 1-d arrays along their own).
template <int rank, int64_t axis>
std::vector<Value*> stacked(Builder& b, const Args& args) {
  std::vector<Value*> values = args.values("tup");
  if (values.empty()) value_error("need at least one array to concatenate");
  for (Value*& value : values) value = at_least<rank>(b, wrap(b, value)).value;
  return forward(b, "cat", {values, Sym(rank == 1 && values[0]->type.rank() == 1 ? 0 : axis)});
}
std::vector<Value*> column_stack_body(Builder& b, const Args& args) {
  std::vector<Value*> values = args.values("tup");
  if (values.empty()) value_error("need at least one array to concatenate");
  for (Value*& value : values)
    if (value->type.rank() < 2) value = unsqueeze(at_least<1>(b, wrap(b, value)), 1).value;
  return forward(b, "cat", {values, Sym(1)});
}

std::vector<Value*> tile_body(Builder& b, const Args& args) {
  return forward(b, "tile", {args["A"], args.sizes("reps")});
}
std::vector<Value*> repeat_body(Builder& b, const Args& args) {
  return forward(b, "repeat_interleave", {args["a"], args["repeats"], args["axis"]});
}
std::vector<Value*> roll_body(Builder& b, const Args& args) {
  Tensor a = first(b, args);
  std::vector<Sym> shift = args.sizes("shift");
  if (!args.has("axis")) {
    if (shift.size() != 1) throw Unsupported("roll with several shifts and no axis");
    return forward(b, "roll", {a.value, shift, std::vector<Sym>{}});
  }
  std::vector<Sym> axes = args.sizes("axis");
  size_t count = std::max(shift.size(), axes.size());
  if (shift.size() == 1) shift.assign(count, shift[0]);
  if (axes.size() == 1) axes.assign(count, axes[0]);
  return forward(b, "roll", {a.value, shift, axes});
}

// One width for all sides, or (before, after) for all axes.
std::vector<Value*> pad_body(Builder& b, const Args& args) {
  Tensor a = first(b, args);
  std::vector<Sym> width = args.sizes("pad_width");
  if (width.size() != 1 && width.size() != 2) throw Unsupported("pad with widths for each axis");
  for (const Sym& sym : width)
    if (b.sym().guard(Relation::kLt, sym, 0, "pad")) value_error("index can't contain negative values");
  std::string_view mode = args.string("mode");
  std::vector<Sym> low(a.rank(), width.front()), high(a.rank(), width.back());
  if (mode == "constant") return one(pad(a, low, high, args["constant_values"]));
  throw Unsupported("pad with mode " + std::string(mode));
}

// ---- parts ----------------------------------------------------------------------------------------------

std::vector<Value*> take_body(Builder& b, const Args& args) {
  Tensor a = first(b, args);
  const Arg& given = args["indices"];
  bool number = !std::holds_alternative<Value*>(given);
  Tensor indices =
      number ? full(b, {}, given, DType::kI64) : cast(wrap(b, std::get<Value*>(given)), DType::kI64);
  if (!number && !is_integer(std::get<Value*>(given)->type.dtype))
    type_error("Cannot cast array data to dtype('int64') according to the rule 'safe'");
  int64_t axis = 0;
  if (args.has("axis"))
    axis = wrap_dim(args.constant("axis"), a.rank());
  else
    a = reshape(a, {a.type().numel()});
  std::vector<Value*> selection(static_cast<size_t>(axis), nullptr);
  selection.push_back(indices.value);
  return forward(b, "index", {a.value, selection});
}
std::vector<Value*> take_along_axis_body(Builder& b, const Args& args) {
  Arg axis = args.has("axis") ? args["axis"] : Arg();
  Tensor indices = operand(b, args, "indices");
  if (!is_integer(indices.dtype())) index_error("`indices` must be an integer array");
  return forward(b, "take_along_dim", {args["arr"], cast(indices, DType::kI64).value, axis});
}
std::vector<Value*> diagonal_body(Builder& b, const Args& args) {
  return forward(b, "diagonal", {args["a"], args["offset"], args["axis1"], args["axis2"]});
}
std::vector<Value*> tril_body(Builder& b, const Args& args) {
  return forward(b, "tril", {args["m"], args["k"]});
}
std::vector<Value*> triu_body(Builder& b, const Args& args) {
  return forward(b, "triu", {args["m"], args["k"]});
}
std::vector<Value*> diag_body(Builder& b, const Args& args) {
  if (args.value("v")->type.rank() == 2)
    return forward(b, "diagonal", {args["v"], args["k"], Sym(0), Sym(1)});
  return forward(b, "diag", {args["v"], args["k"]});
}
std::vector<Value*> broadcast_to_body(Builder& b, const Args& args) {
  for (const Sym& size : args.sizes("shape"))
    if (b.sym().guard(Relation::kLt, size, 0, "broadcast_to"))
      value_error("all elements of broadcast shape must be non-negative");
  return forward(b, "broadcast_to", {args["array"], args.sizes("shape")});
}
std::vector<Value*> swapaxes_body(Builder& b, const Args& args) {
  for (const char* axis : {"axis1", "axis2"}) wrap_dim(args.constant(axis), first(b, args).rank(), false);
  return forward(b, "swapaxes", {args["a"], args["axis1"], args["axis2"]});
}
std::vector<Value*> moveaxis_body(Builder& b, const Args& args) {
  for (const char* axes : {"source", "destination"})
    for (int64_t axis : args.constants(axes)) wrap_dim(axis, first(b, args).rank(), false);
  return b.call(op("movedim"), 1, {args["a"], args.sizes("source"), args.sizes("destination")});
}
std::vector<Value*> full_like_body(Builder& b, const Args& args) {
  return forward(b, "full_like", {args["a"], args["fill_value"], args["dtype"], Arg(), Arg(), Arg(), Arg()});
}

OpDef view(std::string_view name, std::vector<std::string_view> schemas, BodyFn body,
           std::vector<std::string_view> more_names = {}, StridesFn strides = nullptr) {
  OpDef op = numpy_function(name, std::move(schemas), body, std::move(more_names), strides);
  op.view = true;
  return op;
}
OpDef maybe_view(std::string_view name, std::vector<std::string_view> schemas, BodyFn body, AliasFn alias,
                 StridesFn strides = nullptr) {
  OpDef op = numpy_function(name, std::move(schemas), body, {}, strides);
  op.alias = alias;
  return op;
}
OpDef copy_of(std::string_view name, std::vector<std::string_view> schemas, BodyFn body,
              StridesFn strides = nullptr, std::vector<std::string_view> more_names = {}) {
  return numpy_function(name, std::move(schemas), body, std::move(more_names), strides);
}

// ---- memory order of copies -----------------------------------------------------------------------------

// What index arrays pick lies as they do.
void indices_order(Graph& graph, const Args& args, std::vector<TensorType>& results) {
  contiguous_results(graph, args, results);
  if (args.has("axis"))
    results[0].strides = numpy_strides(*graph.sym, results[0].sizes, {&args.value("indices")->type});
}
void row_major_order(Graph&, const Args&, std::vector<TensorType>& results) {
  results[0].strides = contiguous_strides(results[0].sizes);
}

void roll_order(Graph& graph, const Args& args, std::vector<TensorType>& results) {
  const TensorType& from = args.value("a")->type;
  results[0].strides =
      args.has("axis") ? preserved_strides(graph, from) : contiguous_strides(results[0].sizes);
}

void pad_order(Graph& graph, const Args& args, std::vector<TensorType>& results) {
  results[0].strides = numpy_fortran_or_c(*graph.sym, args.value("array")->type, results[0].sizes);
}

// To NumPy a dim of size 1 is one that is broadcast.
void broadcast_order(Graph&, const Args&, std::vector<TensorType>& results) {
  for (int d = 0; d < results[0].rank(); ++d)
    if (results[0].sizes[d] == Sym(1)) results[0].strides[d] = Sym(int64_t{0});
}

// A dim that numpy.newaxis adds has the stride 0; an array without dims is reshaped.
void new_axis_order(Graph&, const Args& args, std::vector<TensorType>& results) {
  const TensorType& from = args.value("a")->type;
  if (from.rank() == 0 || from.rank() == results[0].rank()) return;
  for (int d = 0; d < results[0].rank(); ++d) results[0].strides[d] = Sym(int64_t{0});
  const int first = from.rank() == 1 ? 1 : 0;  // where its own dims begin
  for (int d = 0; d < from.rank(); ++d) results[0].strides[first + d] = from.strides[d];
}

// numpy.where of the matrix and a mask made in row-major order.
void triangle_order(Graph& graph, const Args& args, std::vector<TensorType>& results) {
  const TensorType& from = args.value("m")->type;
  TensorType mask;
  mask.sizes = {from.sizes.end() - 2, from.sizes.end()};
  mask.strides = contiguous_strides(mask.sizes);
  results[0].strides = numpy_strides(*graph.sym, from.sizes, {&mask, &from});
}

std::vector<OpDef> views() {
  return {
      view("np.expand_dims", {"np.expand_dims(Tensor a, int[] axis) -> Tensor"}, expand_dims_body),
      view("np.squeeze", {"np.squeeze(Tensor a, int[]? axis=None) -> Tensor"}, squeeze_body,
           {"np.ndarray.squeeze"}),
      view("np.swapaxes", {"np.swapaxes(Tensor a, int axis1, int axis2) -> Tensor"}, swapaxes_body,
           {"np.ndarray.swapaxes"}),
      view("np.moveaxis", {"np.moveaxis(Tensor a, int[] source, int[] destination) -> Tensor"},
           moveaxis_body),
      view("np.flip", {"np.flip(Tensor m, int[]? axis=None) -> Tensor"}, flip_body),
      view("np.flipud", {"np.flipud(Tensor m) -> Tensor"}, flip_along<0>),
      view("np.fliplr", {"np.fliplr(Tensor m) -> Tensor"}, flip_along<1>),
      view("np.rot90", {"np.rot90(Tensor m, int k=1, int[] axes=[0,1]) -> Tensor"}, rot90_body),
      view("np.diagonal", {"np.diagonal(Tensor a, int offset=0, int axis1=0, int axis2=1) -> Tensor"},
           diagonal_body, {"np.ndarray.diagonal"}),
      view("np.broadcast_to", {"np.broadcast_to(Tensor array, int[] shape) -> Tensor"}, broadcast_to_body, {},
           broadcast_order),
      view("np.split",
           {"np.split.sections(Tensor ary, int sections, int axis=0) -> Tensor[]",
            "np.split.indices(Tensor ary, int[] indices, int axis=0) -> Tensor[]"},
           split_body),
      view("np.array_split",
           {"np.array_split.sections(Tensor ary, int sections, int axis=0) -> Tensor[]",
            "np.array_split.indices(Tensor ary, int[] indices, int axis=0) -> Tensor[]"},
           split_body),
      maybe_view("np.atleast_1d", {"np.atleast_1d(Tensor a) -> Tensor"}, at_least_body<1>, at_least_alias,
                 new_axis_order),
      maybe_view("np.atleast_2d", {"np.atleast_2d(Tensor a) -> Tensor"}, at_least_body<2>, at_least_alias,
                 new_axis_order),
      maybe_view("np.atleast_3d", {"np.atleast_3d(Tensor a) -> Tensor"}, at_least_body<3>, at_least_alias,
                 new_axis_order),
  };
}

// The diagonal of a matrix is a view; a vector's matrix is new.
Alias diag_alias(const Node& node) { return self_type(node).rank() == 2 ? Alias::kView : Alias::kNone; }

std::vector<OpDef> copies() {
  return {
      copy_of("np.concatenate", {"np.concatenate(Tensor[] arrays, int? axis=0) -> Tensor"}, concatenate_body,
              nullptr, {"np.concat"}),
      copy_of("np.stack", {"np.stack(Tensor[] arrays, int axis=0) -> Tensor"}, stack_body),
      copy_of("np.vstack", {"np.vstack(Tensor[] tup) -> Tensor"}, stacked<2, 0>),
      copy_of("np.hstack", {"np.hstack(Tensor[] tup) -> Tensor"}, stacked<1, 1>),
      copy_of("np.dstack", {"np.dstack(Tensor[] tup) -> Tensor"}, stacked<3, 2>),
      copy_of("np.column_stack", {"np.column_stack(Tensor[] tup) -> Tensor"}, column_stack_body),
      copy_of("np.tile", {"np.tile(Tensor A, int[] reps) -> Tensor"}, tile_body),
      copy_of("np.repeat", {"np.repeat(Tensor a, int repeats, int? axis=None) -> Tensor"}, repeat_body,
              nullptr, {"np.ndarray.repeat"}),
      copy_of("np.roll", {"np.roll(Tensor a, int[] shift, int[]? axis=None) -> Tensor"}, roll_body,
              roll_order),
      copy_of("np.pad",
              {"np.pad(Tensor array, int[] pad_width, str mode=\"constant\", *, Scalar constant_values=0) -> "
               "Tensor"},
              pad_body, pad_order),
      copy_of("np.take", {"np.take(Tensor a, Tensor indices, int? axis=None) -> Tensor"}, take_body,
              row_major_order, {"np.ndarray.take"}),
      copy_of("np.take_along_axis",
              {"np.take_along_axis(Tensor arr, Tensor indices, int? axis=-1) -> Tensor"},
              take_along_axis_body, indices_order),
      copy_of("np.tril", {"np.tril(Tensor m, int k=0) -> Tensor"}, tril_body, triangle_order),
      copy_of("np.triu", {"np.triu(Tensor m, int k=0) -> Tensor"}, triu_body, triangle_order),
      maybe_view("np.diag", {"np.diag(Tensor v, int k=0) -> Tensor"}, diag_body, diag_alias),
      copy_of("np.full_like", {"np.full_like(Tensor a, Scalar fill_value, ScalarType? dtype=None) -> Tensor"},
              full_like_body),
  };
}

}  // namespace

std::vector<OpDef> numpy_shape_ops() {
  std::vector<OpDef> ops = views();
  for (OpDef& op : copies()) ops.push_back(std::move(op));
  return ops;
}

}  // namespace cdynamo::graph
