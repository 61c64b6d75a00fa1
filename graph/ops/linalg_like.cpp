// Products and distances of tensors beyond matmul: einsum, tensordot, kron, cross, cdist, norms of matrices,
// traces.
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "graph/ops/entry.h"
#include "graph/strides.h"

namespace cdynamo::graph {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

Dims range(int64_t first, int64_t last) {
  Dims dims(std::max<int64_t>(last - first, 0));
  std::iota(dims.begin(), dims.end(), first);
  return dims;
}
bool is_one(Tensor x, int64_t dim) { return x.builder->sym().guard_eq(x.size(dim), 1, "einsum"); }
void require_float_operand(Tensor x, const char* name) {
  if (!is_float(x.dtype())) throw Unsupported(std::string(name) + " of integers");
}

// ---- einsum: as ATen does it, step by step, so that strides come out alike

struct Equation {
  std::vector<std::string> operands;  // one letter a dim
  std::string output;
};

constexpr char kEllipsis = '.';

void append_label(std::string& labels, char label, bool in_operand) {
  if (label == kEllipsis && labels.find(kEllipsis) != labels.npos)
    runtime_error(std::string("einsum(): found \'.\' for ") + (in_operand ? "operand" : "output") +
                  " for which an ellipsis was already found");
  labels.push_back(label);
}

// Dims that an ellipsis stands for have labels before all letters: the last of them are those of each operand.
void expand_ellipses(Equation& equation, const std::vector<int>& ranks, Framework framework) {
  const auto dims_of = [&](size_t i) {
    const int named = static_cast<int>(equation.operands[i].size()) - 1;
    if (named > ranks[i])
      runtime_error("einsum(): the number of subscripts in the equation (" + std::to_string(named) +
                    ") is more than the number of dimensions (" + std::to_string(ranks[i]) +
                    ") for an operand");
    return ranks[i] - named;
  };
  std::vector<int> dims(ranks.size(), 0);
  for (size_t i = 0; i < ranks.size(); ++i)
    if (equation.operands[i].find(kEllipsis) != std::string::npos) dims[i] = dims_of(i);
  const int most = *std::max_element(dims.begin(), dims.end());
  if (most >= kEllipsis) throw Unsupported("einsum with an ellipsis of so many dims");
  const auto expand = [&](std::string& labels, int count) {
    const size_t at = labels.find(kEllipsis);
    if (at == labels.npos) return false;
    labels.erase(at, 1);
    for (int i = 0; i < count; ++i) labels.insert(labels.begin() + at, static_cast<char>(most - i));
    return true;
  };
  for (size_t i = 0; i < ranks.size(); ++i) expand(equation.operands[i], dims[i]);
  if (!expand(equation.output, most) && most > 0 && framework == Framework::kNumpy)
    throw Unsupported("einsum with an ellipsis that the output lacks");
}

Equation parse_equation(std::string_view text, const std::vector<int>& ranks, Framework framework) {
  Equation equation;
  equation.operands.emplace_back();
  std::string* at = &equation.operands.back();
  bool has_output = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == ' ') continue;
    if (c == ',' && !has_output) {
      at = &equation.operands.emplace_back();
    } else if (c == '-' && i + 1 < text.size() && text[i + 1] == '>' && !has_output) {
      has_output = true;
      at = &equation.output;
      ++i;
    } else if (text.substr(i, 3) == "...") {
      append_label(*at, kEllipsis, !has_output);
      i += 2;
    } else if (std::isalpha(static_cast<unsigned char>(c))) {
      append_label(*at, c, !has_output);
    } else {
      runtime_error("einsum(): invalid subscript given, subscripts must be in [a-zA-Z]");
    }
  }
  if (equation.operands.size() != ranks.size())
    runtime_error("einsum(): more operands were provided than specified in the equation");
  if (!has_output) {
    std::array<int, 256> count{};
    for (const std::string& labels : equation.operands)
      for (unsigned char label : labels) ++count[label];
    equation.output.push_back(kEllipsis);
    for (int label = 'A'; label < 256; ++label)
      if (count[label] == 1) equation.output.push_back(static_cast<char>(label));
  }
  expand_ellipses(equation, ranks, framework);
  return equation;
}

// The labels that are summed over, in the order of the alphabet.
std::string summed_labels(const Equation& equation) {
  std::string labels;
  for (const std::string& operand : equation.operands)
    for (char label : operand)
      if (equation.output.find(label) == equation.output.npos && labels.find(label) == labels.npos)
        labels.push_back(label);
  std::sort(labels.begin(), labels.end());
  return labels;
}

// The operand with one dim for each label of `order`; of size 1 where it lacks the label.
Tensor laid_out(Tensor x, std::string labels, const std::string& order) {
  if (static_cast<int>(labels.size()) != x.rank())
    runtime_error("einsum(): the number of subscripts in the equation (" + std::to_string(labels.size()) +
                  ") does not match the number of dimensions (" + std::to_string(x.rank()) +
                  ") for an operand");
  for (size_t i = 0; i < labels.size(); ++i) {
    const size_t again = labels.find(labels[i], i + 1);
    if (again == labels.npos) continue;
    if (!x.builder->sym().guard_eq(x.size(static_cast<int64_t>(i)), x.size(static_cast<int64_t>(again)),
                                   "einsum"))
      runtime_error("einsum(): a subscript is repeated for dimensions of different sizes");
    x = wrap(*x.builder, x.builder->call1("core.diagonal", {x.value, Sym(0), Sym(static_cast<int64_t>(i)),
                                                            Sym(static_cast<int64_t>(again))}));
    labels.push_back(labels[i]);
    labels.erase(again, 1);
    labels.erase(i, 1);
    --i;
  }
  Dims place;
  for (char label : order) {
    const size_t at = labels.find(label);
    place.push_back(at == labels.npos ? x.rank() : static_cast<int64_t>(at));
    if (at == labels.npos) x = unsqueeze(x, x.rank());
  }
  return permute(x, place);
}

// Mirrors sumproduct_pair of ATen's Linear.cpp: a product of two tensors of equal rank, summed over dims,
// which are kept.
Tensor sum_of_products(Tensor left, Tensor right, const Dims& dims) {
  if (dims.empty()) return left * right;
  Dims both, only_left, only_right;
  Sym both_size = 1, left_size = 1, right_size = 1, sum_size = 1;
  for (int64_t d = 0; d < left.rank(); ++d) {
    const bool in_left = !is_one(left, d), in_right = !is_one(right, d);
    if (std::find(dims.begin(), dims.end(), d) != dims.end()) {
      if (in_left && in_right)
        sum_size = sum_size * left.size(d);
      else if (in_left)
        left = sum(left, {d}, true);
      else if (in_right)
        right = sum(right, {d}, true);
    } else if (in_left && in_right) {
      both.push_back(d);
      both_size = both_size * left.size(d);
    } else if (in_left) {
      only_left.push_back(d);
      left_size = left_size * left.size(d);
    } else {
      only_right.push_back(d);
      right_size = right_size * right.size(d);
    }
  }
  // The operands change places where that leaves the output's dims in order.
  if (!only_left.empty() && !only_right.empty() && only_right.back() < only_left.front()) {
    std::swap(left, right);
    std::swap(only_left, only_right);
    std::swap(left_size, right_size);
  }
  const auto joined = [](std::initializer_list<Dims> parts) {
    Dims all;
    for (const Dims& part : parts) all.insert(all.end(), part.begin(), part.end());
    return all;
  };
  const Dims result_order = joined({both, only_left, dims, only_right});
  std::vector<Sym> sizes;
  for (int64_t d : both) sizes.push_back(left.size(d));
  for (int64_t d : only_left) sizes.push_back(left.size(d));
  for (size_t i = 0; i < dims.size(); ++i) sizes.emplace_back(1);
  for (int64_t d : only_right) sizes.push_back(right.size(d));
  Dims place(result_order.size());
  for (size_t i = 0; i < result_order.size(); ++i) place[result_order[i]] = static_cast<int64_t>(i);
  Tensor x =
      reshape(permute(left, joined({both, only_left, dims, only_right})), {both_size, left_size, sum_size});
  Tensor y =
      reshape(permute(right, joined({both, dims, only_right, only_left})), {both_size, sum_size, right_size});
  return permute(reshape(bmm(x, y), sizes), place);
}

void broadcast_together(const std::vector<Tensor>& operands, const std::string& order) {
  for (size_t d = 0; d < order.size(); ++d) {
    const Tensor* first = nullptr;
    for (const Tensor& x : operands) {
      if (is_one(x, static_cast<int64_t>(d))) continue;
      if (first && !x.builder->sym().guard_eq(x.size(static_cast<int64_t>(d)),
                                              first->size(static_cast<int64_t>(d)), "einsum"))
        runtime_error("einsum(): operands do not broadcast with remapped shapes");
      first = &x;
    }
  }
}

std::vector<Value*> einsum_body(Builder& b, const Args& args) {
  std::vector<Tensor> operands;
  for (Value* value : args.values("tensors")) operands.push_back(wrap(b, value));
  if (args.has("path") && operands.size() > 2)
    throw Unsupported("einsum of more than two operands with a path");
  std::vector<int> ranks;
  for (const Tensor& x : operands) ranks.push_back(static_cast<int>(x.rank()));
  const Equation equation = parse_equation(args.string("equation"), ranks, b.graph().framework);
  const std::string summed = summed_labels(equation), order = equation.output + summed;
  const int64_t kept = static_cast<int64_t>(equation.output.size()),
                rank = static_cast<int64_t>(order.size());
  for (size_t i = 0; i < operands.size(); ++i) {
    if (operands[i].dtype() != operands[0].dtype()) throw Unsupported("einsum of several dtypes");
    if (operands.size() > 1) require_float_operand(operands[i], "einsum");
    operands[i] = laid_out(operands[i], equation.operands[i], order);
  }
  broadcast_together(operands, order);
  if (operands.size() == 1) {
    if (rank == kept) return one(operands[0]);
    return one(
        sum(is_float(operands[0].dtype()) ? operands[0] : cast(operands[0], DType::kI64), range(kept, rank)));
  }
  std::vector<int> count(rank, 0);
  for (const Tensor& x : operands)
    for (int64_t d = 0; d < rank; ++d) count[d] += !is_one(x, d);
  Tensor result = operands[0];
  for (size_t i = 1; i < operands.size(); ++i) {
    Tensor next = operands[i];
    Dims dims, left, right;
    for (int64_t d = kept; d < rank; ++d) {
      if (!is_one(result, d) && !is_one(next, d)) {
        if (--count[d] == 1) dims.push_back(d), count[d] = 0;
      } else if (count[d] == 1) {
        if (!is_one(result, d))
          left.push_back(d), count[d] = 0;
        else if (!is_one(next, d))
          right.push_back(d), count[d] = 0;
      }
    }
    if (!left.empty()) result = sum(result, left, true);
    if (!right.empty()) next = sum(next, right, true);
    result = sum_of_products(result, next, dims);
  }
  return one(reshape(result, {result.sizes().begin(), result.sizes().begin() + kept}));
}

// Of one operand without a sum the result is a view.
Alias einsum_alias(const Node& node) {
  const auto& tensors = std::get<std::vector<Value*>>(node.args[1]);
  if (tensors.size() != 1) return Alias::kNone;
  const Equation equation =
      parse_equation(std::get<std::string>(node.args[0]), {tensors[0]->type.rank()}, node.framework);
  return summed_labels(equation).empty() ? Alias::kView : Alias::kNone;
}

// ---- products

// As ATen's tensordot has a result of one element: where a permutation is not contiguous the products are
// rounded before they are summed.
Tensor dot_in_order(Tensor x, const Dims& x_order, Tensor y, const Dims& y_order) {
  const auto ordered = [](Tensor t, const Dims& order) {
    TensorType type = t.type();
    for (size_t d = 0; d < order.size(); ++d) {
      type.sizes[d] = t.size(order[d]);
      type.strides[d] = t.type().strides[order[d]];
    }
    return is_contiguous(t.builder->sym(), type);
  };
  const bool contiguous = ordered(x, x_order) && ordered(y, y_order);
  const auto flat = [&](Tensor t, const Dims& order) {
    t = permute(t, order);
    std::vector<Sym> sizes;
    for (const Sym& size : t.sizes())
      if (!t.builder->sym().guard_eq(size, 1, "tensordot")) sizes.push_back(size);
    return reshape(t, contiguous ? std::vector<Sym>{count_along(t, range(0, t.rank()))} : sizes);
  };
  Tensor left = flat(x, x_order), right = flat(y, y_order);
  if (contiguous) return mm(unsqueeze(left, 0), unsqueeze(right, 1));
  return sum(left * right, range(0, left.rank()));
}

std::vector<Value*> tensordot_body(Builder& b, const Args& args) {
  Tensor x = operand(b, args, "self"), y = operand(b, args, "other");
  require_float_operand(x, "tensordot");
  if (x.dtype() != y.dtype()) runtime_error("both inputs should have same dtype");
  Dims left = args.constants("dims_self"), right = args.constants("dims_other");
  if (left.size() != right.size()) runtime_error("both dimension lists should have same length");
  wrap_dims(left, x.rank(), false), wrap_dims(right, y.rank(), false);  // none twice
  Sym shared = 1, rows = 1, columns = 1;
  for (size_t i = 0; i < left.size(); ++i) {
    left[i] = wrap_dim(left[i], x.rank());
    right[i] = wrap_dim(right[i], y.rank());
    if (is_one(y, right[i]))
      x = sum(x, {left[i]}, true);
    else if (is_one(x, left[i]))
      y = sum(y, {right[i]}, true);
    else if (!b.sym().expect_eq(x.size(left[i]), y.size(right[i]), "tensordot"))
      runtime_error("contracted dimensions need to match, but first has size " + x.size(left[i]).str() +
                    " in dim " + std::to_string(left[i]) + " and second has size " + y.size(right[i]).str() +
                    " in dim " + std::to_string(right[i]));
    shared = shared * x.size(left[i]);
  }
  Dims x_order, y_order = right;
  std::vector<Sym> sizes;
  for (int64_t d = 0; d < x.rank(); ++d) {
    if (std::find(left.begin(), left.end(), d) != left.end()) continue;
    x_order.push_back(d);
    rows = rows * x.size(d);
    sizes.push_back(x.size(d));
  }
  x_order.insert(x_order.end(), left.begin(), left.end());
  for (int64_t d = 0; d < y.rank(); ++d) {
    if (std::find(right.begin(), right.end(), d) != right.end()) continue;
    y_order.push_back(d);
    columns = columns * y.size(d);
    sizes.push_back(y.size(d));
  }
  const bool is_number = b.sym().guard_eq(rows * columns, 1, "tensordot");
  if (is_number) return one(reshape(dot_in_order(x, x_order, y, y_order), sizes));
  return one(reshape(
      mm(reshape(permute(x, x_order), {rows, shared}), reshape(permute(y, y_order), {shared, columns})),
      sizes));
}

std::vector<Value*> kron_body(Builder& b, const Args& args) {
  Tensor x = operand(b, args, "self"), y = operand(b, args, "other");
  while (x.rank() < y.rank()) x = unsqueeze(x, 0);
  while (y.rank() < x.rank()) y = unsqueeze(y, 0);
  std::vector<Sym> left, right, sizes;
  for (int64_t d = 0; d < x.rank(); ++d) {
    left.insert(left.end(), {x.size(d), 1});
    right.insert(right.end(), {1, y.size(d)});
    sizes.push_back(x.size(d) * y.size(d));
  }
  return one(reshape(reshape(x, left) * reshape(y, right), sizes));
}

Tensor cross_along(Builder& b, Tensor x, Tensor y, int64_t dim) {
  const std::vector<Sym> sizes = broadcast_sizes(b.graph(), x.sizes(), y.sizes());
  if (x.rank() != y.rank()) runtime_error("linalg.cross: inputs must have the same number of dimensions.");
  if (!b.sym().guard_eq(x.size(dim), 3, "cross") || !b.sym().guard_eq(y.size(dim), 3, "cross"))
    runtime_error("linalg.cross: inputs dimension " + std::to_string(dim) + " must have length 3. Got " +
                  x.size(dim).str() + " and " + y.size(dim).str());
  x = expand(x, sizes);
  y = expand(y, sizes);
  const auto part = [dim](Tensor t, int64_t i) { return slice(t, dim, i % 3, 1); };
  std::vector<Tensor> parts;
  for (int64_t i = 0; i < 3; ++i)
    parts.push_back(part(x, i + 1) * part(y, i + 2) - part(x, i + 2) * part(y, i + 1));
  return concat(parts, dim);
}

std::vector<Value*> cross_body(Builder& b, const Args& args) {
  Tensor x = operand(b, args, "self"), y = operand(b, args, "other");
  if (x.dtype() != y.dtype()) throw Unsupported("cross of several dtypes");
  if (x.rank() != y.rank()) runtime_error("linalg.cross: inputs must have the same number of dimensions.");
  if (args.has("dim")) return one(cross_along(b, x, y, wrap_dim(args.constant("dim"), x.rank())));
  for (int64_t d = 0; d < x.rank(); ++d)
    if (b.sym().guard_eq(x.size(d), 3, "cross")) return one(cross_along(b, x, y, d));
  runtime_error("no dimension of size 3 in input");
}

std::vector<Value*> vecdot_body(Builder& b, const Args& args) {
  Tensor x = operand(b, args, "x"), y = operand(b, args, "y");
  require_float_operand(x, "linalg.vecdot");
  if (x.dtype() != y.dtype()) throw Unsupported("vecdot of several dtypes");
  Tensor products = to_compute(x) * to_compute(y);
  return one(cast(sum(products, {wrap_dim(args.constant("dim"), products.rank())}), x.dtype()));
}

std::vector<Value*> trace_body(Builder& b, const Args& args) {
  Tensor x = operand(b, args, "self");
  if (x.rank() != 2)
    runtime_error("trace: expected a matrix, but got tensor with dim " + std::to_string(x.rank()));
  if (x.dtype() == DType::kBool && b.graph().framework == Framework::kTorch)
    runtime_error("\"trace\" not implemented for 'Bool'");
  Tensor diagonal = wrap(b, b.call1("core.diagonal", {x.value, Sym(0), Sym(0), Sym(1)}));
  return one(sum(is_float(x.dtype()) ? diagonal : cast(diagonal, DType::kI64), {0}));
}

// ---- distances and norms

void require_nonempty(Builder& b, Tensor x, const Dims& dims, const char* name) {
  for (int64_t dim : dims)
    if (b.sym().guard_eq(x.size(dim), 0, name)) throw Unsupported(std::string(name) + " of no elements");
}

std::vector<Value*> cdist_body(Builder& b, const Args& args) {
  Tensor x = operand(b, args, "x1"), y = operand(b, args, "x2");
  if (x.rank() < 2 || y.rank() < 2) runtime_error("cdist only supports at least 2D tensors");
  if (is_half(x.dtype())) throw Unsupported("cdist of half types");
  require_float_operand(x, "cdist");
  if (x.dtype() != y.dtype()) throw Unsupported("cdist of several dtypes");
  if (!b.sym().expect_eq(x.size(-1), y.size(-1), "cdist"))
    runtime_error("X1 and X2 must have the same number of columns. X1: " + x.size(-1).str() +
                  " X2: " + y.size(-1).str());
  const double p = args.number("p");
  if (p < 0) runtime_error("cdist only supports non-negative p values");
  require_nonempty(b, x, {x.rank() - 1}, "cdist");
  Tensor difference = unsqueeze(x, -2) - unsqueeze(y, -3);
  return one(p_norm(difference, p, {difference.rank() - 1}, false));
}

std::vector<Value*> pairwise_distance_body(Builder& b, const Args& args) {
  Tensor difference = operand(b, args, "x1") - operand(b, args, "x2") + args.number("eps");
  if (difference.rank() == 0 || is_half(difference.dtype())) throw Unsupported("pairwise_distance of these");
  require_float_operand(difference, "pairwise_distance");
  const Dims dims = {difference.rank() - 1};
  require_nonempty(b, difference, dims, "pairwise_distance");
  return one(p_norm(difference, args.number("p"), dims, args.boolean("keepdim")));
}

// The greatest (or least) sum of magnitudes of the columns (1) or rows (inf); Frobenius.
Tensor matrix_norm(Builder& b, Tensor x, const Arg& ord, Dims dims, bool keepdim) {
  if (dims[0] == dims[1])
    runtime_error(
        absl::StrCat("linalg.matrix_norm: dims must be different. Got (", dims[0], ", ", dims[1], ")"));
  require_nonempty(b, x, dims, "matrix norm");
  const auto* kind = std::get_if<std::string>(&ord);
  if (kind && *kind == "fro") return p_norm(x, 2, dims, keepdim);
  const double* number = std::get_if<double>(&ord);
  const auto* integer = std::get_if<Sym>(&ord);
  const double p = number                              ? *number
                   : integer && integer->is_constant() ? static_cast<double>(integer->constant())
                                                       : 2;
  if (kind || (std::abs(p) != 1 && !std::isinf(p)))
    throw Unsupported("a norm of matrices by singular values");
  if (std::isinf(p)) std::swap(dims[0], dims[1]);
  Tensor sums = sum(abs(x), {dims[0]}, true);
  Tensor result = p > 0 ? amax(sums, {dims[1]}, true) : amin(sums, {dims[1]}, true);
  if (keepdim) return result;
  return squeeze(squeeze(result, std::max(dims[0], dims[1])), std::min(dims[0], dims[1]));
}

Tensor norm_operand(Builder& b, const Args& args, const char* name) {
  const char* first = args.schema().params[0].name == "A" ? "A" : "self";
  Tensor x = operand(b, args, first);
  if (!is_float(x.dtype()))
    runtime_error(std::string(name) + ": Expected a floating point or complex tensor as input.");
  if (args.has("dtype") || is_half(x.dtype())) throw Unsupported(std::string(name) + " in another dtype");
  return x;
}

std::vector<Value*> matrix_norm_body(Builder& b, const Args& args) {
  Tensor x = norm_operand(b, args, "linalg.matrix_norm");
  Dims dims = args.constants("dim");
  if (dims.size() != 2) runtime_error("linalg.matrix_norm: dim must be a 2-tuple.");
  if (x.rank() < 2) runtime_error("linalg.matrix_norm: The input tensor must have at least 2 dimensions.");
  for (int64_t& dim : dims) dim = wrap_dim(dim, x.rank());
  return one(matrix_norm(b, x, args["ord"], dims, args.boolean("keepdim")));
}

std::vector<Value*> linalg_norm_body(Builder& b, const Args& args) {
  Tensor x = norm_operand(b, args, "linalg.norm");
  const bool keepdim = args.boolean("keepdim");
  Dims dims = range(0, x.rank());
  if (args.has("dim")) {
    dims = args.constants("dim");
    for (int64_t& dim : dims) dim = wrap_dim(dim, x.rank());
  }
  if (!args.has("ord")) return one(p_norm(x, 2, dims, keepdim));
  if (!args.has("dim") && x.rank() != 1 && x.rank() != 2)
    runtime_error("linalg.norm: If dim is not specified but ord is, the input must be 1D or 2D.");
  require_nonempty(b, x, dims, "linalg.norm");
  if (dims.size() == 2) return one(matrix_norm(b, x, args["ord"], dims, keepdim));
  if (std::holds_alternative<std::string>(args["ord"])) throw Unsupported("such a norm of vectors");
  return one(p_norm(x, args.number("ord"), dims, keepdim));
}

// torch.einsum is written in Python over this one, and is inlined.
OpDef einsum_entry() {
  OpDef op =
      composite("core.einsum", {"core.einsum(str equation, Tensor[] tensors, *, int[]? path=None) -> Tensor"},
                einsum_body, {"torch._C._VariableFunctions.einsum"}, nullptr);
  op.opinfo = "einsum";
  op.alias = einsum_alias;
  return op;
}

}  // namespace

std::vector<OpDef> linalg_like_ops() {
  return {
      einsum_entry(),
      composite("core.tensordot",
                {"core.tensordot(Tensor self, Tensor other, int[] dims_self, int[] dims_other) -> Tensor"},
                tensordot_body, {"torch._C._VariableFunctions.tensordot"}),
      composite("kron", {"kron(Tensor self, Tensor other) -> Tensor"}, kron_body, {}, nullptr),
      composite("linalg_cross", {"linalg_cross(Tensor self, Tensor other, *, int dim=-1) -> Tensor"},
                cross_body, {"torch.linalg.cross"}),
      composite("cross", {"cross(Tensor self, Tensor other, int? dim=None) -> Tensor"}, cross_body),
      composite("linalg_vecdot", {"linalg_vecdot(Tensor x, Tensor y, *, int dim=-1) -> Tensor"}, vecdot_body,
                {"torch.linalg.vecdot"}),
      composite("trace", {"trace(Tensor self) -> Tensor"}, trace_body),
      composite("cdist", {"cdist(Tensor x1, Tensor x2, float p=2, int? compute_mode=None) -> Tensor"},
                cdist_body),
      composite("pairwise_distance",
                {"pairwise_distance(Tensor x1, Tensor x2, float p=2, float eps=1e-06, bool keepdim=False) -> "
                 "Tensor"},
                pairwise_distance_body, {"torch.nn.functional.pairwise_distance"}),
      composite(
          "linalg_matrix_norm",
          {"linalg_matrix_norm.str_ord(Tensor self, str ord='fro', int[] dim=[-2,-1], bool keepdim=False, "
           "*, ScalarType? dtype=None) -> Tensor",
           "linalg_matrix_norm(Tensor self, Scalar ord, int[] dim=[-2,-1], bool keepdim=False, *, "
           "ScalarType? dtype=None) -> Tensor"},
          matrix_norm_body, {"torch.linalg.matrix_norm"}),
      composite(
          "linalg_norm",
          {"linalg_norm(Tensor self, Scalar? ord=None, int[1]? dim=None, bool keepdim=False, *, "
           "ScalarType? dtype=None) -> Tensor",
           "linalg_norm.ord_str(Tensor self, str ord, int[1]? dim=None, bool keepdim=False, *, ScalarType? "
           "dtype=None) -> Tensor"},
          linalg_norm_body, {"torch.linalg.norm"}),
  };
}

}  // namespace cdynamo::graph
