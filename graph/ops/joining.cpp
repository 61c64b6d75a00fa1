// Tensors put together or moved within: cat, stack, repeat, flip, roll, pad, triangles, diagonals.
#include <algorithm>

#include "graph/ops/view_rules.h"
#include "graph/promotion.h"

namespace cdynamo::graph {
namespace {

// ---- cat ------------------------------------------------------------------------------------------------

DType common_dtype(Graph& graph, const std::vector<Tensor>& tensors) {
  std::vector<PromotedOperand> operands;
  for (const Tensor& tensor : tensors)
    operands.push_back({tensor.dtype(), tensor.type().weak, tensor.rank() > 0});
  return result_type(graph.framework, graph.default_float(), operands);
}

Tensor cat(Builder& b, std::vector<Tensor> tensors, int64_t dim) {
  if (tensors.empty()) value_error("torch.cat(): expected a non-empty list of Tensors");
  bool torch = b.graph().framework == Framework::kTorch;
  for (const Tensor& tensor : tensors) {
    if (tensor.rank() > 0) continue;
    if (torch) runtime_error("zero-dimensional tensor (at position 0) cannot be concatenated");
    value_error("zero-dimensional arrays cannot be concatenated");
  }
  DType dtype = common_dtype(b.graph(), tensors);
  // An empty 1-d tensor is passed over, whatever the others' rank.
  std::vector<Tensor> kept;
  for (const Tensor& tensor : tensors)
    if (!(torch && tensor.rank() == 1 && tensor.size(0) == Sym(0))) kept.push_back(tensor);
  const auto with_empty_ones = [&](Tensor result) {
    for (const Tensor& tensor : tensors)
      if (torch && tensor.rank() == 1 && tensor.size(0) == Sym(0)) result = follow(result, tensor);
    return result;
  };
  if (kept.empty()) return with_empty_ones(full(b, {0}, Sym(0), dtype));
  int64_t rank = kept[0].rank();
  dim = wrap_dim(dim, rank);
  for (Tensor& tensor : kept) {
    bool fits = tensor.rank() == rank;
    for (int64_t d = 0; fits && d < rank; ++d)
      fits = d == dim || b.sym().expect_eq(tensor.size(d), kept[0].size(d), "cat");
    if (!fits && torch)
      runtime_error("Sizes of tensors must match except in dimension " + std::to_string(dim) + ".");
    if (!fits)
      value_error("all the input array dimensions except for the concatenation axis must match exactly");
    tensor = cast(tensor, dtype);
  }
  return with_empty_ones(concat(kept, dim));
}

// Channels-last where all operands suggest it; NumPy's order "K".
std::vector<Sym> joined_strides(Graph& graph, const std::vector<TensorType>& types,
                                const std::vector<Sym>& sizes) {
  if (graph.framework == Framework::kNumpy) {
    std::vector<const TensorType*> arrays;
    for (const TensorType& type : types) arrays.push_back(&type);
    return numpy_concat_strides(*graph.sym, sizes, arrays);
  }
  const bool last = std::ranges::all_of(
      types, [&](const TensorType& type) { return suggests_channels_last(*graph.sym, type); });
  return last ? channels_last_strides(sizes) : contiguous_strides(sizes);
}
std::vector<TensorType> types_of(const Args& args) {
  std::vector<TensorType> types;
  for (const Value* value : args.values("tensors")) types.push_back(value->type);
  return types;
}
void cat_strides(Graph& graph, const Args& args, std::vector<TensorType>& results) {
  results[0].strides = joined_strides(graph, types_of(args), results[0].sizes);
}

// Eager joins along the dim of that number, which it then splits; behind the last one there is none.
void stack_strides(Graph& graph, const Args& args, std::vector<TensorType>& results) {
  std::vector<TensorType> types = types_of(args);
  TensorType& result = results[0];
  result.strides = contiguous_strides(result.sizes);
  if (graph.framework == Framework::kNumpy) return;
  const int64_t dim = wrap_dim(args.constant("dim"), result.rank());
  if (dim + 1 == result.rank()) {
    for (TensorType& type : types) type = unsqueezed(type, dim);
    result.strides = joined_strides(graph, types, result.sizes);
    return;
  }
  TensorType joined = types[0];
  joined.sizes[dim] = joined.sizes[dim] * result.sizes[dim];
  joined.strides = joined_strides(graph, types, joined.sizes);
  result.strides = view_strides(*graph.sym, joined, result.sizes).value_or(result.strides);
}

std::vector<Value*> stack_body(Builder& b, const Args& args) {
  std::vector<Tensor> tensors = tensors_of(b, args);
  if (tensors.empty()) runtime_error("stack expects a non-empty TensorList");
  int64_t dim = wrap_dim(args.constant("dim"), tensors[0].rank() + 1);
  const std::vector<Sym> sizes = tensors[0].sizes();
  for (Tensor& tensor : tensors) {
    bool same = tensor.sizes().size() == sizes.size();
    for (size_t d = 0; same && d < sizes.size(); ++d)
      same = b.sym().expect_eq(tensor.sizes()[d], sizes[d], "stack");
    if (!same) runtime_error("stack expects each tensor to be equal size");
    tensor = unsqueeze(tensor, dim);
  }
  return one(cat(b, tensors, dim));
}

// By the entry, which says how the result lies.
std::vector<Value*> joined(Builder& b, const std::vector<Tensor>& tensors, int64_t dim) {
  std::vector<Value*> values;
  for (const Tensor& tensor : tensors) values.push_back(tensor.value);
  return forward(b, "cat", {values, Sym(dim)});
}
Tensor at_least(Tensor x, int rank, bool trailing) {
  if (x.rank() == 0) x = reshape(x, {1});
  if (rank >= 2 && x.rank() == 1) x = unsqueeze(x, 0);
  if (rank == 3 && x.rank() == 2) x = unsqueeze(x, trailing ? 2 : 0);
  return x;
}
template <int rank, int64_t dim>
std::vector<Value*> stacked_body(Builder& b, const Args& args) {
  std::vector<Tensor> tensors = tensors_of(b, args);
  for (Tensor& tensor : tensors) tensor = at_least(tensor, rank, true);
  // hstack joins 1-d tensors along their only dim.
  int64_t along = rank == 1 && !tensors.empty() && tensors[0].rank() > 1 ? 1 : dim;
  return joined(b, tensors, along);
}
std::vector<Value*> column_stack_body(Builder& b, const Args& args) {
  std::vector<Tensor> tensors = tensors_of(b, args);
  for (Tensor& tensor : tensors)
    if (tensor.rank() <= 1) tensor = reshape(tensor, {tensor.type().numel(), 1});
  return joined(b, tensors, 1);
}

// ---- repetition -----------------------------------------------------------------------------------------

// Each dim doubled by a new one before it that is expanded, then merged.
Tensor repeat(Tensor x, const std::vector<Sym>& repeats) {
  x = expand(x, [&] {
    std::vector<Sym> sizes(repeats.size() - x.rank(), 1);
    sizes.insert(sizes.end(), x.sizes().begin(), x.sizes().end());
    return sizes;
  }());
  std::vector<Sym> split, stretched, merged;
  for (size_t d = 0; d < repeats.size(); ++d) {
    Sym size = x.size(static_cast<int64_t>(d));
    split.insert(split.end(), {1, size});
    stretched.insert(stretched.end(), {repeats[d], size});
    merged.push_back(repeats[d] * size);
  }
  return reshape(expand(reshape(x, split), stretched), merged);
}
void require_counts(Builder& b, const std::vector<Sym>& repeats) {
  for (const Sym& count : repeats)
    if (b.sym().guard(Relation::kLt, count, 0, "repeat"))
      runtime_error("Trying to create tensor with negative dimension");
}
std::vector<Value*> repeat_body(Builder& b, const Args& args) {
  Tensor self = operand(b, args, "self");
  std::vector<Sym> repeats = args.sizes("repeats");
  if (static_cast<int>(repeats.size()) < self.rank())
    runtime_error(
        "Number of dimensions of repeat dims can not be smaller than number of dimensions of tensor");
  require_counts(b, repeats);
  return one(repeat(self, repeats));
}
std::vector<Value*> tile_body(Builder& b, const Args& args) {
  Tensor self = operand(b, args, "self");
  std::vector<Sym> repeats = args.sizes("dims");
  if (static_cast<int>(repeats.size()) < self.rank())
    repeats.insert(repeats.begin(), self.rank() - repeats.size(), 1);
  require_counts(b, repeats);
  return one(repeat(self, repeats));
}
std::vector<Value*> repeat_interleave_body(Builder& b, const Args& args) {
  Tensor self = operand(b, args, "self");
  if (!args.has("dim")) self = reshape(self, {self.type().numel()});
  if (self.rank() == 0) self = reshape(self, {1});
  int64_t dim = args.has("dim") ? wrap_dim(args.constant("dim"), self.rank()) : 0;
  Sym count = args.integer("repeats");
  if (b.sym().guard(Relation::kLt, count, 0, "repeat_interleave"))
    runtime_error("repeats can not be negative");
  std::vector<Sym> stretched = self.sizes(), merged = self.sizes();
  stretched.insert(stretched.begin() + dim + 1, count);
  merged[dim] = merged[dim] * count;
  return one(reshape(expand(unsqueeze(self, dim + 1), stretched), merged));
}

// ---- movement -------------------------------------------------------------------------------------------

std::vector<Value*> flip_body(Builder& b, const Args& args) {
  Tensor self = operand(b, args, "self");
  Dims dims;
  if (args.schema().find("dims") >= 0)
    dims = wrap_dims(args.constants("dims"), self.rank(), false);
  else
    dims = {args.schema().name == "fliplr" ? 1 : 0};
  if (args.schema().name != "flip" && static_cast<int>(dims[0]) >= self.rank())
    runtime_error("Input must be >= 2-d.");
  return one(flip(self, dims));
}

Tensor roll_one(Tensor x, int64_t dim, const Sym& shift) {
  SymContext& sym = x.builder->sym();
  if (sym.guard_eq(x.size(dim), 0, "roll")) return x;
  Sym by = mod(shift, x.size(dim));
  if (sym.guard_eq(by, 0, "roll")) return x;
  Sym keep = x.size(dim) - by;
  return concat({slice(x, dim, keep, by), slice(x, dim, 0, keep)}, dim);
}
std::vector<Value*> roll_body(Builder& b, const Args& args) {
  Tensor self = operand(b, args, "self");
  std::vector<Sym> shifts = args.sizes("shifts");
  Dims dims = args.constants("dims");
  if (shifts.empty()) runtime_error("`shifts` required");
  if (dims.empty() && shifts.size() == 1) {
    Tensor row = reshape(self, {self.type().numel()});
    return one(reshape(roll_one(row, 0, shifts[0]), self.sizes()));
  }
  if (dims.size() != shifts.size())
    runtime_error("shifts and dimensions must align. shifts: " + std::to_string(shifts.size()) +
                  ", dims:" + std::to_string(dims.size()));
  for (size_t i = 0; i < dims.size(); ++i)
    self = roll_one(self, wrap_dim(dims[i], self.rank(), false), shifts[i]);
  return one(self);
}

// Eager joins the parts along one dim after the other. One that moves by nothing is joined with an empty part: row-major.
void roll_strides(Graph& graph, const Args& args, std::vector<TensorType>& results) {
  const Dims dims = args.constants("dims");
  const std::vector<Sym> shifts = args.sizes("shifts");
  SymContext& sym = *graph.sym;
  TensorType type = args.value("self")->type;
  contiguous_results(graph, args, results);
  if (dims.empty() || graph.framework == Framework::kNumpy || type.strides == results[0].strides) return;
  if (sym.guard_eq(type.numel(), 0, "roll")) return preserved_results(graph, args, results);
  for (size_t i = 0; i < dims.size() && suggests_channels_last(sym, type); ++i) {
    const Sym& size = type.sizes[wrap_dim(dims[i], type.rank(), false)];
    const bool moves = !sym.guard_eq(mod(shifts[i], size), 0, "roll");
    type.strides = moves ? channels_last_strides(type.sizes) : contiguous_strides(type.sizes);
  }
  results[0].strides = suggested_strides(sym, type, type.sizes);
}

std::vector<Value*> rot90_body(Builder& b, const Args& args) {
  Tensor self = operand(b, args, "self");
  Dims dims = args.constants("dims");
  if (dims.size() != 2)
    runtime_error("expected total rotation dims == 2, but got dims = " + std::to_string(dims.size()));
  for (int64_t& dim : dims) dim = wrap_dim(dim, self.rank(), false);
  if (self.rank() < 2 || dims[0] == dims[1]) runtime_error("expected rotation dims to be different");
  auto flipped = [&](const Dims& along) {
    return wrap(b, b.call1("flip", {self.value, std::vector<Sym>(along.begin(), along.end())}));
  };
  switch (((args.constant("k") % 4) + 4) % 4) {
    case 1: return one(transpose(flipped({dims[1]}), dims[0], dims[1]));
    case 2: return one(flipped(dims));
    case 3: return one(transpose(flipped({dims[0]}), dims[0], dims[1]));
    default: return forward(b, "clone", {self.value});
  }
}

// ---- padding --------------------------------------------------------------------------------------------

std::vector<Value*> constant_pad_body(Builder& b, const Args& args) {
  Tensor self = operand(b, args, "self");
  std::vector<Sym> pads = args.sizes("pad");
  Arg value = args.has("value") ? args["value"] : Arg(Sym(0));
  if (pads.size() % 2 != 0)
    runtime_error("Length of pad must be even but instead it equals " + std::to_string(pads.size()));
  if (static_cast<int>(pads.size() / 2) > self.rank())
    runtime_error(
        "Length of pad should be no more than twice the number of dimensions of the input. Pad length is " +
        std::to_string(pads.size()) + "while the input has " + std::to_string(self.rank()) + "dimensions.");
  std::vector<Sym> low(self.rank(), 0), high(self.rank(), 0);
  for (size_t i = 0; i < pads.size() / 2; ++i) {
    size_t dim = self.rank() - 1 - i;
    Sym size = self.size(static_cast<int64_t>(dim));
    auto part = [&](const Sym& pad, bool front) {  // a negative pad cuts
      if (!b.sym().guard(Relation::kLt, pad, 0, "pad")) return pad;
      size = size + pad;
      self = slice(self, static_cast<int64_t>(dim), front ? 0 - pad : Sym(0), size);
      return Sym(0);
    };
    if (b.sym().guard(Relation::kLt, size + pads[2 * i] + pads[2 * i + 1], 0, "pad"))
      runtime_error("The input size, plus negative padding, resulted in a negative output size");
    low[dim] = part(pads[2 * i], true);
    high[dim] = part(pads[2 * i + 1], false);
  }
  bool padded = std::any_of(low.begin(), low.end(), [](const Sym& s) { return !(s == Sym(0)); }) ||
                std::any_of(high.begin(), high.end(), [](const Sym& s) { return !(s == Sym(0)); });
  if (self.dtype() == DType::kBool)
    value = (std::holds_alternative<bool>(value) ? std::get<bool>(value) : args.number("value") != 0);
  return one(padded ? pad(self, low, high, value) : self);
}

// In the format that the operand suggests; what is only cut keeps the order of what is left.
void constant_pad_strides(Graph& graph, const Args& args, std::vector<TensorType>& results) {
  const TensorType& self = args.value("self")->type;
  const auto grows = [&](const Sym& pad) { return graph.sym->guard(Relation::kLt, 0, pad, "pad"); };
  if (std::ranges::any_of(args.sizes("pad"), grows))
    results[0].strides = suggested_strides(*graph.sym, self, results[0].sizes);
  else
    results[0].strides = preserved_strides(graph, with_layout(self, results[0].sizes, self.strides));
}
// That of padding around in a circle is row-major.
void pad_strides(Graph& graph, const Args& args, std::vector<TensorType>& results) {
  if (args.string("mode") == "constant") return constant_pad_strides(graph, args, results);
  if (args.string("mode") == "circular") return contiguous_results(graph, args, results);
  results[0].strides = suggested_strides(*graph.sym, args.value("self")->type, results[0].sizes);
}

// The index in the operand of each place of a padded dim.
Tensor padded_index(Builder& b, const Sym& size, const Sym& low, const Sym& total, std::string_view mode) {
  Tensor at = iota(b, {total}, 0, DType::kI64) - Operand(low);
  if (mode == "replicate") return minimum(maximum(at, 0), Operand(size - 1));
  if (mode == "circular") return remainder(at, Operand(size));
  Tensor mirrored = abs(at);  // reflect
  return where(gt(mirrored, Operand(size - 1)), Operand((size - 1) * 2) - mirrored, mirrored);
}
std::vector<Value*> pad_body(Builder& b, const Args& args) {
  std::string_view mode = args.string("mode");
  if (mode == "constant")
    return forward(b, "constant_pad_nd",
                   {args["self"], args["pad"], args.has("value") ? args["value"] : Arg(Sym(0))});
  if (args.has("value") && args.number("value") != 0)
    runtime_error("Padding mode doesn't take in value argument");
  Tensor self = operand(b, args, "self");
  std::vector<Sym> pads = args.sizes("pad");
  int64_t dims = static_cast<int64_t>(pads.size() / 2);
  if (mode != "reflect" && mode != "replicate" && mode != "circular")
    runtime_error("Unrecognised padding mode " + std::string(mode));
  if (pads.size() % 2 != 0 || dims > 3 || (self.rank() != dims + 1 && self.rank() != dims + 2))
    runtime_error("Only 2D, 3D, 4D, 5D padding with non-constant padding are supported for now");
  if (mode != "circular") {  // of eager's kernels
    if (self.dtype() == DType::kBool) throw Unsupported("padding of bools by what is there");
    const auto samples = self.sizes().begin() + (self.rank() - dims - 1);
    if (std::find(samples, self.sizes().end(), Sym(0)) != self.sizes().end())
      throw Unsupported("padding of nothing by what is there");
  }
  for (int64_t i = 0; i < dims; ++i) {
    int64_t dim = self.rank() - 1 - i;
    Sym low = pads[2 * i], high = pads[2 * i + 1], size = self.size(dim);
    if (low == Sym(0) && high == Sym(0)) continue;
    SymContext& sym = b.sym();
    if (mode == "circular") {  // what is cut off does not come round
      auto cut = [&](Sym& pad, bool front) {
        if (!sym.guard(Relation::kLt, pad, 0, "pad")) return;
        size = size + pad;
        self = slice(self, dim, front ? 0 - pad : Sym(0), size);
        pad = 0;
      };
      cut(low, true);
      cut(high, false);
    }
    if (sym.guard(Relation::kLe, size + low + high, 0, "pad")) runtime_error("the padded input is too small");
    Sym limit = mode == "reflect" ? size - 1 : size;
    if (mode != "replicate" &&
        (sym.guard(Relation::kLt, limit, low, "pad") || sym.guard(Relation::kLt, limit, high, "pad")))
      runtime_error("Padding size should be less than the corresponding input dimension");
    Tensor index = padded_index(b, size, low, size + low + high, mode);
    std::vector<Sym> shape(self.rank(), 1), sizes = self.sizes();
    shape[dim] = sizes[dim] = index.size(0);
    self = gather(self, expand(reshape(index, shape), sizes), dim);
  }
  return one(self);
}

// ---- triangles and diagonals ----------------------------------------------------------------------------

template <bool lower>
std::vector<Value*> triangle_body(Builder& b, const Args& args) {
  Tensor self = operand(b, args, "self");
  if (self.rank() < 2) runtime_error("tril: input tensor must have at least 2 dimensions");
  Tensor column = iota(b, {self.size(-2), self.size(-1)}, 1, DType::kI64),
         row = iota(b, {self.size(-2), self.size(-1)}, 0, DType::kI64);
  Tensor limit = row + Operand(args.integer("diagonal"));
  Tensor keep = lower ? le(column, limit) : ge(column, limit);
  return one(where(keep, self, full(b, {}, Sym(0), self.dtype())));
}

Tensor diagonal_matrix(Tensor x, int64_t offset) {
  Builder& b = *x.builder;
  Sym n = x.size(-1) + std::abs(offset);
  std::vector<Sym> sizes = x.sizes();
  sizes.back() = n;
  sizes.push_back(n);
  Tensor zero = full(b, sizes, Sym(0), x.dtype());
  return wrap(b, b.call1("core.diagonal_scatter",
                         {zero.value, x.value, Sym(offset), Sym(x.rank() - 1), Sym(x.rank())}));
}
std::vector<Value*> diag_body(Builder& b, const Args& args) {
  Tensor self = operand(b, args, "self");
  if (self.rank() == 1) return one(diagonal_matrix(self, args.constant("diagonal")));
  if (self.rank() != 2)
    runtime_error("diag(): Supports 1D or 2D tensors. Got " + std::to_string(self.rank()) + "D");
  return forward(b, "core.diagonal", {self.value, Sym(args.constant("diagonal")), Sym(0), Sym(1)});
}
std::vector<Value*> diag_embed_body(Builder& b, const Args& args) {
  Tensor self = operand(b, args, "self");
  int64_t rank = self.rank() + 1;
  int64_t dim1 = wrap_dim(args.constant("dim1"), rank), dim2 = wrap_dim(args.constant("dim2"), rank);
  if (dim1 == dim2)
    runtime_error("diagonal dimensions cannot be identical " + std::to_string(dim1) + ", " +
                  std::to_string(dim2));
  Tensor made = diagonal_matrix(self, args.constant("offset"));
  Dims order(rank, -1);
  order[dim1] = rank - 2;
  order[dim2] = rank - 1;
  int64_t next = 0;
  for (int64_t& dim : order)
    if (dim < 0) dim = next++;
  return one(permute(made, order));
}

}  // namespace

std::vector<OpDef> joining_ops() {
  return {
      composite("cat", {"cat(Tensor[] tensors, int dim=0) -> Tensor"},
                CDYNAMO_BODY(return one(cat(b, tensors_of(b, args), args.constant("dim")))),
                {"torch.concat", "torch.concatenate"}, cat_strides),
      composite("stack", {"stack(Tensor[] tensors, int dim=0) -> Tensor"}, stack_body, {}, stack_strides),
      composite("hstack", {"hstack(Tensor[] tensors) -> Tensor"}, stacked_body<1, 0>, {}, nullptr),
      composite("vstack", {"vstack(Tensor[] tensors) -> Tensor"}, stacked_body<2, 0>, {"torch.row_stack"},
                nullptr),
      composite("dstack", {"dstack(Tensor[] tensors) -> Tensor"}, stacked_body<3, 2>, {}, nullptr),
      composite("column_stack", {"column_stack(Tensor[] tensors) -> Tensor"}, column_stack_body, {}, nullptr),
      composite("repeat", {"repeat(Tensor self, int[] repeats) -> Tensor"}, repeat_body),
      composite("tile", {"tile(Tensor self, int[] dims) -> Tensor"}, tile_body),
      composite("repeat_interleave",
                {"repeat_interleave.self_int(Tensor self, int repeats, int? dim=None, *, int? "
                 "output_size=None) -> Tensor"},
                repeat_interleave_body),
      composite("flip", {"flip(Tensor self, int[] dims) -> Tensor"}, flip_body, {}, preserved_results),
      composite("fliplr", {"fliplr(Tensor self) -> Tensor"}, flip_body, {}, preserved_results),
      composite("flipud", {"flipud(Tensor self) -> Tensor"}, flip_body, {}, preserved_results),
      composite("roll", {"roll(Tensor self, int[1] shifts, int[1] dims=[]) -> Tensor"}, roll_body, {},
                roll_strides),
      composite("rot90", {"rot90(Tensor self, int k=1, int[] dims=[0,1]) -> Tensor"}, rot90_body, {},
                nullptr),
      composite("constant_pad_nd", {"constant_pad_nd(Tensor self, int[] pad, Scalar value=0) -> Tensor"},
                constant_pad_body, {}, constant_pad_strides),
      composite("pad", {"pad(Tensor self, int[] pad, str mode=\"constant\", float? value=None) -> Tensor"},
                pad_body, {}, pad_strides),
      with_in_place_variant(
          composite("tril", {"tril(Tensor self, int diagonal=0) -> Tensor"}, triangle_body<true>)),
      with_in_place_variant(
          composite("triu", {"triu(Tensor self, int diagonal=0) -> Tensor"}, triangle_body<false>)),
      composite("diag_embed", {"diag_embed(Tensor self, int offset=0, int dim1=-2, int dim2=-1) -> Tensor"},
                diag_embed_body),
      composite("diag", {"diag(Tensor self, int diagonal=0) -> Tensor"}, diag_body),
  };
}

}  // namespace cdynamo::graph
