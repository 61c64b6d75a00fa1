// Lists of views, tensors grown to a rank or a grid, blocks and diagonals, pixels moved between channels and
// space.
#include <algorithm>

#include "graph/ops/view_rules.h"

namespace cdynamo::graph {
namespace {

Tensor first_of(Builder& b, const Args& args) { return wrap(b, args.value(args.schema().params[0].name)); }

// ---- views

std::vector<Value*> broadcast_tensors_body(Builder& b, const Args& args) {
  std::vector<Tensor> tensors = tensors_of(b, args);
  std::vector<Sym> sizes;
  for (const Tensor& tensor : tensors) sizes = broadcast_sizes(b.graph(), sizes, tensor.sizes());
  std::vector<Value*> results;
  for (const Tensor& tensor : tensors) results.push_back(expand(tensor, sizes).value);
  return results;
}

// Tensor i runs along dim i of the grid; for "xy" the first two change places.
std::vector<Value*> meshgrid_body(Builder& b, const Args& args) {
  std::vector<Tensor> tensors = tensors_of(b, args);
  const std::string indexing = args.has("indexing") ? std::string(args.string("indexing")) : "ij";
  if (indexing != "ij" && indexing != "xy")
    runtime_error("torch.meshgrid: indexing must be one of \"xy\" or \"ij\", but received: " + indexing);
  const bool exchanged = indexing == "xy" && tensors.size() >= 2;
  if (exchanged) std::swap(tensors[0], tensors[1]);
  std::vector<Sym> sizes;
  for (const Tensor& tensor : tensors) {
    if (tensor.rank() > 1)
      runtime_error("torch.meshgrid: Expected 0D or 1D tensor in the tensor list but got: " +
                    sizes_text(tensor.sizes()));
    sizes.push_back(tensor.type().numel());
  }
  std::vector<Value*> results;
  for (size_t i = 0; i < tensors.size(); ++i) {
    std::vector<Sym> along(tensors.size(), 1);
    along[i] = sizes[i];
    results.push_back(expand(reshape(tensors[i], along), sizes).value);
  }
  if (exchanged) std::swap(results[0], results[1]);
  return results;
}

template <int rank>
std::vector<Value*> atleast_body(Builder& b, const Args& args) {
  Tensor x = first_of(b, args);
  if (rank == 3 && x.rank() == 1) return one(reshape(x, {1, x.size(0), 1}));
  if (rank == 3 && x.rank() == 2) return b.call("unsqueeze", {x.value, Sym(2)});
  while (x.rank() < rank) x = unsqueeze(x, 0);
  return one(x);
}
Alias atleast_alias(const Node& node) {
  return self_type(node).rank() == node.results[0]->type.rank() ? Alias::kSelf : Alias::kView;
}
Alias always_self(const Node&) { return Alias::kSelf; }
std::vector<Value*> first_tensor_body(Builder& b, const Args& args) { return one(first_of(b, args)); }

// hsplit, vsplit, dsplit: equal parts, or at these indices.
template <int64_t wanted>
std::vector<Value*> split_body(Builder& b, const Args& args) {
  Tensor x = first_of(b, args);
  constexpr const char* kNames[] = {"vsplit", "hsplit", "dsplit"};
  constexpr int kRanks[] = {2, 1, 3};
  if (x.rank() < kRanks[wanted])
    runtime_error(std::string("torch.") + kNames[wanted] + " requires a tensor with at least " +
                  std::to_string(kRanks[wanted]) + " dimension, but got a tensor with " +
                  std::to_string(x.rank()) + " dimensions!");
  const int64_t dim = wanted == 1 && x.rank() == 1 ? 0 : wanted;
  const OpDef& split = op("tensor_split");
  if (args.schema().find("sections") < 0) {
    for (size_t i = 0; i < split.parsed.size(); ++i)
      if (split.parsed[i].find("indices") >= 0)
        return b.call(split, static_cast<int>(i), {x.value, args["indices"], Sym(dim)});
    throw Unsupported("tensor_split at indices");
  }
  const int64_t sections = args.constant("sections");
  if (sections <= 0 || b.sym().specialize(x.size(dim), "split") % sections != 0)
    runtime_error(std::string("torch.") + kNames[wanted] + " attempted to split along dimension " +
                  std::to_string(dim) +
                  ", but the size of the dimension is not divisible by the split_size " +
                  std::to_string(sections) + "!");
  return b.call("tensor_split", {x.value, Sym(sections), Sym(dim)});
}

// ---- blocks

std::vector<Value*> diagflat_body(Builder& b, const Args& args) {
  Tensor x = first_of(b, args);
  const int64_t offset = args.constant("offset");
  const Sym size = x.type().numel() + std::abs(offset);
  Tensor zero = full(b, {size, size}, x.dtype() == DType::kBool ? Arg(false) : Arg(Sym(0)), x.dtype());
  return b.call("core.diagonal_scatter",
                {zero.value, reshape(x, {x.type().numel()}).value, Sym(offset), Sym(0), Sym(1)});
}

std::vector<Value*> block_diag_body(Builder& b, const Args& args) {
  std::vector<Tensor> blocks = tensors_of(b, args);
  if (blocks.empty()) throw Unsupported("block_diag of nothing");
  Sym width = 0, before = 0;
  for (Tensor& block : blocks) {
    if (block.dtype() != blocks[0].dtype()) throw Unsupported("block_diag of several dtypes");
    if (block.rank() > 2) runtime_error("torch.block_diag: Input tensors must have 2 or fewer dimensions.");
    while (block.rank() < 2) block = unsqueeze(block, 0);
    width = width + block.size(1);
  }
  std::vector<Tensor> rows;
  const Arg fill = blocks[0].dtype() == DType::kBool ? Arg(false) : Arg(Sym(0));
  for (const Tensor& block : blocks) {
    // Joined, not padded: the gradient of each block is a view of the whole, as eager's.
    std::vector<Tensor> row{block};
    const Sym after = width - before - block.size(1);
    if (!(before == Sym(0))) row.insert(row.begin(), full(b, {block.size(0), before}, fill, block.dtype()));
    if (!(after == Sym(0))) row.push_back(full(b, {block.size(0), after}, fill, block.dtype()));
    rows.push_back(concat(row, 1));
    before = before + block.size(1);
  }
  return one(concat(rows, 0));
}

// ---- pixels

std::vector<Sym> batch_sizes(Tensor x) { return {x.sizes().begin(), x.sizes().end() - 3}; }
std::vector<Sym> with(std::vector<Sym> sizes, std::initializer_list<Sym> more) {
  sizes.insert(sizes.end(), more.begin(), more.end());
  return sizes;
}
// The last dims in this order, those before them as they are.
Tensor permute_last(Tensor x, const Dims& last) {
  Dims order;
  const int64_t first = x.rank() - static_cast<int64_t>(last.size());
  for (int64_t d = 0; d < first; ++d) order.push_back(d);
  for (int64_t d : last) order.push_back(first + d);
  return permute(x, order);
}

std::vector<Value*> pixel_shuffle_body(Builder& b, const Args& args) {
  Tensor x = first_of(b, args);
  const int64_t r = args.constant("upscale_factor");
  if (x.rank() < 3)
    runtime_error("pixel_shuffle expects input to have at least 3 dimensions, but got input with " +
                  std::to_string(x.rank()) + " dimension(s)");
  if (r <= 0) runtime_error("pixel_shuffle expects a positive upscale_factor, but got " + std::to_string(r));
  const int64_t channels = b.sym().specialize(x.size(-3), "pixel_shuffle");
  if (channels % (r * r) != 0)
    runtime_error(
        "pixel_shuffle expects its input's 'channel' dimension to be divisible by the square of "
        "upscale_factor, but input.size(-3)=" +
        std::to_string(channels) + " is not divisible by " + std::to_string(r * r));
  const Sym rows = x.size(-2), columns = x.size(-1);
  Tensor split = reshape(x, with(batch_sizes(x), {channels / (r * r), r, r, rows, columns}));
  return one(reshape(permute_last(split, {0, 3, 1, 4, 2}),
                     with(batch_sizes(x), {channels / (r * r), rows * r, columns * r})));
}

std::vector<Value*> pixel_unshuffle_body(Builder& b, const Args& args) {
  Tensor x = first_of(b, args);
  const int64_t r = args.constant("downscale_factor");
  if (x.rank() < 3)
    runtime_error("pixel_unshuffle expects input to have at least 3 dimensions, but got input with " +
                  std::to_string(x.rank()) + " dimension(s)");
  if (r <= 0)
    runtime_error("pixel_unshuffle expects a positive downscale_factor, but got " + std::to_string(r));
  const int64_t rows = b.sym().specialize(x.size(-2), "pixel_unshuffle"),
                columns = b.sym().specialize(x.size(-1), "pixel_unshuffle");
  if (rows % r != 0) runtime_error("pixel_unshuffle expects height to be divisible by downscale_factor");
  if (columns % r != 0) runtime_error("pixel_unshuffle expects width to be divisible by downscale_factor");
  const Sym channels = x.size(-3);
  Tensor split = reshape(x, with(batch_sizes(x), {channels, rows / r, r, columns / r, r}));
  return one(reshape(permute_last(split, {0, 2, 4, 1, 3}),
                     with(batch_sizes(x), {channels * (r * r), rows / r, columns / r})));
}

// Where the function in `torch` is written in Python over the one in C, that one is the operator and the
// other is inlined.
OpDef views(std::string_view name, std::vector<std::string_view> schemas, BodyFn body,
            AliasFn alias = nullptr, std::vector<std::string_view> torch_names = {}) {
  OpDef op = composite(name, std::move(schemas), body, std::move(torch_names));
  op.strides = nullptr;
  op.view = alias == nullptr;
  op.alias = alias;
  return op;
}
OpDef pixels(std::string_view name, std::string_view schema, BodyFn body,
             std::vector<std::string_view> torch_names = {}) {
  OpDef op = composite(name, {schema}, body, std::move(torch_names));
  op.strides = strides_of_pixels;
  return op;
}

}  // namespace

std::vector<OpDef> shape_like_ops() {
  return {
      views("core.broadcast_tensors", {"core.broadcast_tensors(Tensor[] tensors) -> Tensor[]"},
            broadcast_tensors_body, nullptr, {"torch._C._VariableFunctions.broadcast_tensors"}),
      views("core.meshgrid", {"core.meshgrid(Tensor[] tensors, *, str? indexing=None) -> Tensor[]"},
            meshgrid_body, nullptr, {"torch._C._VariableFunctions.meshgrid"}),
      views("core.atleast_1d", {"core.atleast_1d(Tensor self) -> Tensor"}, atleast_body<1>, atleast_alias,
            {"torch._C._VariableFunctions.atleast_1d"}),
      views("core.atleast_2d", {"core.atleast_2d(Tensor self) -> Tensor"}, atleast_body<2>, atleast_alias,
            {"torch._C._VariableFunctions.atleast_2d"}),
      views("core.atleast_3d", {"core.atleast_3d(Tensor self) -> Tensor"}, atleast_body<3>, atleast_alias,
            {"torch._C._VariableFunctions.atleast_3d"}),
      views("real", {"real(Tensor self) -> Tensor"}, first_tensor_body, always_self),
      views("conj", {"conj(Tensor self) -> Tensor"}, first_tensor_body, always_self),
      views("resolve_conj", {"resolve_conj(Tensor self) -> Tensor"}, first_tensor_body, always_self),
      views("resolve_neg", {"resolve_neg(Tensor self) -> Tensor"}, first_tensor_body, always_self),
      views("hsplit",
            {"hsplit.int(Tensor self, int sections) -> Tensor[]",
             "hsplit.array(Tensor self, int[] indices) -> Tensor[]"},
            split_body<1>),
      views("vsplit",
            {"vsplit.int(Tensor self, int sections) -> Tensor[]",
             "vsplit.array(Tensor self, int[] indices) -> Tensor[]"},
            split_body<0>),
      views("dsplit",
            {"dsplit.int(Tensor self, int sections) -> Tensor[]",
             "dsplit.array(Tensor self, int[] indices) -> Tensor[]"},
            split_body<2>),
      composite("diagflat", {"diagflat(Tensor self, int offset=0) -> Tensor"}, diagflat_body),
      composite("core.block_diag", {"core.block_diag(Tensor[] tensors) -> Tensor"}, block_diag_body,
                {"torch._C._VariableFunctions.block_diag"}),
      pixels("pixel_shuffle", "pixel_shuffle(Tensor self, int upscale_factor) -> Tensor", pixel_shuffle_body,
             {"torch.nn.functional.pixel_shuffle"}),
      pixels("pixel_unshuffle", "pixel_unshuffle(Tensor self, int downscale_factor) -> Tensor",
             pixel_unshuffle_body, {"torch.nn.functional.pixel_unshuffle"}),
  };
}

}  // namespace cdynamo::graph
