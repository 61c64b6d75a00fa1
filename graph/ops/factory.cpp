// Tensors from nothing: zeros, full, arange, eye ... and the _like and new_ forms.
#include <cmath>

#include "graph/ops/view_rules.h"
#include "graph/reference.h"

namespace cdynamo::graph {
namespace {

#define FACTORY_OPTIONS \
  "*, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None"

// The dtype of a number given as a fill value.
DType dtype_of_number(const Graph& graph, const Arg& number) {
  if (const auto* held = std::get_if<Value*>(&number))
    return is_float((*held)->type.dtype) ? graph.default_float() : (*held)->type.dtype;
  if (std::holds_alternative<bool>(number)) return DType::kBool;
  return std::holds_alternative<double>(number) ? graph.default_float() : DType::kI64;
}

std::vector<Sym> size_argument(Graph& graph, const Args& args) {
  std::vector<Sym> sizes = args.sizes("size");
  for (const Sym& size : sizes)
    if (graph.sym->guard(Relation::kLt, size, 0, "size"))
      runtime_error("Trying to create tensor with negative dimension " + size.str() + ": " +
                    sizes_text(sizes));
  return sizes;
}

// `number` may be one that the graph holds.
std::vector<Value*> filled_with(Builder& b, std::vector<Sym> sizes, const Arg& number, DType dtype) {
  if (const auto* held = std::get_if<Value*>(&number))
    return one(own(expand(to_device(cast(wrap(b, *held), dtype), b.device()), std::move(sizes))));
  return one(full(b, std::move(sizes), number, dtype));
}

template <int value>
std::vector<Value*> filled_body(Builder& b, const Args& args) {
  return one(full(b, size_argument(b.graph(), args), Sym(value), dtype_or(args, b.graph().default_float())));
}
std::vector<Value*> full_body(Builder& b, const Args& args) {
  const Arg& value = args["fill_value"];
  DType dtype = dtype_or(args, dtype_of_number(b.graph(), value));
  return filled_with(b, size_argument(b.graph(), args), value, dtype);
}

// ---- _like: the operand's sizes, strides where they are dense -------------------------------------------

std::vector<TensorType> infer_like(Graph& graph, const Args& args) {
  TensorType type = args.value("self")->type;
  type.weak = false;
  std::string_view format = args.has("memory_format") ? args.string("memory_format") : "preserve_format";
  if (format == "preserve_format")
    type.strides = preserved_strides(graph, type);
  else
    type.strides =
        format == "contiguous_format" ? contiguous_strides(type.sizes) : channels_last_strides(type.sizes);
  type.dtype = dtype_or(args, type.dtype);
  return {type};
}
template <int value>
std::vector<Value*> filled_like_body(Builder& b, const Args& args) {
  Tensor self = operand(b, args, "self");
  return one(full(b, self.sizes(), Sym(value), dtype_or(args, self.dtype())));
}
std::vector<Value*> full_like_body(Builder& b, const Args& args) {
  Tensor self = operand(b, args, "self");
  DType dtype = dtype_or(args, self.dtype());
  return filled_with(b, self.sizes(), args["fill_value"], dtype);
}
template <int value>
std::vector<Value*> new_body(Builder& b, const Args& args) {
  return one(
      full(b, size_argument(b.graph(), args), Sym(value), dtype_or(args, operand_dtype(args, "self"))));
}
std::vector<Value*> new_full_body(Builder& b, const Args& args) {
  DType dtype = dtype_or(args, operand_dtype(args, "self"));
  return filled_with(b, size_argument(b.graph(), args), args["fill_value"], dtype);
}

// ---- ranges ---------------------------------------------------------------------------------------------

bool is_real(const Arg& arg) { return std::holds_alternative<double>(arg); }

std::vector<Value*> integer_range(Builder& b, const Sym& start, const Sym& end, const Sym& step,
                                  DType dtype) {
  SymContext& sym = b.sym();
  if (sym.guard_eq(step, 0, "arange")) runtime_error("step must be nonzero");
  bool up = sym.guard(Relation::kLt, 0, step, "arange");
  if (up ? sym.guard(Relation::kLt, end, start, "arange") : sym.guard(Relation::kLt, start, end, "arange"))
    runtime_error("upper bound and lower bound inconsistent with step sign");
  Sym size = up ? floordiv(end - start + step - 1, step) : floordiv(start - end - step - 1, 0 - step);
  DType wide = is_float(dtype) ? DType::kI64 : dtype;
  Tensor values = iota(b, {size}, 0, wide);
  if (!(step == Sym(1))) values = values * Operand(step);
  if (!(start == Sym(0))) values = values + Operand(start);
  return one(cast(values, dtype));
}

std::vector<Value*> arange_body(Builder& b, const Args& args) {
  Arg start = args.schema().find("start") >= 0 ? args["start"] : Arg(Sym(0));
  Arg step = args.schema().find("step") >= 0 ? args["step"] : Arg(Sym(1));
  Arg end = args["end"];
  bool real = is_real(start) || is_real(end) || is_real(step);
  DType dtype = dtype_or(args, real ? b.graph().default_float() : DType::kI64);
  if (dtype == DType::kBool) throw Unsupported("arange of bool");
  auto as_sym = [](const Arg& arg) {
    return std::holds_alternative<bool>(arg) ? Sym(std::get<bool>(arg)) : std::get<Sym>(arg);
  };
  if (!real) return integer_range(b, as_sym(start), as_sym(end), as_sym(step), dtype);
  auto as_number = [&](const Arg& arg) {
    return is_real(arg) ? std::get<double>(arg)
                        : static_cast<double>(b.sym().specialize(as_sym(arg), "arange"));
  };
  double first = as_number(start), last = as_number(end), by = as_number(step);
  if (by == 0) runtime_error("step must be nonzero");
  if (!std::isfinite(first) || !std::isfinite(last)) runtime_error("unsupported range");
  if ((by > 0 && last < first) || (by < 0 && last > first))
    runtime_error("upper bound and lower bound inconsistent with step sign");
  if (!is_float(dtype)) {
    // Eager converts the bounds to the dtype first.
    const auto whole = [](double x) { return std::trunc(x) == x && std::abs(x) < 1e15; };
    if (dtype != DType::kI64 || !whole(first) || !whole(last) || !whole(by))
      throw Unsupported("arange of integers with float bounds");
    const auto integer = [](double x) { return Sym(static_cast<int64_t>(x)); };
    return integer_range(b, integer(first), integer(last), integer(by), dtype);
  }
  Sym size = static_cast<int64_t>(std::ceil((last - first) / by));
  return one(cast(iota(b, {size}, 0, DType::kF64) * by + first, dtype));
}

// Each operation is rounded to the half type.
Tensor half_linspace(Builder& b, double start, double end, int64_t steps, DType dtype) {
  start = round_to(start, dtype);
  end = round_to(end, dtype);
  const double last = round_to(static_cast<double>(steps - 1), dtype);
  const double step = round_to(round_to(end - start, dtype) / last, dtype);
  Tensor index = iota(b, {steps}, 0, DType::kF32);
  Tensor left = cast(index, dtype), right = cast(static_cast<double>(steps - 1) - index, dtype);
  return where(lt(index, static_cast<double>(steps / 2)), left * step + start, end - right * step);
}

// Eager converts the bounds to the dtype first.
double integer_bound(const Args& args, const char* name, DType dtype) {
  if (dtype == DType::kBool) throw Unsupported("linspace of bool");
  const double bound = std::trunc(args.number(name));
  if (std::abs(bound) >= 0x1p53) throw Unsupported("linspace of integers beyond 2^53");
  return bound < 0 && !runtime::info(dtype).is_signed ? bound + std::pow(2.0, 8.0 * runtime::bytes(dtype))
                                                      : bound;
}

// From both ends towards the middle, as eager computes it.
std::vector<Value*> linspace_body(Builder& b, const Args& args) {
  double start = args.number("start"), end = args.number("end");
  int64_t steps = args.constant("steps");
  if (steps < 0) runtime_error("number of steps must be non-negative");
  DType dtype = dtype_or(args, b.graph().default_float());
  if (steps == 1) return one(full(b, {1}, args["start"], dtype));
  if (!is_float(dtype)) {
    start = integer_bound(args, "start", dtype);
    end = integer_bound(args, "end", dtype);
  }
  DType compute = dtype == DType::kF64 || !is_float(dtype) ? DType::kF64 : DType::kF32;
  double step = (end - start) / static_cast<double>(steps - 1);
  if (is_half(dtype)) return one(half_linspace(b, start, end, steps, dtype));
  if (compute == DType::kF32)
    step = (static_cast<float>(end) - static_cast<float>(start)) / static_cast<float>(steps - 1);
  Tensor index = iota(b, {steps}, 0, compute);
  Tensor rising = index * step + start, falling = (static_cast<double>(steps - 1) - index) * -step + end;
  return one(cast(where(lt(index, static_cast<double>(steps / 2)), rising, falling), dtype));
}

std::vector<Value*> eye_body(Builder& b, const Args& args) {
  Sym rows = args.integer("n"), columns = args.schema().find("m") >= 0 ? args.integer("m") : rows;
  for (const Sym& size : {rows, columns})
    if (b.sym().guard(Relation::kLt, size, 0, "eye"))
      runtime_error("n must be greater or equal to 0, got " + size.str());
  Tensor hit = eq(iota(b, {rows, columns}, 0, DType::kI64), iota(b, {rows, columns}, 1, DType::kI64));
  return one(cast(hit, dtype_or(args, b.graph().default_float())));
}

std::vector<Value*> scalar_tensor_body(Builder& b, const Args& args) {
  return one(full(b, {}, args["s"], dtype_or(args, b.graph().default_float())));
}

OpDef factory(std::string_view name, std::vector<std::string_view> schemas, BodyFn body,
              std::string_view opinfo = {}) {
  return {.name = name,
          .family = Family::kComposite,
          .schemas = std::move(schemas),
          .opinfo = opinfo,
          .body = body,
          .strides = contiguous_results,
          .differentiable = false,
          .in_place_variant = false};
}
OpDef filling(OpDef op) {
  op.numbers_of_graph = true;
  return op;
}
OpDef like(std::string_view name, std::string_view schema, BodyFn body) {
  OpDef op = factory(name, {schema}, body);
  op.infer = infer_like;
  op.strides = nullptr;
  return op;
}

}  // namespace

std::vector<OpDef> factory_ops() {
  return {
      factory("zeros", {"zeros(int[] size, " FACTORY_OPTIONS ") -> Tensor"}, filled_body<0>),
      factory("ones", {"ones(int[] size, " FACTORY_OPTIONS ") -> Tensor"}, filled_body<1>),
      factory("empty", {"empty.memory_format(int[] size, " FACTORY_OPTIONS ") -> Tensor"}, filled_body<0>),
      filling(
          factory("full", {"full(int[] size, Scalar fill_value, " FACTORY_OPTIONS ") -> Tensor"}, full_body)),
      like("zeros_like",
           "zeros_like(Tensor self, " FACTORY_OPTIONS ", MemoryFormat? memory_format=None) -> Tensor",
           filled_like_body<0>),
      like("ones_like",
           "ones_like(Tensor self, " FACTORY_OPTIONS ", MemoryFormat? memory_format=None) -> Tensor",
           filled_like_body<1>),
      like("empty_like",
           "empty_like(Tensor self, " FACTORY_OPTIONS ", MemoryFormat? memory_format=None) -> Tensor",
           filled_like_body<0>),
      filling(like("full_like",
                   "full_like(Tensor self, Scalar fill_value, " FACTORY_OPTIONS
                   ", MemoryFormat? memory_format=None) -> Tensor",
                   full_like_body)),
      factory("new_zeros", {"new_zeros(Tensor self, int[] size, " FACTORY_OPTIONS ") -> Tensor"},
              new_body<0>),
      factory("new_ones", {"new_ones(Tensor self, int[] size, " FACTORY_OPTIONS ") -> Tensor"}, new_body<1>),
      factory("new_empty", {"new_empty(Tensor self, int[] size, " FACTORY_OPTIONS ") -> Tensor"},
              new_body<0>),
      filling(factory("new_full",
                      {"new_full(Tensor self, int[] size, Scalar fill_value, " FACTORY_OPTIONS ") -> Tensor"},
                      new_full_body)),
      factory("arange",
              {"arange(Scalar end, " FACTORY_OPTIONS ") -> Tensor",
               "arange.start_step(Scalar start, Scalar end, Scalar step=1, " FACTORY_OPTIONS ") -> Tensor"},
              arange_body),
      factory("linspace", {"linspace(Scalar start, Scalar end, int steps, " FACTORY_OPTIONS ") -> Tensor"},
              linspace_body),
      factory(
          "eye",
          {"eye(int n, " FACTORY_OPTIONS ") -> Tensor", "eye.m(int n, int m, " FACTORY_OPTIONS ") -> Tensor"},
          eye_body),
      factory("scalar_tensor", {"scalar_tensor(Scalar s, " FACTORY_OPTIONS ") -> Tensor"},
              scalar_tensor_body),
  };
}

}  // namespace cdynamo::graph
#undef FACTORY_OPTIONS
