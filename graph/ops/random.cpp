// Random numbers: the framework's generator draws them at run time, in the program's order, so that the same
// seed gives eager's numbers. What eager makes of them (dropout's scaling, a mean that is added) is written
// here in the operators of the table.
#include "graph/ops/random.h"

#include <cmath>

#include "absl/container/flat_hash_set.h"
#include "graph/ops/entry.h"
#include "graph/strides.h"

namespace cdynamo::graph {
namespace {

#define FACTORY_OPTIONS                                                                                    \
  "*, Generator? generator=None, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? " \
  "pin_memory=None"
#define LIKE_OPTIONS                                                                                       \
  "*, Generator? generator=None, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? " \
  "pin_memory=None, MemoryFormat? memory_format=None"

std::vector<TensorType> infer_random(Graph& graph, const Args& args) {
  TensorType type;
  type.dtype = *args.dtype("dtype");
  type.sizes = args.sizes("size");
  type.strides = contiguous_strides(type.sizes);
  const std::vector<int64_t> order = args.constants("order");
  Sym step = 1;
  for (size_t i = order.size(); i-- > 0; step = step * type.sizes[order[i]]) type.strides[order[i]] = step;
  return {type};
}

// A random op that waits for an operand must not be overtaken by the next one, which takes its result as `after`.
Arg random_before(const Graph& graph) {
  for (auto it = graph.nodes.rbegin(); it != graph.nodes.rend(); ++it) {
    Node& node = **it;
    if (node.op->family != Family::kRandom) continue;
    bool waits = false;
    for_each_operand(node, [&](Value*&) { waits = true; });
    return waits ? Arg(node.results[0]) : Arg();
  }
  return {};
}

// What is filled with random numbers: its sizes, its dims in the order of memory, outermost first (none: row-major), and the
// program's generator that draws them (null: the framework's own).
struct Place {
  std::vector<Sym> sizes;
  std::vector<Sym> order = {};
  Value* generator = nullptr;
};
Value* generator_of(const Args& args) { return args.has("generator") ? args.value("generator") : nullptr; }
Place place_with(const Args& args, std::vector<Sym> sizes) {
  return {std::move(sizes), {}, generator_of(args)};
}

Tensor random_values(Builder& b, const char* distribution, const Place& place, DType dtype, double first,
                     double second = 0, Tensor probability = {}) {
  if (place.generator && !(b.device() == Device())) throw Unsupported("a CPU's generator for another device");
  const auto optional = [](Value* value) { return value ? Arg(value) : Arg(); };
  return wrap(b, b.call1("core.random",
                         {std::string(distribution), optional(probability.value), place.sizes, first, second,
                          dtype, random_before(b.graph()), place.order, optional(place.generator)}));
}

// Of numbers that an operand says, one for each element or row of it.
Tensor random_values_of(Builder& b, const char* distribution, Tensor parameter, const Place& place,
                        DType dtype, double first = 0, double second = 0) {
  return random_values(b, distribution, place, dtype, first, second, detach(parameter));
}

void check_float(DType dtype, const char* what) {
  if (!is_float(dtype)) throw Unsupported(std::string(what) + " of integers");
}
Tensor uniform(Builder& b, const Place& sizes, DType dtype, double from, double to) {
  check_float(dtype, "uniform");
  if (!(from <= to)) throw Unsupported("uniform between bounds that cross");
  return random_values(b, "uniform", sizes, dtype, from, to);
}
Tensor normal(Builder& b, const Place& sizes, DType dtype, double mean, double deviation) {
  check_float(dtype, "normal");
  if (!(deviation >= 0)) throw Unsupported("normal with a negative deviation");
  return random_values(b, "normal", sizes, dtype, mean, deviation);
}
Tensor bernoulli(Builder& b, const Place& sizes, DType dtype, double p) {
  if (!(p >= 0 && p <= 1)) throw Unsupported("bernoulli with a probability beyond 0 and 1");
  return random_values(b, "bernoulli", sizes, dtype, p);
}
Tensor integers(Builder& b, const Place& sizes, DType dtype, int64_t low, int64_t high) {
  if (low >= high) throw Unsupported("random integers from an empty range");
  if (is_half(dtype) || dtype == DType::kBool || high - low > (int64_t{1} << 24))
    throw Unsupported("random integers of this dtype or range");
  Tensor values = random_values(b, "integers", sizes, dtype, static_cast<double>(high - low));
  return low == 0 ? values : values + Operand(low);
}

// Which number falls where depends on the memory order, which a core graph does not know: Builder::call gives the
// operand's to a parameter of this name.
#define MEMORY_ORDER ", int[] memory_order=[]"

void require_row_major(Graph& graph, const Args& args, std::string_view name) {
  if (!is_contiguous(*graph.sym, args.value(name)->type))
    throw Unsupported("random numbers in another order than the row-major one");
}
void check_self(Graph& graph, const Args& args) { require_row_major(graph, args, "self"); }
// A tensor that is written to: one with gaps is not filled in the order of one without.
void check_dense(Graph& graph, const Args& args) {
  if (!is_non_overlapping_and_dense(*graph.sym, args.value("self")->type))
    throw Unsupported("random numbers written to a tensor with gaps");
}
void check_format(Graph& graph, const Args& args) {
  if (args.has("memory_format")) require_row_major(graph, args, "self");
}
void strides_of_self(Graph& graph, const Args& args, std::vector<TensorType>& types) {
  types.at(0).strides = preserved_strides(graph, args.value("self")->type);
}
Place place_of(const Args& args, Tensor x) {
  return {x.sizes(), args.sizes("memory_order"), generator_of(args)};
}

// ---- factories ------------------------------------------------------------------------------------------

DType float_or_default(Builder& b, const Args& args) { return dtype_or(args, b.graph().default_float()); }
DType dtype_like(const Args& args) { return dtype_or(args, operand_dtype(args, "self")); }

std::vector<Value*> rand_body(Builder& b, const Args& args) {
  return one(uniform(b, place_with(args, args.sizes("size")), float_or_default(b, args), 0, 1));
}
std::vector<Value*> randn_body(Builder& b, const Args& args) {
  return one(normal(b, place_with(args, args.sizes("size")), float_or_default(b, args), 0, 1));
}
std::vector<Value*> randint_body(Builder& b, const Args& args) {
  const bool like = args.schema().find("self") >= 0;
  const Place sizes = like ? place_of(args, operand(b, args, "self")) : place_with(args, args.sizes("size"));
  const int64_t low = args.schema().find("low") >= 0 ? args.constant("low") : 0;
  return one(
      integers(b, sizes, like ? dtype_like(args) : dtype_or(args, DType::kI64), low, args.constant("high")));
}
std::vector<Value*> rand_like_body(Builder& b, const Args& args) {
  return one(uniform(b, place_of(args, operand(b, args, "self")), dtype_like(args), 0, 1));
}
std::vector<Value*> randn_like_body(Builder& b, const Args& args) {
  return one(normal(b, place_of(args, operand(b, args, "self")), dtype_like(args), 0, 1));
}

// ---- of parameters that may be tensors ------------------------------------------------------------------

std::vector<Value*> bernoulli_body(Builder& b, const Args& args) {
  Tensor self = operand(b, args, "self");
  Place place = place_with(args, self.sizes());
  if (args.schema().find("memory_order") >= 0) place = place_of(args, self);
  if (args.schema().find("p") >= 0)
    return one(follow(bernoulli(b, place, self.dtype(), args.number("p")), self));
  check_float(self.dtype(), "bernoulli");
  return one(follow(random_values(b, "bernoulli_tensor", place, self.dtype(), 0, 0, detach(self)), self));
}

template <const char* const& kDistribution>
std::vector<Value*> element_by_element_body(Builder& b, const Args& args) {
  Tensor self = operand(b, args, "self");
  check_float(self.dtype(), kDistribution);
  return one(
      follow(random_values_of(b, kDistribution, self, place_with(args, self.sizes()), self.dtype()), self));
}
constexpr const char *kPoisson = "poisson", *kStandardGamma = "standard_gamma", *kDirichlet = "dirichlet";

std::vector<Value*> binomial_body(Builder& b, const Args& args) {
  Tensor count = operand(b, args, "count"), prob = operand(b, args, "prob");
  check_float(count.dtype(), "binomial");
  if (count.dtype() != prob.dtype() || count.sizes() != prob.sizes())
    throw Unsupported("binomial of counts and probabilities of different dtypes or sizes");
  Tensor both = wrap(b, b.call1("stack", {std::vector<Value*>{count.value, prob.value}, Sym(0)}));
  return one(random_values_of(b, "binomial", both, place_with(args, count.sizes()), count.dtype()));
}

std::vector<Value*> multinomial_body(Builder& b, const Args& args) {
  Tensor self = operand(b, args, "self");
  check_float(self.dtype(), "multinomial");
  if (self.rank() < 1 || self.rank() > 2) throw Unsupported("multinomial of so many dims");
  std::vector<Sym> sizes = self.sizes();
  sizes.back() = args.constant("num_samples");
  return one(random_values_of(b, "multinomial", self, place_with(args, sizes), DType::kI64,
                              static_cast<double>(args.constant("num_samples")),
                              args.boolean("replacement")));
}

std::vector<Value*> randperm_body(Builder& b, const Args& args) {
  const DType dtype = dtype_or(args, DType::kI64);
  if (dtype != DType::kI64 && dtype != DType::kI32) throw Unsupported("randperm of this dtype");
  return one(
      cast(random_values(b, "permutation", place_with(args, {args.integer("n")}), DType::kI64, 0), dtype));
}

std::vector<Value*> normal_around_body(Builder& b, const Args& args) {
  const double deviation = args.number("std");
  if (args.schema().find("size") >= 0)
    return one(normal(b, place_with(args, args.sizes("size")), float_or_default(b, args), args.number("mean"),
                      deviation));
  Tensor mean = operand(b, args, "mean");
  return one(
      follow(normal(b, place_with(args, mean.sizes()), mean.dtype(), 0, deviation) + detach(mean), mean));
}

// ---- written to a tensor --------------------------------------------------------------------------------------

std::vector<Value*> uniform_body(Builder& b, const Args& args) {
  Tensor self = operand(b, args, "self");
  return one(
      follow(uniform(b, place_of(args, self), self.dtype(), args.number("from"), args.number("to")), self));
}
std::vector<Value*> normal_body(Builder& b, const Args& args) {
  Tensor self = operand(b, args, "self");
  return one(
      follow(normal(b, place_of(args, self), self.dtype(), args.number("mean"), args.number("std")), self));
}
// `self`, filled with what is drawn of a distribution with these numbers.
template <typename... Numbers>
std::vector<Value*> filled(Builder& b, const Args& args, const char* distribution, Numbers... numbers) {
  Tensor self = operand(b, args, "self");
  return one(follow(random_values(b, distribution, place_of(args, self), self.dtype(), numbers...), self));
}
std::vector<Value*> exponential_body(Builder& b, const Args& args) {
  check_float(operand(b, args, "self").dtype(), "exponential");
  if (!(args.number("lambd") > 0)) throw Unsupported("exponential with such a rate");
  return filled(b, args, "exponential", args.number("lambd"));
}
std::vector<Value*> cauchy_body(Builder& b, const Args& args) {
  check_float(operand(b, args, "self").dtype(), "cauchy");
  if (!(args.number("sigma") > 0)) throw Unsupported("cauchy with such a scale");
  return filled(b, args, "cauchy", args.number("median"), args.number("sigma"));
}
std::vector<Value*> log_normal_body(Builder& b, const Args& args) {
  check_float(operand(b, args, "self").dtype(), "log_normal");
  if (!(args.number("std") > 0)) throw Unsupported("log_normal with such a deviation");
  return filled(b, args, "log_normal", args.number("mean"), args.number("std"));
}
std::vector<Value*> geometric_body(Builder& b, const Args& args) {
  const double p = args.number("p");
  if (!(p > 0 && p < 1) || operand(b, args, "self").dtype() == DType::kBool)
    throw Unsupported("geometric of this kind");
  return filled(b, args, "geometric", p);
}
std::vector<Value*> any_integer_body(Builder& b, const Args& args) {
  Tensor self = operand(b, args, "self");
  if (is_half(self.dtype()) || self.dtype() == DType::kBool)
    throw Unsupported("random numbers of this dtype");
  if (args.schema().find("to") < 0) return filled(b, args, "any_number", 0.0);
  const bool is_from = args.schema().find("from") >= 0;
  if (is_from && !args.has("to")) throw Unsupported("random_() from a number upwards");
  const int64_t low = is_from ? args.constant("from") : 0;
  return one(follow(integers(b, place_of(args, self), self.dtype(), low, args.constant("to")), self));
}

// ---- dropout --------------------------------------------------------------------------------------------

bool is_random(const Args& args) {
  return args.boolean("train") && args.number("p") > 0 && !(args.value("input")->type.numel() == Sym(0));
}
void check_dropout(Graph&, const Args& args) {
  const double p = args.number("p");
  if (!(p >= 0 && p <= 1))
    runtime_error("dropout probability has to be between 0 and 1, but got " + std::to_string(p));
}
Alias dropout_alias(const Node& node) {
  return is_random(Args(node.op->parsed[node.overload], node.args)) ? Alias::kNone : Alias::kSelf;
}

// Whole channels are kept or dropped: the noise has their sizes.
std::vector<Sym> channels_of(Tensor x) {
  if (x.rank() < 2) runtime_error("Feature dropout requires at least 2 dimensions in the input");
  std::vector<Sym> sizes(x.rank(), 1);
  sizes[0] = x.size(0);
  sizes[1] = x.size(1);
  return sizes;
}

// A GPU's kernel draws the mask of a dtype in a way of its own, and rounds once.
Tensor gpu_dropout(Builder& b, const Args& args, Tensor x) {
  const double p = args.number("p");
  Tensor mask =
      random_values(b, "dropout", place_of(args, x), DType::kBool, p, static_cast<double>(x.dtype()));
  Tensor wide = to_compute(x);
  return cast(wide * cast(mask, wide.dtype()) * (1 / (1 - p)), x.dtype());
}

template <bool of_channels, bool alpha>
std::vector<Value*> dropout_body(Builder& b, const Args& args) {
  Tensor x = operand(b, args, "input");
  if (!is_random(args)) return one(x);
  check_float(x.dtype(), "dropout");
  const double p = args.number("p"), kept = 1 - p;
  if (p == 1) return one(x * 0.0);
  if (!of_channels && !alpha && on_gpu(x)) return one(gpu_dropout(b, args, x));
  // Drawn as bool, which takes less memory: the numbers are the same in every dtype.
  Tensor noise = bernoulli(b, of_channels ? Place{channels_of(x)} : place_of(args, x), DType::kBool, kept);
  noise = cast(noise, x.dtype());
  if (!alpha) return one(x * (noise / kept));
  // What is dropped becomes the limit of SELU; scale and shift keep mean and variance.
  constexpr double kLimit = 1.7580993408473766;
  const double scale = 1 / std::sqrt((kLimit * kLimit * p + 1) * kept);
  Tensor shift = (noise + -1) * (kLimit * scale) + kLimit * scale * p;
  return one(x * (noise * scale) + shift);
}

OpDef random(std::string_view name, std::vector<std::string_view> schemas, BodyFn body,
             CheckFn check = nullptr) {
  return {.name = name,
          .family = Family::kComposite,
          .schemas = std::move(schemas),
          .body = body,
          .differentiable = false,
          .in_place_variant = false,
          .check = check};
}
OpDef random_like(std::string_view name, std::vector<std::string_view> schemas, BodyFn body) {
  OpDef op = random(name, std::move(schemas), body, check_format);
  op.strides = strides_of_self;
  return op;
}
// x.uniform_() and the like: the numbers are written to x.
OpDef filling(std::string_view name, std::vector<std::string_view> schemas, std::string_view method,
              BodyFn body) {
  OpDef op = random(name, std::move(schemas), body, check_dense);
  op.torch_names = {method};
  op.in_place_variant = true;
  return op;
}
// Of what a tensor says, by a function.
OpDef draw(std::string_view name, std::string_view schema, std::vector<std::string_view> names, BodyFn body) {
  OpDef op = random(name, {schema}, body);
  op.torch_names = std::move(names);
  return op;
}
OpDef dropout(std::string_view name, std::string_view schema, BodyFn body) {
  OpDef op = random(name, {schema}, body, check_dropout);
  op.differentiable = op.in_place_variant = true;
  op.alias = dropout_alias;
  return op;
}

}  // namespace

std::vector<OpDef> random_ops() {
  return {
      {.name = "core.random",
       .family = Family::kRandom,
       .schemas =
           {"core.random(str distribution, Tensor? probability, int[] size, float first, float second, "
            "ScalarType dtype, Tensor? after, int[] order=[], Generator? generator=None) -> Tensor"},
       .infer = infer_random,
       .differentiable = false,
       .core = {.kind = CoreKind::kRandom,
                .call = CallDef{.tensors = {"probability", "generator"},
                                .integers = {"order"},
                                .numbers = {"first", "second"},
                                .text = "distribution"},
                .eager = kNoEager}},
      random("rand", {"rand(int[] size, " FACTORY_OPTIONS ") -> Tensor"}, rand_body),
      random("randn", {"randn(int[] size, " FACTORY_OPTIONS ") -> Tensor"}, randn_body),
      random("randint",
             {"randint(int high, int[] size, " FACTORY_OPTIONS ") -> Tensor",
              "randint.low(int low, int high, int[] size, " FACTORY_OPTIONS ") -> Tensor"},
             randint_body),
      random_like("rand_like", {"rand_like(Tensor self, " LIKE_OPTIONS MEMORY_ORDER ") -> Tensor"},
                  rand_like_body),
      random_like("randn_like", {"randn_like(Tensor self, " LIKE_OPTIONS MEMORY_ORDER ") -> Tensor"},
                  randn_like_body),
      random_like(
          "randint_like",
          {"randint_like(Tensor self, int high, " LIKE_OPTIONS MEMORY_ORDER ") -> Tensor",
           "randint_like.low_dtype(Tensor self, int low, int high, " LIKE_OPTIONS MEMORY_ORDER ") -> Tensor"},
          randint_body),
      random("bernoulli",
             {"bernoulli(Tensor self, *, Generator? generator=None) -> Tensor",
              "bernoulli.p(Tensor self, float p, *, Generator? generator=None) -> Tensor"},
             bernoulli_body, check_self),
      random("normal",
             {"normal.float_float(float mean, float std, int[] size, " FACTORY_OPTIONS ") -> Tensor",
              "normal.Tensor_float(Tensor mean, float std=1, *, Generator? generator=None) -> Tensor"},
             normal_around_body),
      filling("core.fill_bernoulli",
              {"core.fill_bernoulli(Tensor self, float p=0.5, *, Generator? generator=None" MEMORY_ORDER
               ") -> Tensor"},
              "torch.Tensor.bernoulli_", bernoulli_body),
      filling("core.fill_uniform",
              {"core.fill_uniform(Tensor self, float from=0, float to=1, *, Generator? "
               "generator=None" MEMORY_ORDER ") -> Tensor"},
              "torch.Tensor.uniform_", uniform_body),
      filling("core.fill_normal",
              {"core.fill_normal(Tensor self, float mean=0, float std=1, *, Generator? "
               "generator=None" MEMORY_ORDER ") -> Tensor"},
              "torch.Tensor.normal_", normal_body),
      filling("core.fill_exponential",
              {"core.fill_exponential(Tensor self, float lambd=1, *, Generator? generator=None" MEMORY_ORDER
               ") -> Tensor"},
              "torch.Tensor.exponential_", exponential_body),
      filling("core.fill_cauchy",
              {"core.fill_cauchy(Tensor self, float median=0, float sigma=1, *, Generator? "
               "generator=None" MEMORY_ORDER ") -> Tensor"},
              "torch.Tensor.cauchy_", cauchy_body),
      filling("core.fill_log_normal",
              {"core.fill_log_normal(Tensor self, float mean=1, float std=2, *, Generator? "
               "generator=None" MEMORY_ORDER ") -> Tensor"},
              "torch.Tensor.log_normal_", log_normal_body),
      filling("core.fill_geometric",
              {"core.fill_geometric(Tensor self, float p, *, Generator? generator=None" MEMORY_ORDER
               ") -> Tensor"},
              "torch.Tensor.geometric_", geometric_body),
      filling(
          "core.fill_random",
          {"core.fill_random(Tensor self, *, Generator? generator=None" MEMORY_ORDER ") -> Tensor",
           "core.fill_random.to(Tensor self, int to, *, Generator? generator=None" MEMORY_ORDER ") -> Tensor",
           "core.fill_random.from(Tensor self, int from, int? to, *, Generator? generator=None" MEMORY_ORDER
           ") -> Tensor"},
          "torch.Tensor.random_", any_integer_body),
      draw("core.draw_poisson", "core.draw_poisson(Tensor self, Generator? generator=None) -> Tensor",
           {"torch.poisson", "torch.ops.aten.poisson"}, element_by_element_body<kPoisson>),
      draw("core.draw_standard_gamma",
           "core.draw_standard_gamma(Tensor self, Generator? generator=None) -> Tensor",
           {"torch.ops.aten._standard_gamma"}, element_by_element_body<kStandardGamma>),
      draw("core.draw_dirichlet", "core.draw_dirichlet(Tensor self, Generator? generator=None) -> Tensor",
           {"torch._sample_dirichlet", "torch.ops.aten._sample_dirichlet"},
           element_by_element_body<kDirichlet>),
      draw("core.draw_binomial",
           "core.draw_binomial(Tensor count, Tensor prob, Generator? generator=None) -> Tensor",
           {"torch.ops.aten.binomial"}, binomial_body),
      draw("core.draw_multinomial",
           "core.draw_multinomial(Tensor self, int num_samples, bool replacement=False, *, Generator? "
           "generator=None) -> Tensor",
           {"torch.ops.aten.multinomial"}, multinomial_body),
      random("randperm", {"randperm(int n, " FACTORY_OPTIONS ") -> Tensor"}, randperm_body),
      dropout("dropout", "dropout(Tensor input, float p, bool train, *" MEMORY_ORDER ") -> Tensor",
              dropout_body<false, false>),
      dropout("feature_dropout", "feature_dropout(Tensor input, float p, bool train) -> Tensor",
              dropout_body<true, false>),
      dropout("alpha_dropout",
              "alpha_dropout(Tensor input, float p, bool train, *" MEMORY_ORDER ") -> Tensor",
              dropout_body<false, true>),
      dropout("feature_alpha_dropout", "feature_alpha_dropout(Tensor input, float p, bool train) -> Tensor",
              dropout_body<true, true>),
  };
}

bool draws_random_numbers(const OpDef& op) {
  static const auto* names = [] {
    auto* made = new absl::flat_hash_set<std::string>;
    for (const OpDef& row : random_ops()) made->insert(std::string(row.name));
    return made;
  }();
  return names->contains(std::string(op.name));
}

}  // namespace cdynamo::graph
#undef FACTORY_OPTIONS
