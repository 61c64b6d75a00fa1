#include "lowering/fusion/memory_plan.h"

#include <algorithm>
#include <iterator>

namespace cdynamo::lowering {
namespace {

constexpr int64_t kAlignment = 64;

Sym aligned(const Sym& bytes) {
  if (bytes.is_constant()) return Sym((bytes.constant() + kAlignment - 1) / kAlignment * kAlignment);
  return floordiv(bytes + Sym(kAlignment - 1), Sym(kAlignment)) * Sym(kAlignment);
}

struct Placed {
  int id;
  const BufferUse* use;
  int64_t size, offset;
};

bool lives_overlap(const BufferUse& a, const BufferUse& b) {
  return a.first_step <= b.last_step && b.first_step <= a.last_step;
}

// Largest first, each at the lowest offset that is free during its life.
void place_constant(const std::vector<std::pair<int, const BufferUse*>>& buffers, ArenaPlan& plan) {
  std::vector<std::pair<int, const BufferUse*>> order = buffers;
  std::stable_sort(order.begin(), order.end(), [](const auto& a, const auto& b) {
    return a.second->bytes.constant() > b.second->bytes.constant();
  });
  std::vector<Placed> placed;
  int64_t total = 0;
  for (auto [id, use] : order) {
    const int64_t size = aligned(use->bytes).constant();
    std::vector<Placed> rivals;
    for (const Placed& other : placed)
      if (lives_overlap(*use, *other.use)) rivals.push_back(other);
    std::sort(rivals.begin(), rivals.end(),
              [](const Placed& a, const Placed& b) { return a.offset < b.offset; });
    int64_t offset = 0;
    for (const Placed& rival : rivals) {
      if (offset + size <= rival.offset) break;
      offset = std::max(offset, rival.offset + rival.size);
    }
    placed.push_back({id, use, size, offset});
    plan.offsets[id] = Sym(offset);
    total = std::max(total, offset + size);
  }
  plan.bytes = Sym(total);
}

// Symbolic sizes: slots that are taken again by buffers known to be no larger.
void place_symbolic(const LoweringContext& context,
                    const std::vector<std::pair<int, const BufferUse*>>& buffers, ArenaPlan& plan) {
  struct Slot {
    Sym size, offset;
    std::vector<const BufferUse*> users;
  };
  std::vector<std::pair<int, const BufferUse*>> order = buffers;
  std::stable_sort(order.begin(), order.end(), [&](const auto& a, const auto& b) {
    return context.hint(a.second->bytes) > context.hint(b.second->bytes);
  });
  std::vector<Slot> slots;
  Sym total;
  for (auto [id, use] : order) {
    const Sym size = aligned(use->bytes);
    auto fits = [&](const Slot& slot) {
      if (!(slot.size == size) && !context.sym.known(graph::Relation::kLe, size, slot.size).value_or(false))
        return false;
      return std::none_of(slot.users.begin(), slot.users.end(),
                          [&](const BufferUse* other) { return lives_overlap(*use, *other); });
    };
    auto slot = std::find_if(slots.begin(), slots.end(), fits);
    if (slot == slots.end()) {
      slots.push_back({size, total, {}});
      slot = slots.end() - 1;
      total = total + size;
    }
    slot->users.push_back(use);
    plan.offsets[id] = slot->offset;
  }
  plan.bytes = total;
}

void emit_program(const Sym& size, std::vector<int64_t>& program) {
  using runtime::SizeExpr;
  if (size.is_constant()) {
    program.insert(program.end(), {SizeExpr::kConst, size.constant()});
    return;
  }
  const graph::SymNode& node = *size.node();
  if (node.kind == graph::SymKind::kSymbol) {
    program.insert(program.end(), {SizeExpr::kSymbol, node.symbol});
    return;
  }
  constexpr SizeExpr::Code kCodes[] = {SizeExpr::kSymbol, SizeExpr::kAdd, SizeExpr::kMul, SizeExpr::kFloorDiv,
                                       SizeExpr::kMod,    SizeExpr::kMin, SizeExpr::kMax};
  emit_program(node.operands[0], program);
  for (size_t i = 1; i < node.operands.size(); ++i) {
    emit_program(node.operands[i], program);
    program.insert(program.end(), {kCodes[static_cast<int>(node.kind)], 0});
  }
}

}  // namespace

ArenaPlan plan_arena(const LoweringContext& context, const std::map<int, BufferUse>& uses) {
  ArenaPlan plan;
  std::vector<std::pair<int, const BufferUse*>> buffers;
  bool constant = true;
  for (const auto& [id, use] : uses) {
    buffers.push_back({id, &use});
    constant &= use.bytes.is_constant();
  }
  if (constant)
    place_constant(buffers, plan);
  else
    place_symbolic(context, buffers, plan);
  plan.text = "arena: " + plan.bytes.str() + " bytes\n";
  for (auto [id, use] : buffers)
    plan.text += "  buffer " + std::to_string(id) + ": " + use->bytes.str() + " bytes at " +
                 plan.offsets[id].str() + ", steps " + std::to_string(use->first_step) + " to " +
                 std::to_string(use->last_step) + "\n";
  return plan;
}

void MemorySet::add_arena(const Sym& offset, const Sym& bytes) {
  const Sym end = offset + bytes;
  if (!offset.is_constant() || !end.is_constant())
    any_of_arena_ = true;
  else if (offset.constant() < end.constant())
    add_range(offset.constant(), end.constant());
}

void MemorySet::add_range(int64_t begin, int64_t end) {
  auto next = arena_.upper_bound(begin);
  if (next != arena_.begin() && std::prev(next)->second >= begin) --next;
  for (; next != arena_.end() && next->first <= end; next = arena_.erase(next)) {
    begin = std::min(begin, next->first);
    end = std::max(end, next->second);
  }
  arena_[begin] = end;
}

bool MemorySet::meets_arena_of(const MemorySet& other) const {
  for (auto [begin, end] : arena_) {
    auto next = other.arena_.lower_bound(end);
    if (next != other.arena_.begin() && std::prev(next)->second > begin) return true;
  }
  return false;
}

bool MemorySet::meets(const MemorySet& other) const {
  if (inputs_ && other.inputs_) return true;
  if ((any_of_arena_ && other.has_arena()) || (has_arena() && other.any_of_arena_)) return true;
  const bool fewer = own_.size() <= other.own_.size();
  for (int id : (fewer ? *this : other).own_)
    if ((fewer ? other : *this).own_.contains(id)) return true;
  return arena_.size() <= other.arena_.size() ? meets_arena_of(other) : other.meets_arena_of(*this);
}

void MemorySet::merge(const MemorySet& other) {
  inputs_ |= other.inputs_;
  any_of_arena_ |= other.any_of_arena_;
  own_.insert(other.own_.begin(), other.own_.end());
  for (auto [begin, end] : other.arena_) add_range(begin, end);
}

runtime::SizeExpr size_expr(const Sym& size) {
  runtime::SizeExpr result;
  if (size.is_constant())
    result.constant = size.constant();
  else
    emit_program(size, result.program);
  return result;
}

runtime::SizeId SizeTable::add(const Sym& size) {
  const auto next = static_cast<runtime::SizeId>(sizes_.size());
  auto [known, is_new] = known_.try_emplace({size.node(), size.is_constant() ? size.constant() : 0}, next);
  if (is_new) sizes_.push_back(size_expr(size));
  return known->second;
}

}  // namespace cdynamo::lowering
