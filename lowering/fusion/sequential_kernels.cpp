#include "lowering/fusion/sequential_kernels.h"

#include <algorithm>
#include <limits>
#include <optional>

#include "lowering/fusion/selection_kernels.h"
#include "lowering/target.h"

namespace cdynamo::lowering {
namespace {

using graph::Prim;

// Axes 0 .. rank-1 for the dims of `sizes`; those of size 1 have an axis too, which scheduling drops.
LoopAxes axes_over(const std::vector<Sym>& sizes) {
  return {sizes, std::vector<char>(sizes.size(), 0), /*may_cut=*/false};
}

std::vector<Index> identity(size_t rank, int first = 0) {
  std::vector<Index> index;
  for (size_t d = 0; d < rank; ++d) index.push_back(axis_index(first + static_cast<int>(d)));
  return index;
}

// NumPy's scans round at each step, as a GPU's eager ones of halves across rows do. Longer ones on a GPU are more exact, and much
// faster.
bool rounds_each_step(const Node& node) {
  constexpr int64_t kShort = 16;
  const graph::Args args = args_of(node);
  const graph::TensorType& type = node.results[0]->type;
  if (type.device.type != runtime::DeviceType::kCUDA)
    return args.has("stepwise") && args.boolean("stepwise") && runtime::is_float(type.dtype) &&
           type.dtype != DType::kF64;
  const int64_t dim = args.constant("dim");
  const Sym& length = type.sizes[dim];
  return runtime::is_half(type.dtype) && dim + 1 < type.rank() && length.is_constant() &&
         length.constant() <= kShort;
}

Kernel build_scan(const LoweringContext& context, const Node& node) {
  const Value &self = *args_of(node).value("self"), &result = *node.results[0];
  const size_t rank = self.type.sizes.size();
  if (rank == 0 || self.type.sizes[args_of(node).constant("dim")] == Sym(1))
    return named(build_copy(context, self, context.layouts[result.id]), node);
  LoopAxes axes = axes_over(self.type.sizes);
  axes.is_row[args_of(node).constant("dim")] = 1;
  ElementEmitter emitter(context, axes, no_members());
  const DType accumulator = runtime::compute_type(result.type.dtype);
  const int operand = emitter.cast(emitter.element(self, identity(rank)), accumulator);
  const bool stepwise = rounds_each_step(node);
  const int running = emitter.emit_here({.kind = StmtKind::kScan,
                                         .dtype = stepwise ? result.type.dtype : accumulator,
                                         .operands = {operand},
                                         .stepwise = stepwise,
                                         .node = &node,
                                         .reduction = node.op->reduction},
                                        true);
  const BufferLayout& layout = context.layouts[result.id];
  const int buffer = emitter.plan_buffer(layout.buffer, result.type.dtype, product(result.type.sizes), true);
  emitter.store_to(buffer, result.type.dtype, emitter.memory_index(layout, identity(rank)),
                   emitter.cast(running, result.type.dtype));
  return named(finish_kernel(context, axes, emitter, /*sequential=*/true), node);
}

// ---- few long rows: what blocks of them come to, the running values of these, and the scan of each block from there

int emit_prim(ElementEmitter& emitter, Prim prim, DType dtype, std::vector<int> operands) {
  return emitter.emit(
      {.kind = StmtKind::kPrim, .dtype = dtype, .operands = std::move(operands), .prim = prim});
}

// What a block begins with, joined with its running values.
using JoinFn = int (*)(ElementEmitter&, DType, int before, int running);

template <Prim prim>
int join_by(ElementEmitter& emitter, DType dtype, int before, int running) {
  return emit_prim(emitter, prim, dtype, {before, running});
}

// log(exp(x) + exp(y)); equal infinities give themselves.
int join_logarithms(ElementEmitter& emitter, DType dtype, int x, int y) {
  const auto prim = [&](Prim prim, std::vector<int> operands, DType of) {
    return emit_prim(emitter, prim, of, std::move(operands));
  };
  const int infinity = emitter.emit(
      {.kind = StmtKind::kConstant, .dtype = dtype, .value = std::numeric_limits<double>::infinity()});
  int tail = prim(Prim::k_abs, {prim(Prim::k_sub, {x, y}, dtype)}, dtype);
  for (Prim next : {Prim::k_neg, Prim::k_exp, Prim::k_log1p}) tail = prim(next, {tail}, dtype);
  const int sum = prim(Prim::k_add, {prim(Prim::k_max, {x, y}, dtype), tail}, dtype);
  const int infinite = prim(Prim::k_eq, {prim(Prim::k_abs, {x}, dtype), infinity}, DType::kBool);
  const int same = prim(Prim::k_bit_and, {infinite, prim(Prim::k_eq, {x, y}, DType::kBool)}, DType::kBool);
  return emitter.emit({.kind = StmtKind::kSelect, .dtype = dtype, .operands = {same, x, sum}});
}

struct ScanOperator {
  std::string_view name;
  JoinFn join;
};
constexpr ScanOperator kScanOperators[] = {{"core.cumsum", join_by<Prim::k_add>},
                                           {"core.cumprod", join_by<Prim::k_mul>},
                                           {"core.cummax_values", join_by<Prim::k_max>},
                                           {"core.cummin_values", join_by<Prim::k_min>},
                                           {"core.logcumsumexp", join_logarithms}};

// Of the first size that divides the row, or of about the wanted number of elements, the last block not full.
int64_t block_size(const Sym& length, int64_t hint, int64_t blocks) {
  const int64_t least = std::max<int64_t>(1, hint / blocks);
  if (length.is_constant())
    for (int64_t size = (least + 15) / 16 * 16; size <= 2 * least; size += 16)
      if (hint % size == 0) return size;
  return (least + 1023) / 1024 * 1024;
}

class BlockedScan {
 public:
  // None where the target does not want it.
  static std::optional<BuiltKernels> build(const LoweringContext& context, const Node& node) {
    const Value& self = *args_of(node).value("self");
    const auto* row = std::ranges::find(kScanOperators, node.op->name, &ScanOperator::name);
    if (self.type.rank() == 0 || self.type.dtype == DType::kBool || row == std::end(kScanOperators) ||
        rounds_each_step(node))
      return {};
    const size_t dim = static_cast<size_t>(args_of(node).constant("dim"));
    ReductionShape shape{
        .length = context.hint(self.type.sizes[dim]),
        .results_are_innermost = dim + 1 < self.type.sizes.size() && !(self.type.sizes.back() == Sym(1))};
    for (size_t d = 0; d < self.type.sizes.size(); ++d)
      if (d != dim) shape.results *= std::max<int64_t>(1, context.hint(self.type.sizes[d]));
    const ReductionBlocks blocks = context.target.scan_blocks(shape);
    if (blocks.wanted < 2) return {};
    return BlockedScan(context, node, dim, row->join,
                       block_size(self.type.sizes[dim], shape.length, blocks.wanted))
        .build();
  }

 private:
  BlockedScan(const LoweringContext& context, const Node& node, size_t dim, JoinFn join, int64_t block)
      : context_(context),
        node_(node),
        self_(*args_of(node).value("self")),
        result_(*node.results[0]),
        dim_(static_cast<int>(dim)),
        join_(join),
        axes_(axes_over(self_.type.sizes)),
        index_(identity(self_.type.sizes.size())) {
    // Axis `dim` is the number of the block; the place in it is a new axis at the end.
    inner_ = static_cast<int>(axes_.extents.size());
    const Sym length = axes_.extents[dim_];
    index_[dim_] = add(scale(axis_index(dim_), Sym(block)), axis_index(inner_));
    axes_.extents[dim_] = floordiv(length + Sym(block - 1), Sym(block));
    axes_.extents.push_back(Sym(block));
    axes_.is_row.push_back(1);
    inside_ = {index_[dim_], Sym(), length};
    // As scans are computed (loop_ir.h).
    const DType compute = runtime::compute_type(result_.type.dtype);
    accumulator_ = runtime::is_float(compute) ? DType::kF64 : compute;
    // What blocks come to: [other dims..., blocks], row-major.
    at_ = constant_index(Sym());
    for (int axis = 0; axis < inner_; ++axis)
      if (axis != dim_) append(axis);
    append(dim_);
  }

  void append(int axis) {
    at_ = add(scale(at_, axes_.extents[axis]), axis_index(axis));
    count_ = count_ * axes_.extents[axis];
  }

  BuiltKernels build() {
    BuiltKernels built;
    built.temporaries = {{accumulator_, count_}, {accumulator_, count_}};
    for (Kernel kernel : {totals(), running_totals(), scans()}) built.kernels.push_back(named(kernel, node_));
    built.kernels[0].name += "_totals";
    built.kernels[1].name += "_of_totals";
    return built;
  }

  int temporary(ElementEmitter& emitter, int i, bool written) const {
    return emitter.plan_buffer(kTemporary - i, accumulator_, count_, written);
  }
  int value(ElementEmitter& emitter, int mask) const {
    return emitter.cast(emitter.element(self_, index_, mask), accumulator_);
  }
  int accumulate(ElementEmitter& emitter, StmtKind kind, int operand) const {
    return emitter.emit_here({.kind = kind,
                              .dtype = accumulator_,
                              .operands = {operand},
                              .node = &node_,
                              .reduction = node_.op->reduction},
                             true);
  }

  Kernel totals() const {
    ElementEmitter emitter(context_, axes_, no_members());
    const int mask = emitter.condition(inside_);
    int operand = value(emitter, mask);
    if (mask >= 0) operand = emitter.or_identity(*node_.op->reduction, operand, mask, accumulator_);
    const int total = accumulate(emitter, StmtKind::kReduce, operand);
    emitter.set_level(1);
    emitter.store_to(temporary(emitter, 0, true), accumulator_, at_, total);
    return finish_kernel(context_, axes_, emitter);
  }

  Kernel running_totals() const {
    LoopAxes axes = axes_;
    axes.extents[inner_] = Sym(1);  // gone
    axes.is_row[inner_] = 0;
    axes.is_row[dim_] = 1;
    ElementEmitter emitter(context_, axes, no_members());
    const int total = emitter.load_from(temporary(emitter, 0, false), accumulator_, at_);
    emitter.store_to(temporary(emitter, 1, true), accumulator_, at_,
                     accumulate(emitter, StmtKind::kScan, total));
    return finish_kernel(context_, axes, emitter, /*sequential=*/true);
  }

  Kernel scans() const {
    ElementEmitter emitter(context_, axes_, no_members());
    const int follows = emitter.condition({axis_index(dim_), Sym(1), axes_.extents[dim_]});
    const int before = emitter.load_from(temporary(emitter, 1, false), accumulator_,
                                         add(at_, constant_index(Sym(-1))), follows);
    const int mask = emitter.condition(inside_);
    const int running = accumulate(emitter, StmtKind::kScan, value(emitter, mask));
    int result = join_(emitter, accumulator_, before, running);
    if (follows >= 0)
      result = emitter.emit_here(
          {.kind = StmtKind::kSelect, .dtype = accumulator_, .operands = {follows, result, running}}, true);
    const BufferLayout& layout = context_.layouts[result_.id];
    const DType dtype = result_.type.dtype;
    const int buffer = emitter.plan_buffer(layout.buffer, dtype, product(result_.type.sizes), true);
    emitter.store_to(buffer, dtype, emitter.memory_index(layout, index_), emitter.cast(result, dtype), mask);
    return finish_kernel(context_, axes_, emitter, /*sequential=*/true);
  }

  const LoweringContext& context_;
  const Node& node_;
  const Value &self_, &result_;
  const int dim_;
  const JoinFn join_;
  int inner_ = 0;
  LoopAxes axes_;
  std::vector<Index> index_;  // of an element
  Condition inside_;          // the row
  Index at_;                  // of a block's total
  Sym count_ = Sym(1);
  DType accumulator_{};
};

int combine(ElementEmitter& emitter, std::string_view reduce, DType dtype, int before, int value) {
  Prim prim = Prim::k_add;
  if (reduce == "prod")
    prim = Prim::k_mul;
  else if (reduce == "amax")
    prim = dtype == DType::kBool ? Prim::k_bit_or : Prim::k_max;
  else if (reduce == "amin")
    prim = dtype == DType::kBool ? Prim::k_bit_and : Prim::k_min;
  else if (reduce != "sum")
    throw graph::Unsupported("scatter with reduce=" + std::string(reduce));
  if (dtype == DType::kBool && prim == Prim::k_add) prim = Prim::k_bit_or;
  if (dtype == DType::kBool && prim == Prim::k_mul) prim = Prim::k_bit_and;
  const DType compute = runtime::compute_type(dtype);
  const int result =
      emitter.emit_here({.kind = StmtKind::kPrim,
                         .dtype = compute,
                         .operands = {emitter.cast(before, compute), emitter.cast(value, compute)},
                         .prim = prim},
                        true);
  return emitter.cast(result, dtype);
}

// Whether the target writes the points of a scatter in any order.
bool in_any_order(const LoweringContext& context, DType dtype, std::string_view reduce) {
  return (reduce.empty() || reduce == "sum") && context.target.scatters_in_any_order(dtype, !reduce.empty());
}

// Writes value to result[at]; `reduce` empty: overwrites. Unless in order, numbers are added by the store itself.
void write(ElementEmitter& emitter, const LoweringContext& context, const Value& result,
           const std::vector<Index>& at, std::string_view reduce, bool in_order, int value) {
  const BufferLayout& layout = context.layouts[result.id];
  const DType dtype = result.type.dtype;
  const int buffer = emitter.plan_buffer(layout.buffer, dtype, product(result.type.sizes), true);
  const Index place = emitter.memory_index(layout, at);
  const bool adds = !reduce.empty() && !in_order;
  if (!reduce.empty() && !adds)
    value = combine(
        emitter, reduce, dtype,
        emitter.emit_here({.kind = StmtKind::kLoad, .dtype = dtype, .buffer = buffer, .index = place}, true),
        value);
  emitter.emit_here({.kind = StmtKind::kStore,
                     .dtype = dtype,
                     .operands = {value},
                     .buffer = buffer,
                     .index = place,
                     .adds = adds},
                    true);
}

Kernel build_scatter(const LoweringContext& context, const Node& node) {
  const graph::Args args = args_of(node);
  const Value &self = *args.value("self"), &indices = *args.value("index"), &src = *args.value("src"),
              &result = *node.results[0];
  const int64_t dim = args.constant("dim");
  const size_t rank = self.type.sizes.size();
  LoopAxes axes = axes_over(indices.type.sizes);
  const bool in_order = !in_any_order(context, result.type.dtype, args.string("reduce"));
  if (rank > 0 && in_order) axes.is_row[dim] = 1;
  ElementEmitter emitter(context, axes, no_members());
  const int value = emitter.element(src, identity(rank));
  std::vector<Index> at = identity(rank);
  const int checked = emitter.check_index(
      emitter.element(indices, at), rank > 0 ? self.type.sizes[dim] : Sym(1), -1, index_error_kind(args));
  if (rank > 0) at[dim] = register_index(checked);
  write(emitter, context, result, at, args.string("reduce"), in_order, value);
  return named(finish_kernel(context, axes, emitter, in_order), node);
}

Kernel build_index_put(const LoweringContext& context, const Node& node) {
  const graph::Args args = args_of(node);
  const Value &self = *args.value("self"), &values = *args.value("values"), &result = *node.results[0];
  const std::vector<Value*> indices = args.values("indices");
  const size_t shape_rank = indices.at(0)->type.sizes.size(), rest = self.type.sizes.size() - indices.size();
  std::vector<Sym> sizes = indices[0]->type.sizes;
  sizes.insert(sizes.end(), self.type.sizes.begin() + static_cast<int64_t>(indices.size()),
               self.type.sizes.end());
  const bool fits = std::ranges::equal(values.type.sizes, sizes, [&](const Sym& a, const Sym& b) {
    return a == b || context.sym.known(graph::Relation::kEq, a, b) == true;
  });
  if (!fits) throw graph::InternalError("index_put: values of another shape than the indices give");
  LoopAxes axes = axes_over(sizes);
  const std::string_view reduce = args.boolean("accumulate") ? "sum" : "";
  const bool in_order = !in_any_order(context, result.type.dtype, reduce);
  for (size_t d = 0; d < shape_rank; ++d) axes.is_row[d] = in_order;
  ElementEmitter emitter(context, axes, no_members());
  const int value = emitter.element(values, identity(sizes.size()));
  std::vector<Index> at;
  for (size_t k = 0; k < indices.size(); ++k)
    at.push_back(register_index(emitter.check_index(emitter.element(*indices[k], identity(shape_rank)),
                                                    self.type.sizes[k], -1, index_error_kind(args))));
  for (const Index& index : identity(rest, static_cast<int>(shape_rank))) at.push_back(index);
  write(emitter, context, result, at, reduce, in_order, value);
  return named(finish_kernel(context, axes, emitter, in_order), node);
}

}  // namespace

Kernel build_copy(const LoweringContext& context, const Value& value, const BufferLayout& destination,
                  const BufferLayout* source) {
  LoopAxes axes = axes_over(value.type.sizes);
  ElementEmitter emitter(context, axes, no_members());
  const std::vector<Index> index = identity(value.type.sizes.size());
  const DType dtype = value.type.dtype;
  const int reg =
      source ? emitter.load_from(emitter.plan_buffer(source->buffer, dtype, product(value.type.sizes), false),
                                 dtype, emitter.memory_index(*source, index))
             : emitter.element(value, index);
  const int buffer =
      emitter.plan_buffer(destination.buffer, value.type.dtype, product(value.type.sizes), true);
  emitter.store_to(buffer, value.type.dtype, emitter.memory_index(destination, index), reg);
  Kernel kernel = finish_kernel(context, axes, emitter);
  kernel.name = "copy";
  return kernel;
}

BuiltKernels build_sequential(const LoweringContext& context, const Node& node) {
  if (context.kind(node) == CoreKind::kRunningCounts) return build_running_counts(context, node);
  if (context.kind(node) == CoreKind::kCompress) return build_compress(context, node);
  BuiltKernels built;
  if (context.kind(node) == CoreKind::kScan) {
    if (std::optional<BuiltKernels> blocked = BlockedScan::build(context, node)) return std::move(*blocked);
    built.kernels.push_back(build_scan(context, node));
    return built;
  }
  built.kernels.push_back(
      build_copy(context, *args_of(node).value("self"), context.layouts[node.results[0]->id]));
  const bool scatter = context.kind(node) == CoreKind::kScatter;
  const Value& written = *(scatter ? args_of(node).value("index") : args_of(node).values("indices").at(0));
  if (!context.is_empty(written))
    built.kernels.push_back(scatter ? build_scatter(context, node) : build_index_put(context, node));
  return built;
}

}  // namespace cdynamo::lowering
