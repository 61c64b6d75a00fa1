// Comparisons, predicates, logic, and choice.
#include <limits>

#include "graph/ops/numpy_rules.h"
#include "graph/promotion.h"
#include "graph/strides.h"

namespace cdynamo::graph {
namespace {

template <Scalar (ScalarBuilder::*compare)(Scalar, Scalar)>
Scalar compare_scalar(ScalarBuilder& b, const Scalar* x, const Args&) {
  return (b.*compare)(x[0], x[1]);
}

OpDef comparison(std::string_view name, std::vector<std::string_view> schemas,
                 std::vector<std::string_view> torch_names, std::string_view numpy_name, ScalarFn scalar) {
  return {.name = name,
          .family = Family::kPointwise,
          .schemas = std::move(schemas),
          .torch_names = std::move(torch_names),
          .numpy_names = {numpy_name},
          .promotion = Promotion::kCompare,
          .scalar = scalar,
          .differentiable = false};
}

Scalar infinity(ScalarBuilder& b, Scalar like) {
  return b.constant(std::numeric_limits<double>::infinity(), like.dtype);
}
Scalar no(ScalarBuilder& b) { return b.constant_int(0, DType::kBool); }

Scalar isnan_scalar(ScalarBuilder& b, const Scalar* x, const Args&) {
  return is_float(x[0].dtype) ? b.ne(x[0], x[0]) : no(b);
}
Scalar isinf_scalar(ScalarBuilder& b, const Scalar* x, const Args&) {
  return is_float(x[0].dtype) ? b.eq(b.abs(x[0]), infinity(b, x[0])) : no(b);
}
Scalar isfinite_scalar(ScalarBuilder& b, const Scalar* x, const Args&) {
  return is_float(x[0].dtype) ? b.lt(b.abs(x[0]), infinity(b, x[0])) : b.constant_int(1, DType::kBool);
}
Scalar isposinf_scalar(ScalarBuilder& b, const Scalar* x, const Args&) {
  return is_float(x[0].dtype) ? b.eq(x[0], infinity(b, x[0])) : no(b);
}
Scalar isneginf_scalar(ScalarBuilder& b, const Scalar* x, const Args&) {
  return is_float(x[0].dtype) ? b.eq(x[0], b.neg(infinity(b, x[0]))) : no(b);
}
Scalar signbit_scalar(ScalarBuilder& b, const Scalar* x, const Args&) {
  if (is_unsigned(x[0])) return no(b);
  if (!is_float(x[0].dtype)) return b.lt(x[0], number(b, 0, x[0]));
  return b.lt(b.copysign(number(b, 1, x[0]), x[0]), number(b, 0, x[0]));
}

// NumPy's signbit has loops for floats alone.
// Eager starts from self == other, and writes the rest into that.
void compared_order(Graph& graph, const Args& args, std::vector<TensorType>& results) {
  results[0].strides = elementwise_strides(*graph.sym, results[0].sizes,
                                           {&args.value("self")->type, &args.value("other")->type});
}

void signbit_order(Graph& graph, const Args& args, std::vector<TensorType>& results) {
  const TensorType& self = args.value("self")->type;
  if (graph.framework == Framework::kNumpy)
    results[0].strides = numpy_ufunc_strides(*graph.sym, results[0].sizes, {&self}, !is_float(self.dtype));
}

// PyTorch fills the answer for what is always finite, as full_like does.
void finite_order(Graph& graph, const Args& args, std::vector<TensorType>& results) {
  if (graph.framework == Framework::kTorch && !is_float(args.value("self")->type.dtype))
    preserved_results(graph, args, results);
}

OpDef predicate(std::string_view name, std::string_view schema, std::vector<std::string_view> numpy_names,
                ScalarFn scalar, StridesFn strides = nullptr) {
  return {.name = name,
          .family = Family::kPointwise,
          .schemas = {schema},
          .numpy_names = std::move(numpy_names),
          .promotion = Promotion::kPredicate,
          .scalar = scalar,
          .strides = strides,
          .differentiable = false,
          .in_place_variant = false};
}

Scalar truth(ScalarBuilder& b, Scalar x) { return x.dtype == DType::kBool ? x : b.ne(x, number(b, 0, x)); }

void check_condition(Graph& graph, const Args& args) {
  const Arg& condition = args["condition"];
  if (const auto* value = std::get_if<Value*>(&condition); value && graph.framework == Framework::kTorch) {
    DType dtype = (*value)->type.dtype;
    if (dtype != DType::kBool && dtype != DType::kU8)
      runtime_error(
          std::string("where expected condition to be a boolean tensor, but got a tensor with dtype ") +
          runtime::info(dtype).name);
  }
}

// x.where(condition, other)
std::vector<Value*> where_of_self_body(Builder& b, const Args& args) {
  constexpr int kTensors = 0, kScalarOther = 2;
  const int overload = std::holds_alternative<Value*>(args["other"]) ? kTensors : kScalarOther;
  return b.call(op("where"), overload, {args["condition"], args["self"], args["other"]});
}

std::vector<Value*> masked_fill_body(Builder& b, const Args& args) {
  Tensor self = operand(b, args, "self"), mask = operand(b, args, "mask");
  if (mask.dtype() != DType::kBool) runtime_error("masked_fill_ only supports boolean masks");
  const Arg& value = args["value"];
  if (const auto* tensor = std::get_if<Value*>(&value)) {
    if ((*tensor)->type.rank() != 0)
      runtime_error("masked_fill_ only supports a 0-dimensional value tensor, but got tensor with " +
                    std::to_string((*tensor)->type.rank()) + " dimension(s).");
    if (!can_cast_in_place(Framework::kTorch, (*tensor)->type.dtype, self.dtype()))
      runtime_error("value cannot be converted to the tensor's type without overflow");
  } else if (std::holds_alternative<double>(value) && !is_float(self.dtype())) {
    throw Unsupported("masked_fill of integers with a float");
  }
  return forward(b, "core.masked_fill", {self.value, mask.value, value});
}

Scalar masked_fill_scalar(ScalarBuilder& b, const Scalar* x, const Args&) {
  return b.select(b.ne(x[1], number(b, 0, x[1])), x[2], x[0]);
}

// |self - other| <= atol + rtol * |other|, or equal.
std::vector<Value*> isclose_body(Builder& b, const Args& args) {
  Tensor self = operand(b, args, "self"), other = operand(b, args, "other");
  if (b.graph().framework == Framework::kTorch && self.dtype() != other.dtype())
    runtime_error("isclose: the dtypes of the operands differ");
  double rtol = args.number("rtol"), atol = args.number("atol");
  if (rtol < 0 || atol < 0) runtime_error("rtol and atol must be greater than or equal to zero");
  Tensor close = eq(self, other);
  if (args.boolean("equal_nan")) close = logical_or(close, logical_and(isnan(self), isnan(other)));
  if (rtol == 0 && atol == 0) return one(close);
  DType wide = is_float(self.dtype()) ? self.dtype() : b.graph().default_float();
  Tensor x = cast(self, wide), y = cast(other, wide);
  Tensor allowed = abs(y * rtol) + atol, error = abs(x - y);
  Tensor finite = apply("isfinite", {error});
  return one(logical_or(close, logical_and(finite, le(error, allowed))));
}

// NumPy's where is no ufunc, and always has an iterator.
void where_order(Graph& graph, const Args& args, std::vector<TensorType>& results) {
  if (graph.framework != Framework::kNumpy) return;
  std::vector<const TensorType*> operands;
  for (const Arg& arg : args.all())
    if (const auto* value = std::get_if<Value*>(&arg)) operands.push_back(&(*value)->type);
  results[0].strides = numpy_strides(*graph.sym, results[0].sizes, operands);
}

void where_derivative(Derivative& d) {
  d.set(1, where(d.operand(0), d.grad(), 0.0));
  d.set(2, where(d.operand(0), 0.0, d.grad()));
}

std::vector<OpDef> comparisons() {
  return {
      comparison("eq",
                 {"eq.Tensor(Tensor self, Tensor other) -> Tensor",
                  "eq.Scalar(Tensor self, Scalar other) -> Tensor"},
                 {"torch.Tensor.__eq__"}, "np.equal", compare_scalar<&ScalarBuilder::eq>),
      comparison("ne",
                 {"ne.Tensor(Tensor self, Tensor other) -> Tensor",
                  "ne.Scalar(Tensor self, Scalar other) -> Tensor"},
                 {"torch.not_equal", "torch.Tensor.not_equal", "torch.Tensor.__ne__"}, "np.not_equal",
                 compare_scalar<&ScalarBuilder::ne>),
      comparison("lt",
                 {"lt.Tensor(Tensor self, Tensor other) -> Tensor",
                  "lt.Scalar(Tensor self, Scalar other) -> Tensor"},
                 {"torch.less", "torch.Tensor.less", "torch.Tensor.__lt__"}, "np.less",
                 compare_scalar<&ScalarBuilder::lt>),
      comparison("le",
                 {"le.Tensor(Tensor self, Tensor other) -> Tensor",
                  "le.Scalar(Tensor self, Scalar other) -> Tensor"},
                 {"torch.less_equal", "torch.Tensor.less_equal", "torch.Tensor.__le__"}, "np.less_equal",
                 compare_scalar<&ScalarBuilder::le>),
      comparison("gt",
                 {"gt.Tensor(Tensor self, Tensor other) -> Tensor",
                  "gt.Scalar(Tensor self, Scalar other) -> Tensor"},
                 {"torch.greater", "torch.Tensor.greater", "torch.Tensor.__gt__"}, "np.greater",
                 compare_scalar<&ScalarBuilder::gt>),
      comparison("ge",
                 {"ge.Tensor(Tensor self, Tensor other) -> Tensor",
                  "ge.Scalar(Tensor self, Scalar other) -> Tensor"},
                 {"torch.greater_equal", "torch.Tensor.greater_equal", "torch.Tensor.__ge__"},
                 "np.greater_equal", compare_scalar<&ScalarBuilder::ge>),
      predicate("isnan", "isnan(Tensor self) -> Tensor", {"np.isnan"}, isnan_scalar),
      predicate("isinf", "isinf(Tensor self) -> Tensor", {"np.isinf"}, isinf_scalar, finite_order),
      predicate("isfinite", "isfinite(Tensor self) -> Tensor", {"np.isfinite"}, isfinite_scalar,
                finite_order),
      predicate("isposinf", "isposinf(Tensor self) -> Tensor", {"np.isposinf"}, isposinf_scalar),
      predicate("isneginf", "isneginf(Tensor self) -> Tensor", {"np.isneginf"}, isneginf_scalar),
      predicate("signbit", "signbit(Tensor self) -> Tensor", {"np.signbit"}, signbit_scalar, signbit_order),
  };
}

std::vector<OpDef> logic() {
  auto logical = [](std::string_view name, std::string_view schema, std::string_view numpy_name,
                    ScalarFn scalar) -> OpDef {
    return {.name = name,
            .family = Family::kPointwise,
            .schemas = {schema},
            .numpy_names = {numpy_name},
            .promotion = Promotion::kLogical,
            .scalar = scalar,
            .differentiable = false};
  };
  return {
      logical("logical_and", "logical_and(Tensor self, Tensor other) -> Tensor", "np.logical_and",
              CDYNAMO_SCALAR(return b.bit_and(truth(b, x[0]), truth(b, x[1])))),
      logical("logical_or", "logical_or(Tensor self, Tensor other) -> Tensor", "np.logical_or",
              CDYNAMO_SCALAR(return b.bit_or(truth(b, x[0]), truth(b, x[1])))),
      logical("logical_xor", "logical_xor(Tensor self, Tensor other) -> Tensor", "np.logical_xor",
              CDYNAMO_SCALAR(return b.bit_xor(truth(b, x[0]), truth(b, x[1])))),
      logical("logical_not", "logical_not(Tensor self) -> Tensor", "np.logical_not",
              CDYNAMO_SCALAR(return b.bit_not(x[0]))),
      {.name = "where",
       .family = Family::kPointwise,
       .schemas = {"where.self(Tensor condition, Tensor self, Tensor other) -> Tensor",
                   "where.ScalarSelf(Tensor condition, Scalar self, Tensor other) -> Tensor",
                   "where.ScalarOther(Tensor condition, Tensor self, Scalar other) -> Tensor",
                   "where.Scalar(Tensor condition, Scalar self, Scalar other) -> Tensor"},
       .numpy_names = {"np.where"},
       .promotion = Promotion::kSelect,
       .scalar = CDYNAMO_SCALAR(return b.select(x[0], x[1], x[2])),
       .strides = where_order,
       .derivative = where_derivative,
       .in_place_variant = false,
       .check = check_condition,
       .core = {.linearity = Linearity::kRest}},
      composite("where_of_self",
                {"where_of_self(Tensor self, Tensor condition, Tensor other) -> Tensor",
                 "where_of_self.ScalarOther(Tensor self, Tensor condition, Scalar other) -> Tensor"},
                where_of_self_body, {"torch.Tensor.where"}, nullptr),
      {.name = "core.masked_fill",
       .family = Family::kPointwise,
       .schemas = {"core.masked_fill(Tensor self, Tensor mask, Tensor value) -> Tensor"},
       .promotion = Promotion::kFirst,
       .scalar = masked_fill_scalar,
       .derivative = CDYNAMO_DERIVATIVE(d.set(0, where(cast(d.operand(1), DType::kBool), 0.0, d.grad()));
                                        d.set(2, where(cast(d.operand(1), DType::kBool), d.grad(), 0.0))),
       .core = {.eager = "torch.where(mask, value, self)"}},
      {.name = "masked_fill",
       .family = Family::kComposite,
       .schemas = {"masked_fill.Scalar(Tensor self, Tensor mask, Scalar value) -> Tensor",
                   "masked_fill.Tensor(Tensor self, Tensor mask, Tensor value) -> Tensor"},
       .body = masked_fill_body,
       .strides = contiguous_results},
      {.name = "isclose",
       .family = Family::kComposite,
       .schemas = {"isclose(Tensor self, Tensor other, float rtol=1e-05, float atol=1e-08, bool "
                   "equal_nan=False) -> Tensor"},
       .body = isclose_body,
       .strides = compared_order,
       .in_place_variant = false},
      {.name = "isreal",
       .family = Family::kComposite,
       .schemas = {"isreal(Tensor self) -> Tensor"},
       .body = CDYNAMO_BODY(return one(full(b, args.value("self")->type.sizes, true, DType::kBool))),
       .strides = preserved_results,
       .in_place_variant = false},
  };
}

}  // namespace

std::vector<OpDef> comparison_ops() {
  std::vector<OpDef> ops = comparisons();
  for (OpDef& op : logic()) ops.push_back(std::move(op));
  return ops;
}

}  // namespace cdynamo::graph
