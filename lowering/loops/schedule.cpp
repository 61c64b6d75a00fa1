// Order of the loops after the memory they walk, axes collapsed where nothing tells them apart, and the axis along which
// lanes run.
#include "lowering/loops/schedule.h"

#include <algorithm>
#include <numeric>

#include "lowering/loops/kernel_hash.h"

namespace cdynamo::lowering {
namespace {

// Calls fn(statement) for each load and store of memory outside the kernel.
template <typename F>
void for_each_access(const Kernel& kernel, bool rows_only, F&& fn) {
  for (const Phase& phase : kernel.phases) {
    if (rows_only && phase.inner.empty()) continue;
    for (const Stmt& stmt : phase.body)
      if ((stmt.kind == StmtKind::kLoad || stmt.kind == StmtKind::kStore) &&
          kernel.buffers[stmt.buffer].kind == BufferKind::kGlobal)
        fn(stmt);
  }
}

Sym stride_along(const Index& index, int axis) {
  for (const IndexTerm& term : index.terms)
    if (term.axis == axis) return term.stride;
  return Sym();
}

int64_t hint_of(const graph::SymContext& context, const Sym& size) {
  return size.is_constant() ? size.constant() : context.hint(size);
}

// How a reduction's operands lie in memory, as far as they vary along inner and outer axes.
struct Walks {
  bool along = false, across = false;  // contiguous along an inner axis, along an outer one
};

Walks walks_of(const Kernel& kernel, const graph::SymContext& context, const std::vector<Sym>& extents,
               const Stmt& reduce, int64_t few_lanes) {
  const int num_outer = static_cast<int>(kernel.outer.size());
  Walks walks;
  std::vector<char> needed(kernel.num_registers, 0);
  for (int reg : reduce.operands) needed[reg] = 1;
  for (size_t p = kernel.phases.size(); p-- > 0;) {
    const std::vector<Stmt>& body = kernel.phases[p].body;
    for (size_t i = body.size(); i-- > 0;) {
      const Stmt& stmt = body[i];
      if (stmt.dst < 0 || !needed[stmt.dst] || stmt.kind == StmtKind::kReduce) continue;
      for (int reg : stmt.operands) needed[reg] = 1;
      if (stmt.kind != StmtKind::kLoad || kernel.buffers[stmt.buffer].kind != BufferKind::kGlobal) continue;
      int contiguous = -1;
      bool varies[2] = {};
      for (const IndexTerm& term : stmt.index.terms) {
        if (term.axis < 0 || term.stride == Sym() || hint_of(context, extents[term.axis]) < few_lanes / 2)
          continue;
        varies[term.axis >= num_outer] = true;
        if (term.stride == Sym(1)) contiguous = term.axis;
      }
      if (contiguous >= 0 && varies[0] && varies[1])
        (contiguous >= num_outer ? walks.along : walks.across) = true;
    }
  }
  return walks;
}

// Of the outer axes and of the inner ones, which all phases that loop share.
std::vector<Sym> extents_of(const Kernel& kernel) {
  std::vector<Sym> extents = kernel.outer;
  for (const Phase& phase : kernel.phases)
    if (!phase.inner.empty()) {
      extents.insert(extents.end(), phase.inner.begin(), phase.inner.end());
      break;
    }
  return extents;
}

class Scheduler {
 public:
  Scheduler(const Kernel& kernel, const graph::SymContext& context, LaneStyle style)
      : context_(context), style_(style) {
    static_cast<Kernel&>(kernel_) = kernel;
    all_extents_ = extents_of(kernel);
    for (size_t axis = 0; axis < all_extents_.size(); ++axis)
      (axis < kernel.outer.size() ? outer_ : rows_).push_back(static_cast<int>(axis));
    sequential_ = std::ranges::any_of(kernel.phases, &Phase::sequential);
  }

  ScheduledKernel run() {
    order_axes();
    choose_lanes();
    if (rows_.empty() && !sequential_) {
      if (style_.tiles && !interleave()) tile_transposition();
      if (style_.shares_pieces_of > 0) share_pieces();
    }
    renumber();
    collapse(outer_, 0);
    collapse(rows_, static_cast<int>(outer_.size()));
    kernel_.outer.clear();
    for (int axis : outer_) kernel_.outer.push_back(extents_[axis]);
    std::vector<Sym> inner;
    for (int axis : rows_) inner.push_back(extents_[axis]);
    for (Phase& phase : kernel_.phases)
      if (!phase.inner.empty()) phase.inner = inner;
    kernel_.lanes_outer = lanes_outer_ && !kernel_.outer.empty();
    return std::move(kernel_);
  }

 private:
  int64_t extent_hint(int axis) const { return hint_of(context_, all_extents_[axis]); }

  // Loops follow the strides of the largest access that names the axes: stores for outer axes, loads for
  // rows.
  void order_axes() {
    sort_by_strides(outer_, StmtKind::kStore);
    if (!order_matters()) sort_by_strides(rows_, StmtKind::kLoad);
  }

  bool order_matters() const {
    if (sequential_) return true;
    for (const Phase& phase : kernel_.phases)
      for (const Stmt& stmt : phase.body) {
        if (stmt.kind == StmtKind::kReduce && stmt.reduction->returns_index) return true;
        // Row scratch is laid out by the row axes as they are.
        if (stmt.buffer >= 0 && kernel_.buffers[stmt.buffer].kind == BufferKind::kRowScratch) return true;
      }
    return false;
  }

  void sort_by_strides(std::vector<int>& axes, StmtKind kind) {
    std::vector<int64_t> strides(all_extents_.size(), 0);
    size_t best = 0;
    for_each_access(kernel_, false, [&](const Stmt& stmt) {
      if (stmt.kind != kind) return;
      size_t named = 0;
      for (int axis : axes) named += !(stride_along(stmt.index, axis) == Sym());
      if (named <= best) return;
      best = named;
      for (int axis : axes) strides[axis] = std::abs(hint_of(context_, stride_along(stmt.index, axis)));
    });
    if (best == axes.size())
      std::stable_sort(axes.begin(), axes.end(), [&](int a, int b) { return strides[a] > strides[b]; });
  }

  // How many accesses walk memory step by step along the axis, less those that jump. What has an element for each point of a row
  // is nearly all that there is to access, whatever there is besides for each row or for each place in one.
  int smoothness(int axis, bool rows_only) {
    constexpr int kWhole = 8;
    int score = 0;
    for_each_access(kernel_, rows_only, [&](const Stmt& stmt) {
      const Sym stride = stride_along(stmt.index, axis);
      bool indirect = false;
      for (const IndexTerm& term : stmt.index.terms) indirect |= term.reg >= 0;
      const int weight = varies_along(stmt.index, outer_) && varies_along(stmt.index, rows_) ? kWhole : 1;
      if (stride == Sym(1))
        score += 2 * weight;
      else if (!(stride == Sym()))
        score -= (indirect ? 1 : 2) * weight;
    });
    return score;
  }

  static bool varies_along(const Index& index, const std::vector<int>& axes) {
    return std::ranges::any_of(axes, [&](int axis) { return !(stride_along(index, axis) == Sym()); });
  }

  void choose_lanes() {
    if (outer_.empty()) return;
    const bool has_rows = !rows_.empty();
    size_t best = outer_.size() - 1;
    int best_score = smoothness(outer_[best], has_rows);
    for (size_t i = outer_.size() - 1; i-- > 0;) {
      const int score = smoothness(outer_[i], has_rows);
      if (score > best_score && extent_hint(outer_[i]) >= style_.few / 2) best = i, best_score = score;
    }
    // Rows one after the other where lanes across them would jump from line to line.
    if (has_rows && sequential_ && best_score < 0) return;
    if (has_rows && !sequential_) {
      int64_t row = 1;
      for (int axis : rows_) row *= std::max<int64_t>(1, extent_hint(axis));
      const int inner_score = smoothness(rows_.back(), true);
      const int64_t lanes = extent_hint(outer_[best]);
      const bool short_row = row < style_.few && lanes >= style_.few;
      const bool short_inner =
          extent_hint(rows_.back()) < style_.few / 2 && lanes >= style_.few && best_score >= 0;
      lanes_outer_ = short_row || short_inner || (best_score > inner_score && lanes >= style_.few / 2);
      if (!lanes_outer_) return;
    }
    lanes_outer_ = true;
    const int axis = outer_[best];
    outer_.erase(outer_.begin() + best);
    outer_.push_back(axis);
  }

  // Pairs and fours along the last axis that are no part of a longer run: lanes take the axis before it, and
  // their results are interleaved.
  bool interleave() {
    if (outer_.size() < 2) return false;
    const int last = outer_.back(), before = outer_[outer_.size() - 2];
    const Sym& extent = all_extents_[last];
    if (!(extent == Sym(2) || extent == Sym(4)) || extent_hint(before) < style_.few / 2) return false;
    if (walked_as_one(before, last, extent)) return false;
    bool fits = true;
    for_each_statement([&](Stmt& stmt) {
      if (stmt.kind != StmtKind::kStore) return;
      fits = fits && stmt.mask < 0 && stride_along(stmt.index, last) == Sym(1) &&
             stride_along(stmt.index, before) == extent;
    });
    if (fits) std::swap(outer_[outer_.size() - 1], outer_[outer_.size() - 2]);
    return fits;
  }

  // A pointwise kernel that reads along one axis what it writes along another: lanes of one cache line's
  // width go through the reading axis in order, so that each line read is used whole before it is lost.
  void tile_transposition() {
    if (outer_.size() < 2) return;
    const int lane = outer_.back();
    const Sym& extent = all_extents_[lane];
    if (!extent.is_constant() || extent.constant() % style_.few != 0 || extent.constant() <= style_.few)
      return;
    int reading = -1;
    bool counted = false;
    for_each_statement([&](Stmt& stmt) {
      counted |= stmt.kind == StmtKind::kAxis && stmt.axis == lane;
      if (stmt.kind != StmtKind::kLoad ||
          std::abs(hint_of(context_, stride_along(stmt.index, lane))) < style_.few)
        return;
      for (int axis : outer_)
        if (axis != lane && stride_along(stmt.index, axis) == Sym(1) && extent_hint(axis) >= style_.few)
          reading = axis;
    });
    if (reading >= 0 && !counted) tile(lane, reading, style_.few);
  }

  // The same for threads: neighbours share pieces of the axis that is written along, or of the one that is read along, and go on
  // along the other.
  void share_pieces() {
    const int64_t width = style_.shares_pieces_of;
    int writing = -1, reading = -1;
    bool counted = false;
    for_each_statement([&](Stmt& stmt) {
      counted |= stmt.kind == StmtKind::kAxis;
      if (stmt.kind != StmtKind::kStore) return;
      for (int axis : outer_)
        if (stride_along(stmt.index, axis) == Sym(1) && extent_hint(axis) >= width / 2) writing = axis;
    });
    if (writing < 0 || counted) return;
    for_each_statement([&](Stmt& stmt) {
      if (stmt.kind != StmtKind::kLoad ||
          std::abs(hint_of(context_, stride_along(stmt.index, writing))) < width / 2)
        return;
      for (int axis : outer_)
        if (axis != writing && stride_along(stmt.index, axis) == Sym(1) && extent_hint(axis) >= width / 2)
          reading = axis;
    });
    if (reading < 0) return;
    for (const int64_t points : {width, width / 2})
      for (const auto& [lane, other] : {std::pair(writing, reading), std::pair(reading, writing)})
        if (all_extents_[lane].is_constant() && all_extents_[lane].constant() % points == 0)
          return tile(lane, other, points);
  }

  // Lanes have `width` points along one axis, and go along the other.
  void tile(int lane, int other, int64_t width) {
    const int blocks = static_cast<int>(all_extents_.size());
    all_extents_.push_back(Sym(all_extents_[lane].constant() / width));
    all_extents_[lane] = Sym(width);
    for_each_statement([&](Stmt& stmt) {
      const Sym stride = stride_along(stmt.index, lane);
      if (!(stride == Sym())) stmt.index.terms.push_back({.axis = blocks, .stride = stride * Sym(width)});
    });
    std::erase(outer_, lane);
    // With the axes that will be one with it.
    auto last = std::find(outer_.begin(), outer_.end(), other), first = last++;
    while (first != outer_.begin() && walked_as_one(first[-1], first[0], all_extents_[first[0]])) --first;
    const std::vector<int> run(first, last);
    outer_.erase(first, last);
    outer_.push_back(blocks);
    outer_.insert(outer_.end(), run.begin(), run.end());
    outer_.push_back(lane);
  }

  // From axes of the domain to positions in the nest: outer first.
  void renumber() {
    std::vector<int> position(all_extents_.size(), -1);
    int next = 0;
    for (int axis : outer_) position[axis] = next++;
    for (int axis : rows_) position[axis] = next++;
    extents_.resize(next);
    for (size_t axis = 0; axis < position.size(); ++axis)
      if (position[axis] >= 0) extents_[position[axis]] = all_extents_[axis];
    for_each_statement([&](Stmt& stmt) { renumber_axes(stmt, position); });
    std::iota(outer_.begin(), outer_.end(), 0);
    std::iota(rows_.begin(), rows_.end(), static_cast<int>(outer_.size()));
  }

  template <typename F>
  void for_each_statement(F&& fn) {
    for (Phase& phase : kernel_.phases)
      for (Stmt& stmt : phase.body) fn(stmt);
  }

  // Merges neighbours that every access walks as one axis.
  void collapse(std::vector<int>& axes, int first) {
    for (size_t i = axes.size(); i-- > 1;) {
      const int outer = first + static_cast<int>(i) - 1, inner = outer + 1;
      if (!mergeable(outer, inner)) continue;
      extents_[outer] = extents_[outer] * extents_[inner];
      extents_.erase(extents_.begin() + inner);
      for_each_statement([&](Stmt& stmt) {
        std::vector<IndexTerm> terms;
        for (IndexTerm term : stmt.index.terms) {
          if (term.axis == outer) continue;
          if (term.axis >= inner) --term.axis;  // the inner one takes the merged axis's place
          terms.push_back(term);
        }
        stmt.index.terms = std::move(terms);
        if (stmt.kind == StmtKind::kAxis && stmt.axis >= inner) --stmt.axis;
      });
      axes.pop_back();
      if (&axes == &outer_)
        for (int& row : rows_) --row;
    }
  }

  // Every access walks the two as one axis.
  bool walked_as_one(int outer, int inner, const Sym& inner_extent) {
    bool result = true;
    for_each_statement([&](Stmt& stmt) {
      if (stmt.kind == StmtKind::kAxis && (stmt.axis == outer || stmt.axis == inner)) result = false;
      if (stmt.kind != StmtKind::kLoad && stmt.kind != StmtKind::kStore) return;
      if (!(stride_along(stmt.index, outer) == stride_along(stmt.index, inner) * inner_extent))
        result = false;
    });
    return result;
  }

  bool mergeable(int outer, int inner) {
    bool result = walked_as_one(outer, inner, extents_[inner]);
    // Positions that run on one axis only (scans) keep it apart.
    if (sequential_ && inner >= static_cast<int>(outer_.size())) result = false;
    return result;
  }

  const graph::SymContext& context_;
  const LaneStyle style_;
  ScheduledKernel kernel_;
  bool sequential_ = false;
  bool lanes_outer_ = false;
  std::vector<int> outer_, rows_;  // axes in loop order
  std::vector<Sym> all_extents_;   // by axis of the kernel, and of what was added to it
  std::vector<Sym> extents_;       // by position
};

}  // namespace

ScheduledKernel schedule(const Kernel& kernel, const graph::SymContext& context, LaneStyle style) {
  return Scheduler(kernel, context, style).run();
}

// The sums of a square matrix's rows and of its columns fit the same loops, but whichever axis the lanes take, one of
// them jumps from line to line.
bool reduces_crosswise(const Kernel& kernel, const graph::SymContext& context, LaneStyle style) {
  const std::vector<Sym> extents = extents_of(kernel);
  bool along = false, across = false;
  for (const Phase& phase : kernel.phases)
    for (const Stmt& stmt : phase.body)
      if (stmt.kind == StmtKind::kReduce) {
        const Walks walks = walks_of(kernel, context, extents, stmt, style.few);
        along |= walks.along && !walks.across;
        across |= walks.across && !walks.along;
      }
  return along && across;
}

bool turns_rows(const Kernel& kernel, const graph::SymContext& context, LaneStyle style) {
  constexpr size_t kFewestAxes = 4;
  const std::vector<Sym> extents = extents_of(kernel);
  const int num_outer = static_cast<int>(kernel.outer.size());
  if (extents.size() < kFewestAxes || extents.size() == kernel.outer.size()) return false;
  bool along = false, across = false;
  for_each_access(kernel, true, [&](const Stmt& stmt) {
    int contiguous = -1;
    int64_t points[2] = {1, 1};  // of the outer axes that it varies along, of the inner ones
    for (const IndexTerm& term : stmt.index.terms) {
      if (term.axis < 0 || term.stride == Sym()) continue;
      points[term.axis >= num_outer] *= hint_of(context, extents[term.axis]);
      if (term.stride == Sym(1)) contiguous = term.axis;
    }
    if (contiguous >= 0 && std::min(points[0], points[1]) >= style.few / 2)
      (contiguous >= num_outer ? along : across) = true;
  });
  return along && across;
}

std::string print(const ScheduledKernel& kernel) {
  return print(static_cast<const Kernel&>(kernel),
               kernel.lanes_outer ? "lanes along the last outer axis" : "");
}

std::string serialize(const ScheduledKernel& kernel) {
  return (kernel.lanes_outer ? "outer " : "inner ") + serialize(static_cast<const Kernel&>(kernel));
}

}  // namespace cdynamo::lowering
