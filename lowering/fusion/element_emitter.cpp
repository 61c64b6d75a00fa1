#include "lowering/fusion/element_emitter.h"

#include <algorithm>
#include <utility>

namespace cdynamo::lowering {
namespace {

constexpr int kExpensive = 4;  // operations: more than this is not computed twice
// Operations that a kernel may compute again: so many, and a part of what it computes once.
constexpr int kRepeatedAnyway = 32, kRepeatedPart = 4;
constexpr int64_t kLargestScratch = 1 << 16;  // elements of a row kept in cache
constexpr double kPaddedAnyway = 1.25;        // what is computed for padding too, of what is computed

}  // namespace

std::vector<int> LoopAxes::of(bool row) const {
  std::vector<int> result;
  for (size_t axis = 0; axis < extents.size(); ++axis)
    if (static_cast<bool>(is_row[axis]) == row) result.push_back(static_cast<int>(axis));
  return result;
}

bool ElementEmitter::computed_here(const Value& value) const {
  return value.node && (context_.is_inline(*value.node) || members_.count(value.node));
}

int ElementEmitter::level_of(const Value& value) {
  if (!computed_here(value)) return 0;
  auto [found, is_new] = levels_.try_emplace(value.id, 0);
  if (!is_new) return found->second;
  int level = 0;
  graph::for_each_operand(const_cast<Node&>(*value.node),
                          [&](Value*& operand) { level = std::max(level, level_of(*operand)); });
  if (context_.kind(*value.node) == CoreKind::kReduction && axes_.has_rows()) ++level;
  return levels_[value.id] = level;
}

// --- statements ---

bool ElementEmitter::on_row(const Stmt& stmt) const {
  auto row_register = [&](int reg) { return reg >= 0 && sections_of_[reg] % 2 == 1; };
  if (std::any_of(stmt.operands.begin(), stmt.operands.end(), row_register) || row_register(stmt.mask))
    return true;
  if (stmt.kind == StmtKind::kAxis) return axes_.is_row[stmt.axis];
  for (const IndexTerm& term : stmt.index.terms)
    if (term.axis >= 0 ? axes_.is_row[term.axis] != 0 : row_register(term.reg)) return true;
  return false;
}

int ElementEmitter::emit(Stmt stmt) {
  const bool row = on_row(stmt);
  return emit_here(std::move(stmt), row);
}

int ElementEmitter::emit_here(Stmt stmt, bool row) {
  const size_t section = 2 * level_ + (row ? 1 : 0);
  while (sections.size() <= section) sections.push_back({sections.size() % 2 == 1, {}});
  if (repeating_) {
    repeated_statements_ += stmt.kind == StmtKind::kOp ? context_.costs[stmt.node->id] : 1;
    if (!may_repeat_ && repeated_statements_ > kMostRepeated) throw too_much_repeated();
  }
  if (stmt.kind != StmtKind::kStore) {
    stmt.dst = num_registers();
    dtypes_.push_back(stmt.dtype);
    // A reduction's result is a value of the outer point.
    sections_of_.push_back(static_cast<int>(stmt.kind == StmtKind::kReduce ? section + 1 : section));
  }
  const int dst = stmt.dst;
  sections[section].body.push_back(std::move(stmt));
  return dst;
}

int ElementEmitter::plan_buffer(int id, DType dtype, const Sym& size, bool written) {
  auto [found, is_new] = buffer_of_.try_emplace(id, static_cast<int>(buffers.size()));
  if (is_new)
    buffers.push_back(
        {.kind = BufferKind::kGlobal, .dtype = dtype, .plan_buffer = id, .size = size, .written = written});
  if (written) buffers[found->second].written = true;
  return found->second;
}

Index ElementEmitter::memory_index(const BufferLayout& layout, const std::vector<Index>& index) const {
  Index at = constant_index(layout.offset);
  for (size_t d = 0; d < index.size(); ++d) at = add(at, scale(index[d], layout.strides[d]));
  return at;
}

int ElementEmitter::load_from(int buffer, DType dtype, const Index& at, int mask) {
  return emit({.kind = StmtKind::kLoad, .dtype = dtype, .mask = mask, .buffer = buffer, .index = at});
}

void ElementEmitter::store_to(int buffer, DType dtype, const Index& at, int reg, int mask) {
  buffers[buffer].written = true;
  emit({.kind = StmtKind::kStore,
        .dtype = dtype,
        .operands = {reg},
        .mask = mask,
        .buffer = buffer,
        .index = at});
}

int ElementEmitter::constant(int64_t value) {
  return emit({.kind = StmtKind::kConstant, .dtype = DType::kI64, .int_value = value});
}

int ElementEmitter::size_register(const Sym& size) {
  if (size.is_constant()) return constant(size.constant());
  return emit({.kind = StmtKind::kSize, .dtype = DType::kI64, .size = size});
}

int ElementEmitter::cast(int reg, DType dtype) {
  if (dtypes_[reg] == dtype) return reg;
  return emit({.kind = StmtKind::kCast, .dtype = dtype, .operands = {reg}});
}

int ElementEmitter::index_register(const Index& index) {
  for (auto& [known_index, known] : known_indices_)
    if (visible(known) && equal(known_index, index)) return known.reg;
  int sum = -1;
  auto plus = [&](int reg) {
    sum = sum < 0 ? reg
                  : emit({.kind = StmtKind::kPrim,
                          .dtype = DType::kI64,
                          .operands = {sum, reg},
                          .prim = graph::Prim::k_add});
  };
  for (const IndexTerm& term : index.terms) {
    int reg =
        term.axis >= 0 ? emit({.kind = StmtKind::kAxis, .dtype = DType::kI64, .axis = term.axis}) : term.reg;
    if (!(term.stride == Sym(1)))
      reg = emit({.kind = StmtKind::kPrim,
                  .dtype = DType::kI64,
                  .operands = {reg, size_register(term.stride)},
                  .prim = graph::Prim::k_mul});
    plus(reg);
  }
  if (sum < 0 || !(index.offset == Sym())) plus(size_register(index.offset));
  known_indices_.push_back({index, {.mask = -1, .reg = sum, .section = sections_of_[sum]}});
  return sum;
}

int ElementEmitter::div_mod(const Index& index, const std::optional<Sym>& divisor,
                            const std::optional<Sym>& modulus) {
  int reg = index_register(index);
  if (divisor)
    reg = emit({.kind = StmtKind::kPrim,
                .dtype = DType::kI64,
                .operands = {reg, size_register(*divisor)},
                .prim = graph::Prim::k_div});
  if (modulus)
    reg = emit({.kind = StmtKind::kPrim,
                .dtype = DType::kI64,
                .operands = {reg, size_register(*modulus)},
                .prim = graph::Prim::k_rem});
  return reg;
}

int ElementEmitter::all_of(int mask_a, int mask_b) {
  if (mask_a < 0 || mask_b < 0 || mask_a == mask_b) return std::max(mask_a, mask_b);
  return emit({.kind = StmtKind::kPrim,
               .dtype = DType::kBool,
               .operands = {mask_a, mask_b},
               .prim = graph::Prim::k_bit_and});
}

// What follows from the extents of the loops alone.
ElementEmitter::Proof ElementEmitter::prove(const Condition& condition) const {
  Proof proof{true, true, condition.index.offset.is_constant()};
  Sym least = condition.index.offset, most = least;
  if (proof.multiple) proof.multiple = least.constant() % condition.multiple_of == 0;
  for (const IndexTerm& term : condition.index.terms) {
    if (term.axis < 0 || !term.stride.is_constant()) return {false, false, condition.multiple_of == 1};
    const Sym reach = term.stride * (axes_.extents[term.axis] - Sym(1));
    (term.stride.constant() > 0 ? most : least) = (term.stride.constant() > 0 ? most : least) + reach;
    proof.multiple &= term.stride.constant() % condition.multiple_of == 0;
  }
  const Sym above = least - condition.low, below = condition.high - most;
  proof.low = above.is_constant() && above.constant() >= 0;
  proof.high = below.is_constant() && below.constant() >= 1;
  proof.multiple |= condition.multiple_of == 1;
  return proof;
}

// The register of what does not hold everywhere; -1: it does.
int ElementEmitter::condition(const Condition& condition) {
  auto compare = [&](int reg, int bound, graph::Prim prim) {
    return emit({.kind = StmtKind::kPrim, .dtype = DType::kBool, .operands = {reg, bound}, .prim = prim});
  };
  const Proof proof = prove(condition);
  if (proof.low && proof.high && proof.multiple) return -1;
  const int reg = index_register(condition.index);
  int mask = -1;
  if (!proof.low) mask = compare(reg, size_register(condition.low), graph::Prim::k_ge);
  if (!proof.high) mask = all_of(mask, compare(reg, size_register(condition.high), graph::Prim::k_lt));
  if (!proof.multiple) {
    const int rest = emit({.kind = StmtKind::kPrim,
                           .dtype = DType::kI64,
                           .operands = {reg, constant(condition.multiple_of)},
                           .prim = graph::Prim::k_rem});
    mask = all_of(mask, compare(rest, constant(0), graph::Prim::k_eq));
  }
  return mask;
}

void ElementEmitter::set_row_mask(const Condition& condition) { row_condition_ = condition; }

// Whether there is memory at the place though the mask may be false: it is the row's, and says nothing of this place.
bool ElementEmitter::is_inside(const Index& at, int mask) const {
  return mask >= 0 && mask == row_mask_ && std::ranges::none_of(at.terms, [&](const IndexTerm& term) {
           return term.axis < 0 ||
                  std::ranges::count(row_condition_->index.terms, term.axis, &IndexTerm::axis);
         });
}

int ElementEmitter::row_mask() {
  if (!row_condition_) return -1;
  if (std::exchange(row_mask_level_, level_) != level_) row_mask_ = condition(*row_condition_);
  return row_mask_;
}

int ElementEmitter::check_index(int reg, const Sym& size, int mask, int error) {
  reg = cast(reg, DType::kI64);
  // Where nothing is read, any index is good.
  if (mask >= 0)
    reg = emit({.kind = StmtKind::kSelect, .dtype = DType::kI64, .operands = {mask, reg, constant(0)}});
  return emit({.kind = StmtKind::kCheckIndex,
               .dtype = DType::kI64,
               .operands = {reg},
               .int_value = error,
               .size = size});
}

// --- elements ---

ElementEmitter::Known* ElementEmitter::find(const Value& value, const std::vector<Index>& index, int mask) {
  auto found = known_.find(value.id);
  if (found == known_.end()) return nullptr;
  Known* best = nullptr;
  for (Known& known : found->second)
    if ((known.mask == mask || known.mask == -1) && equal(known.index, index) && (!best || visible(known)))
      best = &known;
  return best;
}

int ElementEmitter::remember(const Value& value, const std::vector<Index>& index, int mask, int reg) {
  known_[value.id].push_back({index, mask, reg, sections_of_[reg]});
  return reg;
}

// The sum of what it takes to compute the element again from memory; `depth` bounds the search.
int ElementEmitter::cone_cost(const Value& value, int depth) {
  if (!computed_here(value) || context_.kind(*value.node) == CoreKind::kReduction) return 1;
  if (depth == 0) return kExpensive + 1;
  int cost = context_.costs[value.node->id];
  graph::for_each_operand(const_cast<Node&>(*value.node), [&](Value*& operand) {
    if (cost <= 2 * kExpensive) cost += cone_cost(*operand, depth - 1);
  });
  return cost;
}

bool ElementEmitter::worth_keeping(const Value& value) {
  const CoreKind kind = context_.kind(*value.node);
  return !is_view(kind) && kind != CoreKind::kReduction && cone_cost(value, 4) > kExpensive;
}

Index ElementEmitter::scratch_index() const {
  // Every row element has one place: the row-major number of its row axes.
  Index at = constant_index(Sym());
  for (int axis : axes_.of(true)) at = add(scale(at, axes_.extents[axis]), axis_index(axis));
  return at;
}

// An element that an earlier level computed: from where it was stored, or kept in row scratch from now on;
// -1: compute it again.
int ElementEmitter::reload(const Value& value, Known& known) {
  if (known.mask != -1) return -1;
  if (known.stored_buffer < 0) {
    if (!worth_keeping(value) || row_condition_) return -1;
    Sym size(1);
    for (int axis : axes_.of(true)) size = size * axes_.extents[axis];
    std::vector<int> all(axes_.extents.size());
    for (size_t i = 0; i < all.size(); ++i) all[i] = static_cast<int>(i);
    if (context_.hint(size) > kLargestScratch || !covers(known.index, value.type.sizes, all, axes_.extents))
      return -1;
    // Scratch holds what the register holds: half values as float32.
    const DType dtype = runtime::compute_type(value.type.dtype);
    known.stored_buffer = static_cast<int>(buffers.size());
    known.stored_at = scratch_index();
    buffers.push_back({.kind = BufferKind::kRowScratch, .dtype = dtype, .size = size, .written = true});
    sections[known.section].body.push_back({.kind = StmtKind::kStore,
                                            .dtype = dtype,
                                            .operands = {known.reg},
                                            .buffer = known.stored_buffer,
                                            .index = known.stored_at});
  }
  const KernelBuffer& buffer = buffers[known.stored_buffer];
  int reg = load_from(known.stored_buffer, buffer.dtype, known.stored_at);
  return cast(reg, value.type.dtype);
}

void ElementEmitter::refuse_repeated_statements() const {
  if (repeated_statements_ > kRepeatedAnyway + (num_registers() - repeated_statements_) / kRepeatedPart)
    throw too_much_repeated();
}

// Computed in this kernel before, as another element. The same one at a later level is no other.
bool ElementEmitter::is_repeated(const Value& value, const std::vector<Index>& index, int mask) {
  if (is_view(context_.kind(*value.node))) return false;
  const auto found = known_.find(value.id);
  return found != known_.end() && !find(value, index, mask);
}

int ElementEmitter::element(const Value& value, const std::vector<Index>& index, int mask) {
  if (Known* known = find(value, index, mask)) {
    if (visible(*known)) return known->reg;
    if (computed_here(value)) {
      // A copy: emitting may move the table.
      Known copy = *known;
      const int reg = reload(value, copy);
      for (Known& entry : known_[value.id])
        if (entry.reg == copy.reg) entry = copy;
      if (reg >= 0) {
        remember(value, index, mask, reg);
        known_[value.id].back().stored_buffer = copy.stored_buffer;
        known_[value.id].back().stored_at = copy.stored_at;
        return reg;
      }
    }
  }
  int reg;
  if (computed_here(value)) {
    const bool outer = std::exchange(repeating_, repeating_ || is_repeated(value, index, mask));
    reg = compute(*value.node, value, index, mask);
    repeating_ = outer;
  } else {
    const BufferLayout& layout = context_.layouts[value.id];
    if (layout.buffer < 0) throw graph::InternalError("a value that is not in memory is read: " + value.name);
    const int buffer = plan_buffer(layout.buffer, value.type.dtype, product(value.type.sizes), false);
    const Index at = memory_index(layout, index);
    reg = load_from(buffer, value.type.dtype, at, is_inside(at, mask) ? -1 : mask);
  }
  return remember(value, index, mask, reg);
}

void ElementEmitter::store(const Value& value, const std::vector<Index>& index) {
  const BufferLayout& layout = context_.layouts[value.id];
  const Index at = memory_index(layout, index);
  bool row = false;
  for (const IndexTerm& term : at.terms) row |= term.axis >= 0 && axes_.is_row[term.axis];
  const int mask = row ? row_mask() : -1;
  // What is not stored is not read either: there may be no such memory.
  const int reg = element(value, index, mask);
  const int buffer = plan_buffer(layout.buffer, value.type.dtype, product(value.type.sizes), true);
  // A row's store belongs in the row's loop even where its index and value do not depend on the row (sizes of
  // 1, constants).
  Stmt stmt{.kind = StmtKind::kStore,
            .dtype = value.type.dtype,
            .operands = {reg},
            .mask = mask,
            .buffer = buffer,
            .index = at};
  const bool in_row = on_row(stmt);
  emit_here(std::move(stmt), in_row);
  if (mask < 0) {
    for (Known& known : known_[value.id]) {
      if (known.reg != reg) continue;
      known.stored_buffer = buffer;
      known.stored_at = at;
    }
  }
}

// A costly node may be computed once for each of its elements, not once for each reader.
void ElementEmitter::refuse_repetition(const Node& node, const std::vector<Index>& index) {
  if (may_repeat_ || context_.costs[node.id] <= kExpensive) return;
  std::vector<int> all(axes_.extents.size());
  for (size_t i = 0; i < all.size(); ++i) all[i] = static_cast<int>(i);
  const std::vector<Sym>& sizes = node.results[0]->type.sizes;
  if (covers(index, sizes, all, axes_.extents) || covers(index, sizes, axes_.of(false), axes_.extents))
    return;
  // Behind a pad: what is computed for nothing is little.
  const bool is_first = !known_.contains(node.results[0]->id);
  if (is_first && visits_once(index, axes_.extents) &&
      context_.hint(product(axes_.extents)) <= context_.hint(product(sizes)) * kPaddedAnyway)
    return;
  throw CannotFuse{"an expensive operator would be repeated"};
}

}  // namespace cdynamo::lowering
