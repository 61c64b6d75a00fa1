#include "lowering/fusion/kernel_builder.h"

#include <algorithm>

#include "graph/strides.h"
#include "lowering/loops/domain.h"
#include "lowering/target.h"

namespace cdynamo::lowering {
namespace {

// One attempt at a kernel over a given domain: finds out which axes are rows and where each value is
// computed, then emits.
class Attempt : public IndexEmitter {
 public:
  Attempt(const LoweringContext& context, const KernelSpec& spec,
          const std::unordered_set<const Node*>& members, const Domain& domain, const Value* root,
          const Node* root_reduction)
      : context_(context),
        spec_(spec),
        members_(members),
        domain_(domain),
        root_(root),
        root_reduction_(root_reduction) {
    axes_.extents = domain.extents();
    axes_.is_row.assign(axes_.extents.size(), 0);
    for (const Node* node : spec.members)
      if (context.kind(*node) == CoreKind::kReduction) reductions_.push_back(node);
  }

  BuiltKernels run() {
    place();
    if (axes_.has_rows() && wants_split()) return emit_split();
    return emit_whole();
  }

 private:
  // --- placement ---

  bool computed_here(const Value& value) const {
    return value.node && (context_.is_inline(*value.node) || members_.count(value.node));
  }
  static constexpr int kNobody = 1 << 30;  // stands for any register
  int div_mod(const Index&, const std::optional<Sym>&, const std::optional<Sym>&) override { return kNobody; }
  AccessScope scope() { return {context_, axes_.extents, this}; }

  std::vector<int> all_axes() const {
    std::vector<int> all(axes_.extents.size());
    for (size_t i = 0; i < all.size(); ++i) all[i] = static_cast<int>(i);
    return all;
  }

  void place() {
    const std::vector<Index> index = domain_.index();
    if (root_reduction_) {
      std::vector<Index> kept;
      const graph::Args args = args_of(*root_reduction_);
      const std::vector<int64_t> dims = args.constants("dims");
      for (size_t d = 0; d < index.size(); ++d)
        if (std::find(dims.begin(), dims.end(), static_cast<int64_t>(d)) == dims.end())
          kept.push_back(index[d]);
      found_.push_back({root_reduction_, kept});
    } else {
      visit(*root_, index);
    }
    classify_axes();
    descend();
    place_the_rest();
  }

  // Walks from a value at an index down to what it reads; stops at reductions, which it notes.
  void visit(const Value& value, const std::vector<Index>& index) {
    if (!computed_here(value)) return;
    std::vector<std::vector<Index>>& seen = visited_[value.id];
    for (const auto& other : seen)
      if (equal(other, index)) return;
    if (!seen.empty() && spec_.members.size() > 1 && ++repeated_visits_ > kMostRepeated)
      throw too_much_repeated();
    seen.push_back(index);
    if (context_.kind(*value.node) == CoreKind::kReduction) {
      found_.push_back({value.node, index});
      return;
    }
    for (const Access& access : accesses(*value.node, index, scope())) visit(*access.operand, access.index);
    if (context_.kind(*value.node) == CoreKind::kGather || context_.kind(*value.node) == CoreKind::kIndex)
      visit_indirect(value);
  }

  void visit_indirect(const Value& value) {
    const Value& self = *args_of(*value.node).value("self");
    if (computed_here(self)) visit(self, std::vector<Index>(self.type.rank(), register_index(kNobody)));
  }

  void classify_axes() {
    if (reductions_.empty()) return;
    if (found_.empty()) throw CannotFuse{"the reduction is not over the loops' rows"};
    std::vector<char> outer(axes_.extents.size(), 0);
    for (const Index& index : found_[0].index)
      for (const IndexTerm& term : index.terms) {
        if (term.axis < 0) throw CannotFuse{"a reduction is read at an index that is not affine"};
        outer[term.axis] = 1;
      }
    for (size_t axis = 0; axis < outer.size(); ++axis) axes_.is_row[axis] = !outer[axis];
  }

  // Gives each reduction its place and goes on below its operand.
  void descend() {
    for (; !found_.empty();) {
      auto [node, index] = found_.back();
      found_.pop_back();
      place_reduction(*node, index);
    }
  }

  void place_reduction(const Node& node, const std::vector<Index>& index) {
    auto placed = placed_.find(node.results[0]->id);
    if (placed != placed_.end()) {
      if (!equal(placed->second, index)) throw CannotFuse{"a reduction is read in two ways"};
      return;
    }
    if (!covers(index, node.results[0]->type.sizes, axes_.of(false), axes_.extents) &&
        !context_.is_empty(*args_of(node).value("self")))
      throw CannotFuse{"the reductions are over different rows"};
    const std::vector<int> rows = axes_.of(true);
    std::vector<Sym> row_sizes;
    std::vector<Index> row_index;
    for (int axis : rows) {
      row_sizes.push_back(axes_.extents[axis]);
      row_index.push_back(axis_index(axis));
    }
    const std::vector<Sym> reduced = reduced_sizes(node);
    std::vector<Index> reduced_index;
    if (&node == root_reduction_) {
      const std::vector<Index> all = domain_.index();
      for (int64_t d : args_of(node).constants("dims")) reduced_index.push_back(all[d]);
    } else {
      if (!(product(reduced) == product(row_sizes)))
        throw CannotFuse{"the reductions are of different lengths"};
      reduced_index = reshape_index(row_index, row_sizes, reduced, axes_.extents, context_.sym, nullptr);
    }
    placed_[node.results[0]->id] = index;
    operand_index_[&node] = reduction_operand_index(node, index, reduced_index);
    visit(*args_of(node).value("self"), operand_index_[&node]);
  }

  // A natural place is one at which the value is read anyway and where each of its elements is met once.
  const std::vector<Index>* natural_place(const Value& value) const {
    auto seen = visited_.find(value.id);
    if (seen == visited_.end()) return nullptr;
    for (const auto& index : seen->second)
      if (covers(index, value.type.sizes, all_axes(), axes_.extents) ||
          covers(index, value.type.sizes, axes_.of(false), axes_.extents))
        return &index;
    throw CannotFuse{"a stored value is not read element by element"};
  }

  std::vector<Index> default_place(const Value& value) {
    for (bool whole : {true, false}) {
      const std::vector<int> axes = whole ? all_axes() : axes_.of(false);
      std::vector<Sym> sizes;
      std::vector<Index> index;
      for (int axis : axes) {
        sizes.push_back(axes_.extents[axis]);
        index.push_back(axis_index(axis));
      }
      if (product(sizes) == product(value.type.sizes))
        return reshape_index(index, sizes, value.type.sizes, axes_.extents, context_.sym, nullptr);
    }
    throw CannotFuse{"the sizes differ"};
  }

  void place_the_rest() {
    for (size_t i = spec_.stores.size(); i-- > 0;) {
      const Value& value = *spec_.stores[i];
      if (placed_.count(value.id)) continue;
      if (value.node && context_.kind(*value.node) == CoreKind::kReduction && members_.count(value.node)) {
        place_reduction(*value.node, outer_place(value));
      } else if (&value == root_) {
        placed_[value.id] = domain_.index();
      } else {
        const std::vector<Index>* natural = natural_place(value);
        std::vector<Index> index = natural ? *natural : default_place(value);
        visit(value, index);
        placed_[value.id] = std::move(index);
      }
      descend();
    }
    for (const Node* node : reductions_)
      if (!placed_.count(node->results[0]->id)) throw CannotFuse{"a reduction of the group is not reached"};
  }

  std::vector<Index> outer_place(const Value& value) {
    std::vector<Sym> sizes;
    std::vector<Index> index;
    for (int axis : axes_.of(false)) {
      sizes.push_back(axes_.extents[axis]);
      index.push_back(axis_index(axis));
    }
    if (!(product(sizes) == product(value.type.sizes)))
      throw CannotFuse{"the reductions are over different rows"};
    return reshape_index(index, sizes, value.type.sizes, axes_.extents, context_.sym, nullptr);
  }

  bool reads_rows(const std::vector<Index>& index) const {
    for (const Index& at : index)
      for (const IndexTerm& term : at.terms)
        if (term.axis >= 0 && axes_.is_row[term.axis]) return true;
    return false;
  }

  // --- emission ---

  std::unique_ptr<ElementEmitter> make_emitter() {
    auto emitter = std::make_unique<ElementEmitter>(context_, axes_, members_);
    if (spec_.members.size() > 1) emitter->forbid_repetition();
    return emitter;
  }

  // Stores of level `level`; `rows`: those inside the row loop.
  void emit_stores(ElementEmitter& emitter, int level, bool rows) {
    for (const Value* value : spec_.stores) {
      const std::vector<Index>& index = placed_.at(value->id);
      if (emitter.level_of(*value) == level && reads_rows(index) == rows) emitter.store(*value, index);
    }
  }

  BuiltKernels emit_whole() {
    std::unique_ptr<ElementEmitter> emitter = make_emitter();
    int levels = 0;
    for (const Value* value : spec_.stores) levels = std::max(levels, emitter->level_of(*value));
    for (int level = 0; level <= levels; ++level) {
      emitter->set_level(level);
      if (axes_.has_rows()) emit_stores(*emitter, level, false);
      std::vector<std::pair<const Node*, int>> accumulated;
      for (const Node* node : reductions_) {
        const int result_level = emitter->level_of(*node->results[0]);
        if (axes_.has_rows() ? result_level == level + 1 : level == 0)
          accumulated.push_back({node, emitter->reduce(*node, operand_index_.at(node))});
        // Without rows a reduction is its operand, and the next one may need it at once.
        if (!axes_.has_rows() && level == 0)
          emitter->finish_reduction(*node, placed_.at(node->results[0]->id), accumulated.back().second);
      }
      emit_stores(*emitter, level, axes_.has_rows());
      if (!axes_.has_rows()) continue;
      emitter->set_level(level + 1);
      for (auto [node, reg] : accumulated)
        emitter->finish_reduction(*node, placed_.at(node->results[0]->id), reg);
    }
    if (spec_.members.size() > 1) emitter->refuse_repeated_statements();
    BuiltKernels built;
    built.kernels.push_back(finish(*emitter, axes_));
    return built;
  }

  Kernel finish(ElementEmitter& emitter, const LoopAxes& axes) {
    Kernel kernel = finish_kernel(context_, axes, emitter);
    if (spec_.members.size() > 1)
      if (const char* obstacle = context_.target.fusion_obstacle(kernel, context_.sym))
        throw CannotFuse{obstacle};
    kernel.nodes = spec_.members;
    kernel.name = kernel_name(spec_.members);
    return kernel;
  }

  // --- long reductions in blocks: partial results of blocks of the row, then a reduction of those ---

  int64_t extent_hint(int axis) const { return context_.hint(axes_.extents[axis]); }

  // Channels next to each other in memory are not what is reduced.
  bool runs_across_channels() const {
    if (context_.channels_last.empty()) return false;
    return std::ranges::any_of(reductions_, [&](const Node* node) {
      const graph::Args args = args_of(*node);
      const std::vector<int64_t> dims = args.constants("dims");
      return std::ranges::count(dims, 1) == 0 && is_channels_last(*args.value("self"));
    });
  }

  // In memory, or computed element by element of what is.
  bool is_channels_last(const Value& value) const {
    const Value* at = &value;
    while (at->type.rank() == 4 && context_.layouts[at->id].buffer < 0 && at->node) {
      const Value* next = nullptr;
      graph::for_each_operand(const_cast<Node&>(*at->node), [&](Value*& operand) {
        if (!next && operand->type.sizes == at->type.sizes) next = operand;
      });
      if (!next) return false;
      at = next;
    }
    return at->type.rank() == 4 &&
           context_.layouts[at->id].strides == graph::channels_last_strides(at->type.sizes);
  }

  bool wants_split() {
    ReductionShape shape;
    for (size_t axis = 0; axis < axes_.extents.size(); ++axis)
      (axes_.is_row[axis] ? shape.length : shape.results) *=
          std::max<int64_t>(1, extent_hint(static_cast<int>(axis)));
    for (size_t axis = axes_.extents.size(); axis-- > 0 && !axes_.is_row[axis];)
      shape.adjacent_results *= std::max<int64_t>(1, extent_hint(static_cast<int>(axis)));
    const bool channels = runs_across_channels();
    if (channels) shape.adjacent_results = shape.results;
    shape.results_are_innermost = !axes_.is_row.empty() && (!axes_.is_row.back() || channels);
    blocks_ = context_.target.reduction_blocks(shape);
    if (blocks_.wanted == 0) return false;
    const char* obstacle = split_obstacle();
    if (obstacle && spec_.members.size() > 1) throw CannotFuse{obstacle};
    return !obstacle;
  }

  const char* split_obstacle() const {
    ElementEmitter levels(context_, axes_, members_);
    for (const Node* node : reductions_) {
      if (node->op->reduction && node->op->reduction->returns_index)
        return "the position of an extremum is not found in blocks";
      if (levels.level_of(*node->results[0]) > 1) return "a long reduction is done in blocks";
    }
    for (const Value* value : spec_.stores)
      if (levels.level_of(*value) > 0 && reads_rows(placed_.at(value->id)))
        return "a long reduction is done in blocks";
    return nullptr;
  }

  // The row axes over which blocks run; may ask for an axis to be cut.
  std::vector<int> choose_block_axes(int64_t* padded_block) {
    const std::vector<int> rows = axes_.of(true);
    const int64_t wanted = blocks_.wanted;
    std::vector<int> blocks;
    int64_t count = 1;
    for (int axis : rows) {
      const int64_t extent = extent_hint(axis);
      if (count * 2 > wanted) break;
      // The last one is cut, however short: with all of it there would be nothing left to reduce in a block.
      if (count * extent <= blocks_.most && axis != rows.back()) {
        blocks.push_back(axis);
        count *= extent;
        continue;
      }
      const int64_t block = std::max<int64_t>(1, extent * count / wanted);
      if (axes_.extents[axis].is_constant()) {
        for (int64_t size = block; size <= 2 * block; ++size)
          if (extent % size == 0) throw SplitAxis{axis, Sym(size)};
        for (int64_t size = block; size > block / 2; --size)
          if (extent % size == 0) throw SplitAxis{axis, Sym(size)};
      }
      *padded_block = block;
      blocks.push_back(axis);
      break;
    }
    if (blocks.size() == rows.size() && *padded_block == 0) blocks.pop_back();
    return blocks;
  }

  BuiltKernels emit_split() {
    int64_t padded_block = 0;
    const std::vector<int> blocks = choose_block_axes(&padded_block);
    if (blocks.empty()) return emit_whole();
    if (padded_block) return emit_padded(blocks.back(), padded_block);
    BuiltKernels built;
    LoopAxes first = axes_;
    for (int axis : blocks) first.is_row[axis] = 0;
    emit_partials(first, std::nullopt, built);
    return built;
  }

  // The axis has no fitting divisor: blocks of `block` elements, the last one masked.
  BuiltKernels emit_padded(int axis, int64_t block) {
    auto [d, k] = domain_.locate(axis);
    if (domain_.dims[d].factors.size() != 1) return emit_whole();
    const Sym size = domain_.dims[d].factors[0];
    // Axis `axis` becomes the number of the block; the place in it is a new axis at the end.
    const int inner = static_cast<int>(axes_.extents.size());
    const Index position = add(scale(axis_index(axis), Sym(block)), axis_index(inner));
    auto replace = [&](std::vector<Index>& index) {
      for (Index& at : index)
        for (const IndexTerm& term : std::vector<IndexTerm>(at.terms))
          if (term.axis == axis)
            at = add(at, scale(add(position, scale(axis_index(axis), Sym(-1))), term.stride));
    };
    for (auto& [id, index] : placed_) replace(index);
    for (auto& [node, index] : operand_index_) replace(index);
    axes_.extents[axis] = floordiv(size + Sym(block - 1), Sym(block));
    axes_.extents.push_back(Sym(block));
    axes_.is_row.push_back(1);
    BuiltKernels built;
    LoopAxes first = axes_;
    first.is_row[axis] = 0;
    emit_partials(first, Condition{position, Sym(), size}, built);
    return built;
  }

  void emit_partials(const LoopAxes& first, const std::optional<Condition>& inside, BuiltKernels& built) {
    ElementEmitter emitter(context_, first, members_);
    if (inside) emitter.set_row_mask(*inside);
    std::vector<std::pair<const Node*, int>> accumulated;
    for (const Node* node : reductions_)
      accumulated.push_back({node, emitter.reduce(*node, operand_index_.at(node))});
    for (const Value* value : spec_.stores)
      if (emitter.level_of(*value) == 0 && reads_rows(placed_.at(value->id)))
        emitter.store(*value, placed_.at(value->id));
    // Partial results: [outer axes..., blocks...] or [blocks..., outer axes...], row-major.
    std::vector<int> order = axes_.of(false), blocks;
    for (int axis : axes_.of(true))
      if (!first.is_row[axis]) blocks.push_back(axis);
    order.insert(blocks_.by_block ? order.begin() : order.end(), blocks.begin(), blocks.end());
    Index at = constant_index(Sym());
    Sym count(1);
    for (int axis : order) {
      at = add(scale(at, first.extents[axis]), axis_index(axis));
      count = count * first.extents[axis];
    }
    emitter.set_level(1);
    LoopAxes second{first.extents, axes_.is_row};
    for (size_t axis = 0; axis < first.extents.size(); ++axis)
      if (first.is_row[axis]) second.extents[axis] = Sym(1);  // gone
    ElementEmitter last(context_, second, members_);
    std::vector<std::pair<const Node*, int>> totals;
    for (auto [node, reg] : accumulated) {
      const int id = kTemporary - static_cast<int>(built.temporaries.size());
      const DType dtype = emitter.dtype_of(reg);
      built.temporaries.push_back({dtype, count});
      emitter.store_to(emitter.plan_buffer(id, dtype, count, true), dtype, at, reg);
      const int partial = last.load_from(last.plan_buffer(id, dtype, count, false), dtype, at);
      totals.push_back({node, last.reduce_register(*node, partial)});
    }
    last.set_level(1);
    for (auto [node, reg] : totals) last.finish_reduction(*node, placed_.at(node->results[0]->id), reg);
    for (const Value* value : spec_.stores)
      if (!reads_rows(placed_.at(value->id))) last.store(*value, placed_.at(value->id));
    built.kernels.push_back(finish(emitter, first));
    built.kernels.back().name += "_partial";
    built.kernels.push_back(finish(last, second));
  }

  struct Found {
    const Node* node;
    std::vector<Index> index;
  };

  const LoweringContext& context_;
  const KernelSpec& spec_;
  const std::unordered_set<const Node*>& members_;
  const Domain& domain_;
  const Value* root_;
  const Node* root_reduction_;
  LoopAxes axes_;
  ReductionBlocks blocks_;
  std::vector<const Node*> reductions_;
  std::vector<Found> found_;
  int repeated_visits_ = 0;  // of values at another index than before
  std::unordered_map<int, std::vector<std::vector<Index>>>
      visited_;  // by value id: the indices at which it is read
  std::unordered_map<int, std::vector<Index>>
      placed_;  // by value id: where it is stored, or where a reduction's result is
  std::unordered_map<const Node*, std::vector<Index>> operand_index_;  // of reductions
};

// True where a reduction among the members is somewhere below the value.
bool reaches_reduction(const LoweringContext& context, const Value& value,
                       const std::unordered_set<const Node*>& members, std::unordered_set<int>& seen) {
  if (!value.node || !(context.is_inline(*value.node) || members.count(value.node)) ||
      !seen.insert(value.id).second)
    return false;
  if (context.kind(*value.node) == CoreKind::kReduction) return true;
  bool found = false;
  graph::for_each_operand(const_cast<Node&>(*value.node), [&](Value*& operand) {
    found = found || reaches_reduction(context, *operand, members, seen);
  });
  return found;
}

struct Root {
  const Value* value = nullptr;
  const Node* reduction = nullptr;
};

// Whose sizes the loops run over: a stored value that is computed from the group's reductions and as large as
// their operands, else the last reduction's operand, else the largest stored value.
Root choose_root(const LoweringContext& context, const KernelSpec& spec,
                 const std::unordered_set<const Node*>& members) {
  const Node* reduction = nullptr;
  int64_t largest = 0;
  for (const Node* node : spec.members) {
    if (context.kind(*node) != CoreKind::kReduction) continue;
    const int64_t numel = context.numel_hint(*args_of(*node).value("self"));
    if (!reduction || numel >= largest) reduction = node;  // a size that cannot be has a hint below 0
    largest = std::max(largest, numel);
  }
  const Value* best = nullptr;
  for (const Value* value : spec.stores) {
    const int64_t numel = context.numel_hint(*value);
    if (!reduction) {
      if (!best || numel >= context.numel_hint(*best)) best = value;
      continue;
    }
    std::unordered_set<int> seen;
    if (numel == largest && !(value->node && context.kind(*value->node) == CoreKind::kReduction) &&
        reaches_reduction(context, *value, members, seen))
      best = value;
  }
  if (!best) return {nullptr, reduction};
  return {best, nullptr};
}

}  // namespace

BuiltKernels build_kernels(const LoweringContext& context, const KernelSpec& spec) {
  const std::unordered_set<const Node*> members(spec.members.begin(), spec.members.end());
  const Root root = choose_root(context, spec, members);
  Domain domain(root.value ? root.value->type.sizes : args_of(*root.reduction).value("self")->type.sizes);
  for (int splits = 0; splits < kMostSplits; ++splits) {
    try {
      return Attempt(context, spec, members, domain, root.value, root.reduction).run();
    } catch (const SplitAxis& request) {
      domain.split(request);
    }
  }
  throw CannotFuse{"the loops would be cut too often"};
}

std::string kernel_name(const std::vector<const Node*>& nodes) {
  std::string name = nodes.size() > 1 ? "fused" : "";
  std::string last;
  int count = 0;
  for (const Node* node : nodes) {
    std::string op(node->op->name);
    if (op.rfind("core.", 0) == 0) op = op.substr(5);
    if (op == last || op == "cast") continue;
    last = op;
    if (++count > 6) break;
    name += (name.empty() ? "" : "_") + op;
  }
  return name.empty() ? "copy" : name;
}

Kernel named(Kernel kernel, const Node& node, const char* suffix) {
  kernel.nodes = {&node};
  kernel.name = kernel_name(kernel.nodes) + suffix;
  return kernel;
}

const std::unordered_set<const Node*>& no_members() {
  static const auto* const none = new std::unordered_set<const Node*>;
  return *none;
}

}  // namespace cdynamo::lowering
