#include "lowering/fusion/selection_kernels.h"

namespace cdynamo::lowering {
namespace {

using graph::Prim;

// Of one block; a block's own elements are counted in 32 bits.
constexpr DType kCount = DType::kI32;

int prim(ElementEmitter& emitter, Prim prim, std::vector<int> operands) {
  return emitter.emit(
      {.kind = StmtKind::kPrim, .dtype = DType::kI64, .operands = std::move(operands), .prim = prim});
}

// The elements of a value of one dim: axis 0 is the number of the block, axis 1 the place in it.
class Blocks {
 public:
  Blocks(const Value& value, const Sym& block)
      : count_(floordiv(value.type.sizes[0] + block - Sym(1), block)),
        axes_{{count_, block}, {0, 1}, /*may_cut=*/false},
        index_{add(scale(axis_index(0), block), axis_index(1))},
        inside_{index_[0], Sym(), value.type.sizes[0]} {}

  const LoopAxes& axes() const { return axes_; }
  const std::vector<Index>& index() const { return index_; }
  const Sym& count() const { return count_; }
  // Whether an element is there; -1: all are.
  int inside(ElementEmitter& emitter) const { return emitter.condition(inside_); }
  // Of a mask: whether the element is there, and selected.
  int selected(ElementEmitter& emitter, const Value& mask, int inside) const {
    return emitter.all_of(inside, emitter.element(mask, index_, inside));
  }

 private:
  Sym count_;
  LoopAxes axes_;
  std::vector<Index> index_;
  Condition inside_;
};

int accumulate(ElementEmitter& emitter, StmtKind kind, DType dtype, int operand, const Node& node) {
  return emitter.emit_here({.kind = kind,
                            .dtype = dtype,
                            .operands = {emitter.cast(operand, dtype)},
                            .node = &node,
                            .reduction = graph::op("core.cumsum").reduction},
                           true);
}

}  // namespace

BuiltKernels build_running_counts(const LoweringContext& context, const Node& node) {
  const Value &mask = *args_of(node).value("self"), &result = *node.results[0];
  const Blocks blocks(mask, args_of(node).integer("block"));
  const BufferLayout& layout = context.layouts[result.id];
  const auto buffer = [&](ElementEmitter& emitter, bool of_result, bool written) {
    return emitter.plan_buffer(of_result ? layout.buffer : kTemporary, of_result ? DType::kI64 : kCount,
                               blocks.count(), written);
  };
  const Index at = axis_index(0);
  const Index to = add(constant_index(layout.offset), scale(at, layout.strides[0]));
  const bool one = blocks.count() == Sym(1);
  BuiltKernels built;
  ElementEmitter totals(context, blocks.axes(), no_members());
  const int flag = blocks.selected(totals, mask, blocks.inside(totals));
  const int total = accumulate(totals, StmtKind::kReduce, kCount, flag, node);
  totals.set_level(1);
  if (one)
    totals.store_to(buffer(totals, true, true), DType::kI64, to, totals.cast(total, DType::kI64));
  else
    totals.store_to(buffer(totals, false, true), kCount, at, total);
  built.kernels.push_back(named(finish_kernel(context, blocks.axes(), totals), node));
  if (one) return built;
  built.temporaries = {{kCount, blocks.count()}};
  const LoopAxes row{{blocks.count()}, {1}, /*may_cut=*/false};
  ElementEmitter running(context, row, no_members());
  const int of_block = running.load_from(buffer(running, false, false), kCount, at);
  running.store_to(buffer(running, true, true), DType::kI64, to,
                   accumulate(running, StmtKind::kScan, DType::kI64, of_block, node));
  built.kernels.push_back(
      named(finish_kernel(context, row, running, /*sequential=*/true), node, "_of_blocks"));
  return built;
}

BuiltKernels build_compress(const LoweringContext& context, const Node& node) {
  const graph::Args args = args_of(node);
  const Value &self = *args.value("self"), &mask = *args.value("mask"), &counts = *args.value("counts"),
              &result = *node.results[0];
  const Blocks blocks(self, args.integer("block"));
  ElementEmitter emitter(context, blocks.axes(), no_members());
  int before = -1;  // what the blocks before have; 0 for the first
  if (!(blocks.count() == Sym(1)))
    before = emitter.element(counts, {add(axis_index(0), constant_index(Sym(-1)))},
                             emitter.condition({axis_index(0), Sym(1), blocks.count()}));
  const int inside = blocks.inside(emitter);
  const int flag = blocks.selected(emitter, mask, inside);
  int place = emitter.cast(accumulate(emitter, StmtKind::kScan, kCount, flag, node), DType::kI64);
  if (before >= 0) place = prim(emitter, Prim::k_add, {before, place});
  place = prim(emitter, Prim::k_sub, {place, emitter.constant(1)});
  const BufferLayout& layout = context.layouts[result.id];
  const DType dtype = result.type.dtype;
  const int buffer = emitter.plan_buffer(layout.buffer, dtype, result.type.sizes[0], true);
  emitter.store_to(buffer, dtype, emitter.memory_index(layout, {register_index(place)}),
                   emitter.element(self, blocks.index(), inside), flag);
  BuiltKernels built;
  built.kernels.push_back(named(finish_kernel(context, blocks.axes(), emitter, /*sequential=*/true), node));
  return built;
}

}  // namespace cdynamo::lowering
