// Matrix products: mm, bmm, matmul, linear, addmm and their kin. All become core.mm, core.bmm and, where product and sum are one
// call, core.addmm.
#include "graph/ops/entry.h"
#include "graph/promotion.h"

namespace cdynamo::graph {
namespace {

Tensor first_operand(Builder& b, const Args& args) { return operand(b, args, args.schema().params[0].name); }

std::string shape_text(Tensor x) { return sizes_text(x.sizes()); }

void same_dtype(Tensor a, Tensor b) {
  if (a.dtype() == b.dtype()) return;
  runtime_error(std::string("expected m1 and m2 to have the same dtype, but got: ") +
                runtime::info(a.dtype()).name + " != " + runtime::info(b.dtype()).name);
}
void require_rank(Tensor x, int rank, const char* what) {
  if (x.rank() != rank) runtime_error(std::string(what) + " must be a matrix" + (rank == 3 ? " batch" : ""));
}
void same_size(Tensor x, const Sym& a, const Sym& b, const std::string& message) {
  if (!x.builder->sym().expect_eq(a, b, "matmul")) runtime_error(message);
}
void refuse_bool(Tensor x) {
  if (x.dtype() == DType::kBool) runtime_error("\"addmm_impl_cpu_\" not implemented for 'Bool'");
}

void check_mm(Tensor a, Tensor b) {
  same_dtype(a, b);
  refuse_bool(a);
  require_rank(a, 2, "self");
  require_rank(b, 2, "mat2");
  same_size(a, a.size(1), b.size(0),
            "mat1 and mat2 shapes cannot be multiplied (" + a.size(0).str() + "x" + a.size(1).str() +
                " and " + b.size(0).str() + "x" + b.size(1).str() + ")");
}
void check_bmm(Tensor a, Tensor b) {
  same_dtype(a, b);
  refuse_bool(a);
  require_rank(a, 3, "batch1");
  require_rank(b, 3, "batch2");
  std::string message = "Expected size for first two dimensions of batch2 tensor to be: [" + a.size(0).str() +
                        ", " + a.size(2).str() + "] but got: [" + b.size(0).str() + ", " + b.size(1).str() +
                        "].";
  same_size(a, a.size(0), b.size(0), message);
  same_size(a, a.size(2), b.size(1), message);
}
Tensor checked_mm(Tensor a, Tensor b) { return check_mm(a, b), mm(a, b); }
Tensor checked_bmm(Tensor a, Tensor b) { return check_bmm(a, b), bmm(a, b); }

// A product of vectors, as a sum; half types are multiplied and summed in float32.
Tensor dot(Tensor a, Tensor b) {
  same_dtype(a, b);
  refuse_bool(a);
  same_size(a, a.size(0), b.size(0),
            "inconsistent tensor size, expected tensor " + shape_text(a) + " and src " + shape_text(b) +
                " to have the same number of elements, but got different");
  return cast(sum(to_compute(a) * to_compute(b), {0}), a.dtype());
}

// (.., K) x (K, N) as one matrix product: `multiply` gets matrices.
template <typename F>
Tensor fold(Tensor a, Tensor matrix, F&& multiply) {
  std::vector<Sym> sizes(a.sizes().begin(), a.sizes().end() - 1);
  Sym rows = 1;
  for (const Sym& size : sizes) rows = rows * size;
  Tensor product = multiply(reshape(a, {rows, a.size(-1)}), matrix);
  sizes.push_back(matrix.size(1));
  return reshape(product, sizes);
}

// Whether eager rounds a product and what is added to it once, or has a library that adds for free.
bool adds_in_product(Tensor a) { return is_half(a.dtype()) || (is_float(a.dtype()) && on_gpu(a)); }

// beta * addend + alpha * (a @ b), rounded once.
Tensor fused_addmm(Tensor a, Tensor b, Tensor addend, double beta = 1, double alpha = 1) {
  a.rank() == 2 ? check_mm(a, b) : check_bmm(a, b);
  std::vector<Sym> sizes(a.sizes().begin(), a.sizes().end() - 1);
  sizes.push_back(b.size(-1));
  return wrap(*a.builder,
              a.builder->call1("core.addmm", {a.value, b.value, expand(addend, sizes).value, beta, alpha}));
}

Tensor batched(Tensor a, Tensor b) {
  std::vector<Sym> left(a.sizes().begin(), a.sizes().end() - 2),
      right(b.sizes().begin(), b.sizes().end() - 2);
  std::vector<Sym> batch = broadcast_sizes(a.builder->graph(), left, right);
  Sym count = 1;
  for (const Sym& size : batch) count = count * size;
  auto flatten = [&](Tensor x) {
    std::vector<Sym> sizes = batch;
    sizes.insert(sizes.end(), x.sizes().end() - 2, x.sizes().end());
    return reshape(expand(x, sizes), {count, x.size(-2), x.size(-1)});
  };
  Tensor product = checked_bmm(flatten(a), flatten(b));
  std::vector<Sym> sizes = batch;
  sizes.insert(sizes.end(), {a.size(-2), b.size(-1)});
  return reshape(product, sizes);
}

Tensor matmul_of(Tensor a, Tensor b) {
  if (a.rank() == 0 || b.rank() == 0)
    runtime_error("both arguments to matmul need to be at least 1D, but they are " +
                  std::to_string(a.rank()) + "D and " + std::to_string(b.rank()) + "D");
  same_dtype(a, b);
  if (a.rank() == 1 && b.rank() == 1) return dot(a, b);
  if (a.rank() == 1) return squeeze(matmul_of(unsqueeze(a, 0), b), -2);
  if (b.rank() == 1) return squeeze(matmul_of(a, unsqueeze(b, 1)), -1);
  if (b.rank() == 2) return a.rank() == 2 ? checked_mm(a, b) : fold(a, b, checked_mm);
  // Eager multiplies the transposed matrices, which shows in the gradient's strides.
  if (a.rank() == 2) b = transpose(own(transpose(b, -1, -2)), -1, -2);
  return batched(a, b);
}

// beta * self + alpha * product.
Tensor scaled_sum(const Args& args, Tensor self, Tensor product) {
  if (self.dtype() != product.dtype()) runtime_error("self and mat2 must have the same dtype");
  if (!is_float(product.dtype()) &&
      (std::holds_alternative<double>(args["alpha"]) || std::holds_alternative<double>(args["beta"])))
    throw Unsupported("integer products with float factors");
  Builder& b = *product.builder;
  const DType dtype = product.dtype();
  Tensor bias = expand(self, product.sizes());
  double alpha = args.number("alpha"), beta = args.number("beta");
  if (alpha != 1 || beta != 1) {
    product = to_compute(product);
    bias = to_compute(bias);
  }
  Tensor result = alpha == 1 ? product : product * Operand(args["alpha"], &b);
  if (beta == 0) return follow(cast(result, dtype), self);
  Tensor wide = beta == 1 ? bias : bias * Operand(args["beta"], &b);
  return cast(result + wide, dtype);
}

Tensor outer(Tensor a, Tensor b) {
  if (a.rank() != 1 || b.rank() != 1) runtime_error("outer: Expected 1-D argument");
  return unsqueeze(a, 1) * unsqueeze(b, 0);
}

std::vector<Value*> addr_body(Builder& b, const Args& args) {
  Tensor self = first_operand(b, args), product = outer(operand(b, args, "vec1"), operand(b, args, "vec2"));
  if (self.dtype() != DType::kBool || product.dtype() != DType::kBool)
    return one(scaled_sum(args, self, product));
  // beta and alpha say which of the two count.
  if (args.number("alpha") == 0) product = full_like(product, false);
  if (args.number("beta") == 0) return one(product);
  return one(logical_or(expand(self, product.sizes()), product));
}

// beta * self + alpha * (a @ b), of matrices or of batches of them.
Tensor scaled_product(const Args& args, Tensor self, Tensor a, Tensor b) {
  if (adds_in_product(a) && a.dtype() == b.dtype() && self.dtype() == a.dtype())
    return fused_addmm(a, b, self, args.number("beta"), args.number("alpha"));
  return scaled_sum(args, self, a.rank() == 3 ? checked_bmm(a, b) : checked_mm(a, b));
}

std::vector<Value*> addmm_body(Builder& b, const Args& args) {
  Tensor left = operand(b, args, "mat1"), right = operand(b, args, "mat2");
  require_rank(left, 2, "self");
  return one(scaled_product(args, first_operand(b, args), left, right));
}
std::vector<Value*> baddbmm_body(Builder& b, const Args& args) {
  Tensor left = operand(b, args, "batch1"), right = operand(b, args, "batch2");
  require_rank(left, 3, "batch1");
  return one(scaled_product(args, first_operand(b, args), left, right));
}
std::vector<Value*> addbmm_body(Builder& b, const Args& args) {
  Tensor product = checked_bmm(operand(b, args, "batch1"), operand(b, args, "batch2"));
  return one(scaled_sum(args, first_operand(b, args), sum(product, {0})));
}
std::vector<Value*> addmv_body(Builder& b, const Args& args) {
  Tensor self = first_operand(b, args), mat = operand(b, args, "mat"), vec = operand(b, args, "vec");
  require_rank(mat, 2, "mat");
  require_rank(vec, 1, "vec");
  Tensor column = self.rank() == 0 ? self : unsqueeze(self, 1);
  return one(squeeze(scaled_product(args, column, mat, unsqueeze(vec, 1)), 1));
}

std::vector<Value*> mv_body(Builder& b, const Args& args) {
  Tensor self = first_operand(b, args), vec = operand(b, args, "vec");
  if (self.rank() != 2 || vec.rank() != 1)
    runtime_error("vector + matrix @ vector expected, got " + std::to_string(self.rank()) + ", " +
                  std::to_string(vec.rank()));
  return one(squeeze(checked_mm(self, unsqueeze(vec, 1)), 1));
}
std::vector<Value*> dot_body(Builder& b, const Args& args) {
  Tensor self = first_operand(b, args), other = operand(b, args, args.schema().params[1].name);
  if (self.rank() != 1 || other.rank() != 1)
    runtime_error("1D tensors expected, but got " + std::to_string(self.rank()) + "D and " +
                  std::to_string(other.rank()) + "D tensors");
  return one(dot(self, other));
}
std::vector<Value*> inner_body(Builder& b, const Args& args) {
  Tensor self = first_operand(b, args), other = operand(b, args, "other");
  if (self.rank() == 0 || other.rank() == 0) return one(self * other);
  if (other.rank() == 1) return one(matmul_of(self, other));
  std::vector<Sym> sizes(self.sizes().begin(), self.sizes().end() - 1);
  sizes.insert(sizes.end(), other.sizes().begin(), other.sizes().end() - 1);
  auto flat = [](Tensor x) {
    Sym rows = 1;
    for (int d = 0; d + 1 < x.rank(); ++d) rows = rows * x.size(d);
    return reshape(x, {rows, x.size(-1)});
  };
  return one(reshape(checked_mm(flat(self), transpose(flat(other), 0, 1)), sizes));
}

std::vector<Value*> linear_body(Builder& b, const Args& args) {
  Tensor input = operand(b, args, "input"), weight = operand(b, args, "weight");
  if (weight.rank() > 2) runtime_error("linear(): weight must be 1-D or 2-D");
  Tensor matrix = weight.rank() == 2 ? transpose(weight, 0, 1) : weight;
  if (!args.has("bias")) return one(matmul_of(input, matrix));
  Tensor bias = operand(b, args, "bias");
  if (weight.rank() == 1) runtime_error("mat2 must be a matrix, got 1-D tensor");
  if (bias.dtype() != input.dtype()) runtime_error("self and mat2 must have the same dtype");
  if (!adds_in_product(input) || matrix.rank() != 2 || input.rank() == 0) {
    const Tensor product = matmul_of(input, matrix), result = product + bias;
    if (result.sizes() != product.sizes()) throw Unsupported("linear with a bias that is larger");
    return one(result);
  }
  return one(
      fold(input, matrix, [&](Tensor rows, Tensor columns) { return fused_addmm(rows, columns, bias); }));
}

// self + a product: there is an in-place variant.
OpDef added_product(std::string_view name, std::string_view schema, BodyFn body) {
  return with_in_place_variant(composite(name, {schema}, body));
}

}  // namespace

std::vector<OpDef> matmul_ops() {
  return {
      composite("mm", {"mm(Tensor self, Tensor mat2) -> Tensor"},
                CDYNAMO_BODY(return one(checked_mm(first_operand(b, args), operand(b, args, "mat2"))))),
      composite("bmm", {"bmm(Tensor self, Tensor mat2) -> Tensor"},
                CDYNAMO_BODY(return one(checked_bmm(first_operand(b, args), operand(b, args, "mat2"))))),
      composite("matmul", {"matmul(Tensor self, Tensor other) -> Tensor"},
                CDYNAMO_BODY(return one(matmul_of(first_operand(b, args), operand(b, args, "other")))),
                {"torch.Tensor.__matmul__", "torch.linalg.matmul"}),
      composite("core.rmatmul", {"core.rmatmul(Tensor self, Tensor other) -> Tensor"},
                CDYNAMO_BODY(return one(matmul_of(operand(b, args, "other"), first_operand(b, args)))),
                {"torch.Tensor.__rmatmul__"}),
      composite("mv", {"mv(Tensor self, Tensor vec) -> Tensor"}, mv_body),
      composite("dot", {"dot(Tensor self, Tensor tensor) -> Tensor"}, dot_body),
      composite("vdot", {"vdot(Tensor self, Tensor other) -> Tensor"}, dot_body),
      composite("inner", {"inner(Tensor self, Tensor other) -> Tensor"}, inner_body),
      composite("outer", {"outer(Tensor self, Tensor vec2) -> Tensor"},
                CDYNAMO_BODY(return one(outer(first_operand(b, args), operand(b, args, "vec2")))),
                {"torch.ger", "torch.Tensor.ger"}),
      composite("linear", {"linear(Tensor input, Tensor weight, Tensor? bias=None) -> Tensor"}, linear_body),
      added_product(
          "addmm", "addmm(Tensor self, Tensor mat1, Tensor mat2, *, Scalar beta=1, Scalar alpha=1) -> Tensor",
          addmm_body),
      added_product(
          "baddbmm",
          "baddbmm(Tensor self, Tensor batch1, Tensor batch2, *, Scalar beta=1, Scalar alpha=1) -> Tensor",
          baddbmm_body),
      added_product(
          "addbmm",
          "addbmm(Tensor self, Tensor batch1, Tensor batch2, *, Scalar beta=1, Scalar alpha=1) -> Tensor",
          addbmm_body),
      added_product("addmv",
                    "addmv(Tensor self, Tensor mat, Tensor vec, *, Scalar beta=1, Scalar alpha=1) -> Tensor",
                    addmv_body),
      added_product("addr",
                    "addr(Tensor self, Tensor vec1, Tensor vec2, *, Scalar beta=1, Scalar alpha=1) -> Tensor",
                    addr_body),
  };
}

}  // namespace cdynamo::graph
