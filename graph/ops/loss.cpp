// Losses. `reduction`: 0 none, 1 mean, 2 sum.
#include <cmath>
#include <numbers>

#include "graph/ops/entry.h"
#include "graph/ops/indexing.h"
#include "graph/strides.h"

namespace cdynamo::graph {
namespace {

Dims all_dims(Tensor x) { return wrap_dims({}, x.rank()); }

// Of a loss in the compute type, with the result in `dtype`.
Tensor reduced(Tensor loss, int64_t reduction, DType dtype) {
  if (reduction == 1) loss = mean(loss, all_dims(loss));
  if (reduction == 2) loss = sum(loss, all_dims(loss));
  return cast(loss, dtype);
}
DType common(Builder& b, const Args& args) {
  DType a = operand_dtype(args, "self"), c = operand_dtype(args, "target");
  if (a != c) throw Unsupported("a loss of operands of several dtypes");
  if (!is_float(a)) throw Unsupported("a loss of integers");
  return a;
}

using ElementFn = Tensor (*)(const Args&, Tensor x, Tensor y);

Tensor squared_error(const Args&, Tensor x, Tensor y) {
  Tensor d = x - y;
  return d * d;
}
Tensor absolute_error(const Args&, Tensor x, Tensor y) { return abs(x - y); }
Tensor smooth_l1(const Args& args, Tensor x, Tensor y) {
  double beta = args.number("beta");
  if (!(beta >= 0)) runtime_error("smooth_l1_loss does not support negative values for beta.");
  Tensor z = abs(x - y);
  if (beta == 0) return z;
  // Of what is far the square is not formed: infinity would spoil its gradient.
  Tensor far = ge(z, beta), near = where(far, 0.0, z);
  return where(far, z - 0.5 * beta, near * 0.5 * near / beta);
}
Tensor huber(const Args& args, Tensor x, Tensor y) {
  double delta = args.number("delta");
  if (!(delta > 0)) runtime_error("huber_loss does not support non-positive values for delta.");
  Tensor z = abs(x - y), far = gt(z, delta), near = where(far, 0.0, z);
  return where(far, (z - 0.5 * delta) * delta, near * 0.5 * near);
}
// target * (log(target) - input); 0 where target is 0.
Tensor divergence(const Args& args, Tensor x, Tensor y) {
  if (args.boolean("log_target")) return exp(y) * (y - x);
  return apply("xlogy", {y, y}) - y * x;
}
Tensor poisson(const Args& args, Tensor x, Tensor y) {
  Tensor loss = args.boolean("log_input") ? exp(x) - y * x : x - y * log(x + args.number("eps"));
  if (!args.boolean("full")) return loss;
  Tensor stirling = y * log(y) - y + log(y * (2 * std::numbers::pi)) * 0.5;
  return loss + where(le(y, 1), 0.0, stirling);
}
Tensor hinge_embedding(const Args& args, Tensor x, Tensor y) {
  Tensor far = maximum(args.number("margin") - x, full(*x.builder, {}, 0.0, x.dtype()));
  return where(ne(y, -1), x, 0.0) + where(ne(y, 1), far, 0.0);
}

template <ElementFn element>
std::vector<Value*> loss_body(Builder& b, const Args& args) {
  DType dtype = common(b, args);
  Tensor x = to_compute(operand(b, args, "self")), y = to_compute(operand(b, args, "target"));
  return one(reduced(element(args, x, y), args.constant("reduction"), dtype));
}

// Eager's derivative is an expression of its own, which overflows in half types where the loss does not.
std::vector<Value*> soft_margin_body(Builder& b, const Args& args) {
  common(b, args);
  const int64_t reduction = args.constant("reduction");
  Tensor x = operand(b, args, "self"), y = operand(b, args, "target");
  Tensor z = exp(-y * x), loss = log1p(z);
  Tensor result = reduced(to_compute(loss), reduction, x.dtype());
  if (!is_half(x.dtype())) return one(result);
  Tensor slope = -(y * z);
  if (reduction == 1)
    slope =
        cast(to_compute(slope) * (full(b, {}, 1.0, DType::kF32) / Operand(slope.type().numel())), x.dtype());
  Tensor terms = with_slope(detach(loss), expand(x, loss.sizes()), slope / (z + 1));
  return one(with_slope(result, reduced(terms, reduction == 0 ? 0 : 2, x.dtype())));
}

// ---- two classes ----------------------------------------------------------------------------------------

std::vector<Value*> bce_with_logits_body(Builder& b, const Args& args) {
  DType dtype = common(b, args);
  Tensor x = to_compute(operand(b, args, "self")), y = to_compute(operand(b, args, "target"));
  if (x.sizes() != y.sizes())
    value_error("Target size (" + sizes_text(y.sizes()) + ") must be the same as input size (" +
                sizes_text(x.sizes()) + ")");
  Tensor smooth = apply("log_sigmoid", {x}), loss;
  if (args.has("pos_weight")) {
    Tensor factor = (to_compute(operand(b, args, "pos_weight")) - 1) * y + 1;
    loss = (1 - y) * x - factor * smooth;
  } else {
    loss = (1 - y) * x - smooth;
  }
  if (args.has("weight")) loss = loss * to_compute(operand(b, args, "weight"));
  return one(reduced(loss, args.constant("reduction"), dtype));
}

// 1 for each element; an error where one is no probability, which eager looks for.
Tensor ones_where_in_unit(Tensor x) {
  Builder& b = *x.builder;
  const Tensor inside = logical_and(ge(x, 0), le(x, 1));
  const Tensor index = where(inside, full(b, {}, Sym(0), DType::kI64), full(b, {}, Sym(1), DType::kI64));
  return core_index(full(b, {1}, 1.0, x.dtype()), {index}, kRuntimeError);
}

// Eager bounds the logarithms, and has derivatives of its own.
std::vector<Value*> bce_body(Builder& b, const Args& args) {
  const DType dtype = common(b, args);
  Tensor x = to_compute(operand(b, args, "self")), y = to_compute(operand(b, args, "target"));
  if (x.sizes() != y.sizes()) throw Unsupported("binary_cross_entropy of operands of different sizes");
  const Tensor x_log = log(x), rest_log = log1p(-x);
  Tensor loss = (y - 1) * maximum(rest_log, -100.0) - y * maximum(x_log, -100.0);
  loss = with_slope(detach(loss * ones_where_in_unit(x) * ones_where_in_unit(y)), x,
                    (x - y) / maximum((1 - x) * x, 1e-12));
  loss = loss + with_slope(full_like(y, 0.0), y, log(1 - x) - x_log);
  if (args.has("weight")) {
    const Tensor weight = operand(b, args, "weight");
    if (weight.value->requires_grad || weight.dtype() != dtype)
      throw Unsupported("binary_cross_entropy with a weight that requires grad, or of another dtype");
    loss = loss * to_compute(weight);
  }
  return one(reduced(loss, args.constant("reduction"), dtype));
}

// ---- many classes ---------------------------------------------------------------------------------------

const char* name_of_scalar(DType dtype) {
  return dtype == DType::kF16    ? "Half"
         : dtype == DType::kBF16 ? "BFloat16"
         : dtype == DType::kF32  ? "Float"
                                 : "Double";
}

void require_weight_of_classes(Tensor weight, const Sym& classes) {
  if (weight.rank() != 1 || !weight.builder->sym().guard_eq(weight.size(0), classes, "weight"))
    runtime_error("weight tensor should be defined either for all classes or no classes");
}

struct Picked {
  Tensor loss, weight;  // (N, d1 ..): 0 where the target is ignored
};

// -weight[target] * log_probability[target], which is scores[target] less `log_total` where that is there;
// the class dim is 1 (or 0 for one sample).
Picked pick(Builder& b, Tensor scores, Tensor log_total, Tensor target, const Args& args, int64_t ignore) {
  int64_t dim = scores.rank() == 1 ? 0 : 1;
  Tensor wide = cast(target, DType::kI64), used = ne(wide, Operand(ignore)),
         safe = where(used, wide, full(b, {}, Sym(0), DType::kI64));
  Sym classes = scores.size(dim);
  safe = where(lt(safe, 0), full(b, {}, classes, DType::kI64), safe);
  Tensor chosen = squeeze(gather(scores, unsqueeze(safe, dim), dim), dim);
  if (log_total.value) chosen = chosen - squeeze(log_total, dim);
  Tensor weight = full(b, chosen.sizes(), 1.0, chosen.dtype());
  if (args.has("weight")) {
    Tensor given = operand(b, args, "weight");
    require_weight_of_classes(given, classes);
    const DType wanted = operand_dtype(args, "self");
    if (given.dtype() != wanted)
      runtime_error(
          std::string("expected scalar type ") + name_of_scalar(wanted) + " but found " +
          (is_float(given.dtype()) ? name_of_scalar(given.dtype()) : runtime::info(given.dtype()).name));
    weight =
        wrap(b, b.call1("core.index", {cast(given, chosen.dtype()).value, std::vector<Value*>{safe.value}}));
  }
  weight = where(used, weight, 0.0);
  return {where(used, -(chosen * weight), 0.0), weight};
}

Tensor reduced(const Picked& p, int64_t reduction, DType dtype) {
  if (reduction == 0) return cast(p.loss, dtype);
  Tensor total = sum(p.loss, all_dims(p.loss));
  if (reduction == 1) total = total / sum(p.weight, all_dims(p.weight));
  return cast(total, dtype);
}

void check_classes(Builder& b, Tensor input, Tensor target) {
  if (input.rank() < 1) runtime_error("input tensor should be 1D or more");
  // Eager's errors tell more than one thing apart.
  if (target.rank() != input.rank() - 1) throw Unsupported("targets of another rank");
  for (int64_t d = 0; d < target.rank(); ++d)
    if (!b.sym().expect_eq(target.size(d), input.size(d == 0 ? 0 : d + 1), "target"))
      value_error("Expected input batch_size (" + input.size(0).str() + ") to match target batch_size (" +
                  target.size(0).str() + ").");
  if (target.dtype() != DType::kI64 && target.dtype() != DType::kU8)
    runtime_error(std::string("expected scalar type Long but found ") + runtime::info(target.dtype()).name);
}

std::vector<Value*> nll_loss_body(Builder& b, const Args& args) {
  Tensor input = operand(b, args, "self"), target = operand(b, args, "target");
  if (!is_float(input.dtype())) throw Unsupported("nll_loss of integers");
  check_classes(b, input, target);
  return one(reduced(pick(b, to_compute(input), {}, target, args, args.constant("ignore_index")),
                     args.constant("reduction"), input.dtype()));
}

// Times the weights of classes, where these are given.
Tensor weighted(Builder& b, const Args& args, Tensor terms, int64_t dim) {
  if (!args.has("weight")) return terms;
  Tensor weight = operand(b, args, "weight");
  require_weight_of_classes(weight, terms.size(dim));
  std::vector<Sym> shape(terms.rank(), 1);
  shape[dim] = terms.size(dim);
  return terms * reshape(cast(weight, terms.dtype()), shape);
}

// The target gives a probability for each class.
Tensor expected_loss(Builder& b, const Args& args, Tensor log_probability, Tensor target, int64_t dim,
                     double smoothing, int64_t reduction, DType dtype) {
  Tensor wanted = cast(target, log_probability.dtype());
  Sym classes = log_probability.size(dim);
  if (smoothing > 0)
    wanted = wanted * (1 - smoothing) + full(b, {}, smoothing, wanted.dtype()) / Operand(classes);
  Tensor terms = weighted(b, args, log_probability * wanted, dim);
  Tensor loss = -sum(terms, {dim});
  if (reduction == 0) return cast(loss, dtype);
  Tensor total = sum(loss, all_dims(loss));
  if (reduction == 1) total = total / Operand(floordiv(terms.type().numel(), classes));
  return cast(total, dtype);
}

// What exceeds the score of the target's class, less a margin; the rest is the library's, which has eager's errors.
std::vector<Value*> multi_margin_body(Builder& b, const Args& args) {
  Tensor self = operand(b, args, "self"), target = operand(b, args, "target");
  const double power = args.number("p");
  const bool is_covered = (self.dtype() == DType::kF32 || self.dtype() == DType::kF64) && self.rank() >= 1 &&
                          self.rank() <= 2 && target.rank() <= 1 && target.dtype() == DType::kI64 &&
                          (power == 1 || power == 2);
  if (!is_covered) throw Unsupported("multi_margin_loss of such operands");
  SymContext& sym = b.sym();
  const Sym rows = self.rank() == 2 ? self.size(0) : Sym(1), classes = self.size(self.rank() - 1);
  if (!sym.guard_eq(target.type().numel(), rows, "target") || !sym.guard(Relation::kLt, 0, rows, "target") ||
      !sym.guard(Relation::kLt, 0, classes, "classes"))
    throw Unsupported("multi_margin_loss of such sizes");
  Tensor x = reshape(self, {rows, classes}), places = reshape(target, {rows, 1});
  places = where(lt(places, 0), full(b, {}, classes, DType::kI64), places);  // out of range as well
  Tensor excess = args.number("margin") - gather(x, places, 1) + x;
  const Tensor counts = logical_and(gt(excess, 0), ne(iota(b, {1, classes}, 1, DType::kI64), places));
  excess = where(counts, excess, 0.0);
  Tensor loss = sum(power == 1 ? excess : excess * excess, {1}) / Operand(classes);
  if (args.has("weight")) {
    Tensor weight = operand(b, args, "weight");
    if (weight.value->requires_grad || weight.dtype() != x.dtype() || weight.rank() != 1 ||
        !sym.guard_eq(weight.size(0), classes, "weight"))
      throw Unsupported("multi_margin_loss with such weights");
    loss = loss * reshape(gather(weight, reshape(places, {rows}), 0), {rows});
  }
  if (args.constant("reduction") == 0) return one(reshape(loss, target.sizes()));
  return one(reduced(loss, args.constant("reduction"), self.dtype()));
}

std::vector<Value*> cross_entropy_body(Builder& b, const Args& args) {
  Tensor input = operand(b, args, "self"), target = operand(b, args, "target");
  double smoothing = args.number("label_smoothing");
  if (smoothing < 0 || smoothing > 1)
    runtime_error("label_smoothing must be between 0.0 and 1.0. Got: " + std::to_string(smoothing));
  bool probabilities = is_float(target.dtype()) && input.sizes() == target.sizes();
  if (!probabilities) check_classes(b, input, target);
  int64_t dim = input.rank() == 1 ? 0 : 1, ignore = args.constant("ignore_index"),
          reduction = args.constant("reduction");
  if (!is_float(input.dtype()))
    runtime_error("\"log_softmax_lastdim_kernel_impl\" not implemented for integers");
  Tensor x = to_compute(input), shifted = x - detach(amax(x, {dim}, true));
  Tensor log_total = log(sum(exp(shifted), {dim}, true)), log_probability = shifted - log_total;
  if (probabilities && ignore >= 0) runtime_error("ignore_index is not supported for floating point target");
  if (probabilities)
    return one(expected_loss(b, args, log_probability, target, dim, smoothing, reduction, input.dtype()));
  Picked picked = pick(b, shifted, log_total, target, args, ignore);
  if (smoothing == 0) return one(reduced(picked, reduction, input.dtype()));
  const Tensor over_classes = -sum(weighted(b, args, log_probability, dim), {dim});
  Tensor spread =
      where(ne(cast(target, DType::kI64), Operand(ignore)), over_classes, 0.0) / Operand(x.size(dim));
  picked.loss = picked.loss * (1 - smoothing) + spread * smoothing;
  return one(reduced(picked, reduction, input.dtype()));
}

bool is_reduced(const Args& args) { return args.constant("reduction") != 0; }
// One kernel in eager, where it is several steps here.
void order_of_operands(Graph& graph, const Args& args, std::vector<TensorType>& results) {
  if (!is_reduced(args)) strides_of_tensors(graph, args, results);
}
void order_like(std::string_view operand, Graph& graph, const Args& args, std::vector<TensorType>& results) {
  const TensorType& type = args.value(operand)->type;
  if (!is_reduced(args) && type.sizes == results[0].sizes)
    results[0].strides = preserved_strides(graph, type);
}
// These go to a tensor like the input,
void order_of_input(Graph& graph, const Args& args, std::vector<TensorType>& results) {
  order_like("self", graph, args, results);
}
// or to one that the input's negative made.
void order_of_negative(Graph& graph, const Args& args, std::vector<TensorType>& results) {
  const TensorType& self = args.value("self")->type;
  if (!is_reduced(args) && self.sizes == results[0].sizes)
    results[0].strides = elementwise_strides(*graph.sym, self.sizes, {&self});
}
// or, with logits, to one like the target.
void order_of_target(Graph& graph, const Args& args, std::vector<TensorType>& results) {
  order_like("target", graph, args, results);
}

OpDef loss(std::string_view name, std::string_view schema, BodyFn body, StridesFn strides = nullptr) {
  return composite(name, {schema}, body, {}, strides);
}

}  // namespace

std::vector<OpDef> loss_ops() {
  return {
      loss("mse_loss", "mse_loss(Tensor self, Tensor target, int reduction=Mean) -> Tensor",
           loss_body<squared_error>, order_of_operands),
      loss("l1_loss", "l1_loss(Tensor self, Tensor target, int reduction=Mean) -> Tensor",
           loss_body<absolute_error>),
      loss("smooth_l1_loss",
           "smooth_l1_loss(Tensor self, Tensor target, int reduction=Mean, float beta=1.0) -> Tensor",
           loss_body<smooth_l1>, order_of_operands),
      loss("huber_loss",
           "huber_loss(Tensor self, Tensor target, int reduction=Mean, float delta=1.0) -> Tensor",
           loss_body<huber>, order_of_input),
      loss("soft_margin_loss", "soft_margin_loss(Tensor self, Tensor target, int reduction=Mean) -> Tensor",
           soft_margin_body, order_of_negative),
      loss("kl_div",
           "kl_div(Tensor self, Tensor target, int reduction=Mean, *, bool log_target=False) -> Tensor",
           loss_body<divergence>),
      loss("poisson_nll_loss",
           "poisson_nll_loss(Tensor self, Tensor target, bool log_input, bool full, float eps, int "
           "reduction) -> Tensor",
           loss_body<poisson>),
      loss("hinge_embedding_loss",
           "hinge_embedding_loss(Tensor self, Tensor target, float margin=1.0, int reduction=Mean) -> Tensor",
           loss_body<hinge_embedding>),
      loss("binary_cross_entropy_with_logits",
           "binary_cross_entropy_with_logits(Tensor self, Tensor target, Tensor? weight=None, "
           "Tensor? pos_weight=None, int reduction=Mean) -> Tensor",
           bce_with_logits_body, order_of_target),
      loss("binary_cross_entropy",
           "binary_cross_entropy(Tensor self, Tensor target, Tensor? weight=None, int reduction=Mean) -> "
           "Tensor",
           bce_body, order_of_input),
      loss("multi_margin_loss",
           "multi_margin_loss(Tensor self, Tensor target, Scalar p=1, Scalar margin=1, Tensor? weight=None, "
           "int reduction=Mean) -> Tensor",
           multi_margin_body),
      loss("nll_loss_nd",
           "nll_loss_nd(Tensor self, Tensor target, Tensor? weight=None, int reduction=Mean, int "
           "ignore_index=-100) -> Tensor",
           nll_loss_body),
      loss("cross_entropy_loss",
           "cross_entropy_loss(Tensor self, Tensor target, Tensor? weight=None, int reduction=Mean, int "
           "ignore_index=-100, "
           "float label_smoothing=0.0) -> Tensor",
           cross_entropy_body),
  };
}

}  // namespace cdynamo::graph
