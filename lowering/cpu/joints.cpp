#include "lowering/cpu/joints.h"

#include <algorithm>

#include "lowering/loops/index_map.h"

namespace cdynamo::lowering::emit {
namespace {

using graph::Prim;

// The value of an integer register as a sum of axes and sizes, where it is one.
using Affine = std::optional<Index>;

Affine affine_value(const Stmt& stmt, const std::vector<Affine>& values) {
  if (stmt.dtype != DType::kI64) return {};
  switch (stmt.kind) {
    case StmtKind::kAxis: return axis_index(stmt.axis);
    case StmtKind::kConstant: return constant_index(stmt.int_value);
    case StmtKind::kSize: return constant_index(stmt.size);
    case StmtKind::kPrim: break;
    default: return {};
  }
  if (stmt.operands.size() != 2) return {};
  const Affine &a = values[stmt.operands[0]], &b = values[stmt.operands[1]];
  if (!a || !b) return {};
  if (stmt.prim == Prim::k_add) return add(*a, *b);
  if (stmt.prim == Prim::k_mul && is_constant(*b)) return scale(*a, b->offset);
  return {};
}

// A comparison as "index < 0", or as its opposite.
struct Below {
  Index index;
  bool negated;
};
std::optional<Below> as_below(const Stmt& stmt, const std::vector<Affine>& values) {
  if (stmt.kind != StmtKind::kPrim || stmt.operands.size() != 2) return {};
  const Affine &a = values[stmt.operands[0]], &b = values[stmt.operands[1]];
  if (!a || !b) return {};
  const Index difference = add(*a, scale(*b, -1));
  switch (stmt.prim) {
    case Prim::k_lt: return Below{difference, false};
    case Prim::k_ge: return Below{difference, true};
    case Prim::k_le: return Below{add(difference, constant_index(-1)), false};
    case Prim::k_gt: return Below{add(difference, constant_index(-1)), true};
    default: return {};
  }
}

bool known_ordered(const Index& a, const Index& b, const graph::SymContext& context) {
  const Index difference = add(b, scale(a, -1));
  return difference.terms.empty() && context.known(graph::Relation::kLe, Sym(), difference.offset) == true;
}

class Finder {
 public:
  Finder(const ScheduledKernel& kernel, int phase, const graph::SymContext& context)
      : kernel_(kernel), phase_(phase), context_(context) {
    const int num_outer = static_cast<int>(kernel.outer.size());
    lanes_ = kernel.lanes_outer ? num_outer - 1
                                : num_outer + static_cast<int>(kernel.phases[phase].inner.size()) - 1;
  }

  Joints run() {
    std::vector<Affine> values(kernel_.num_registers);
    for (int p = 0; p < static_cast<int>(kernel_.phases.size()); ++p)
      for (const Stmt& stmt : kernel_.phases[p].body) {
        if (stmt.dst < 0) continue;
        values[stmt.dst] = affine_value(stmt, values);
        if (!kernel_.lanes_outer && p != phase_) continue;
        if (const std::optional<Below> below = as_below(stmt, values)) note(stmt.dst, *below);
      }
    return std::move(joints_);
  }

 private:
  void note(int reg, const Below& below) {
    Index rest{{}, below.index.offset};
    int64_t direction = 0;
    for (const IndexTerm& term : below.index.terms) {
      if (term.axis > lanes_) return;  // a loop further in
      if (term.axis != lanes_) {
        rest.terms.push_back(term);
      } else {
        direction = term.stride == Sym(1) ? 1 : term.stride == Sym(-1) ? -1 : 0;
      }
    }
    if (direction == 0) return;
    // lane + rest < 0 up to -rest;  rest - lane < 0 from rest + 1 on
    const Index joint = direction > 0 ? scale(rest, -1) : add(rest, constant_index(1));
    if (const std::optional<size_t> place = place_of(joint))
      joints_.comparisons[reg] = {*place, (direction > 0) != below.negated};
  }

  // The place of a joint among the others; none where their order is not known.
  std::optional<size_t> place_of(const Index& joint) {
    std::vector<Index>& at = joints_.at;
    size_t place = 0;
    while (place < at.size() && !equal(at[place], joint) && known_ordered(at[place], joint, context_))
      ++place;
    if (place < at.size() && equal(at[place], joint)) return place;
    if (place < at.size() && !known_ordered(joint, at[place], context_)) return {};
    at.insert(at.begin() + static_cast<std::ptrdiff_t>(place), joint);
    for (auto& [reg, comparison] : joints_.comparisons) comparison.joint += comparison.joint >= place;
    return place;
  }

  const ScheduledKernel& kernel_;
  const int phase_;
  const graph::SymContext& context_;
  int lanes_;
  Joints joints_;
};

}  // namespace

std::optional<bool> Joints::value_in(size_t piece, int reg) const {
  auto found = comparisons.find(reg);
  if (found == comparisons.end()) return {};
  return (piece <= found->second.joint) == found->second.before;
}

bool Joints::divide(const Sym& extent, int64_t block) const {
  auto divides = [block](const Sym& size) { return size.is_constant() && size.constant() % block == 0; };
  return divides(extent) && std::ranges::all_of(at, [&](const Index& joint) {
           return is_constant(joint) && divides(joint.offset);
         });
}

Joints find_joints(const ScheduledKernel& kernel, int phase, const graph::SymContext& context) {
  return Finder(kernel, phase, context).run();
}

}  // namespace cdynamo::lowering::emit
