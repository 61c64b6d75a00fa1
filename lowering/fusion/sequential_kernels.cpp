#include "lowering/fusion/sequential_kernels.h"

#include <algorithm>

#include "lowering/target.h"

namespace cdynamo::lowering {
namespace {

using graph::Prim;

const std::unordered_set<const Node*>& no_members() {
  static const auto* const none = new std::unordered_set<const Node*>;
  return *none;
}

// Axes 0 .. rank-1 for the dims of `sizes`; those of size 1 have an axis too, which scheduling drops.
LoopAxes axes_over(const std::vector<Sym>& sizes) {
  return {sizes, std::vector<char>(sizes.size(), 0), /*may_cut=*/false};
}

std::vector<Index> identity(size_t rank, int first = 0) {
  std::vector<Index> index;
  for (size_t d = 0; d < rank; ++d) index.push_back(axis_index(first + static_cast<int>(d)));
  return index;
}

Kernel named(Kernel kernel, const Node& node) {
  kernel.nodes = {&node};
  kernel.name = kernel_name(kernel.nodes);
  return kernel;
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
  const int running = emitter.emit_here({.kind = StmtKind::kScan,
                                         .dtype = accumulator,
                                         .operands = {operand},
                                         .node = &node,
                                         .reduction = node.op->reduction},
                                        true);
  const BufferLayout& layout = context.layouts[result.id];
  const int buffer = emitter.plan_buffer(layout.buffer, result.type.dtype, product(result.type.sizes), true);
  emitter.store_to(buffer, result.type.dtype, emitter.memory_index(layout, identity(rank)),
                   emitter.cast(running, result.type.dtype));
  return named(finish_kernel(context, axes, emitter, /*sequential=*/true), node);
}

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
  BuiltKernels built;
  if (context.kind(node) == CoreKind::kScan) {
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
