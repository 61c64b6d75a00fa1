#include "lowering/gpu/thread_plan.h"

#include <absl/strings/str_cat.h>

#include <algorithm>
#include <bit>
#include <tuple>

#include "lowering/loops/kernel_hash.h"

namespace cdynamo::lowering::gpu {
namespace {

constexpr int kAccessBytes = 16;       // the widest access
constexpr int64_t kMostInFlight = 32;  // elements that a thread holds of each value of a row
constexpr int kPointwiseThreads = 256;
constexpr int kMostRowThreads = 1024;
constexpr int kResidentThreads = 1536;  // of a processor: each has 40 registers

constexpr int64_t kLongRow = 1 << 14;  // of a reduction that one block does alone
constexpr int64_t kBlock = 1 << 13;    // elements of a block of a split reduction, at least
constexpr int64_t kMostBlocks = 4096;

int64_t hint_of(const graph::SymContext& context, const Sym& size) {
  return std::max<int64_t>(1, size.is_constant() ? size.constant() : context.hint(size));
}

Sym product_of(const std::vector<Sym>& extents) {
  Sym result(1);
  for (const Sym& extent : extents) result = result * extent;
  return result;
}

Sym stride_along(const Index& index, int axis) {
  Sym stride;
  for (const IndexTerm& term : index.terms)
    if (term.axis == axis) stride = stride + term.stride;
  return stride;
}

const Phase* looping_phase(const Kernel& kernel) {
  for (const Phase& phase : kernel.phases)
    if (!phase.inner.empty()) return &phase;
  return nullptr;
}

class Planner {
 public:
  Planner(const ScheduledKernel& kernel, const graph::SymContext& context, const Architecture& architecture,
          Variation variation)
      : kernel_(kernel), context_(context), architecture_(architecture), variation_(variation) {}

  ThreadPlan run() {
    plan_.points = product_of(kernel_.outer);
    const Phase* row = looping_phase(kernel_);
    inner_ = row ? row->inner : std::vector<Sym>{};
    row_ = product_of(inner_);
    for (const Phase& phase : kernel_.phases) {
      sequential_ |= phase.sequential;
      alike_ &= phase.inner.empty() || phase.inner == inner_;
    }
    plan_.scans = sequential_ && scans_in_tiles();
    plan_.lanes_outer = !row || kernel_.lanes_outer || (sequential_ && !plan_.scans);
    if (!row)
      plan_pointwise();
    else if (plan_.scans)
      plan_scans();
    else if (sequential_)
      plan_.outer_threads = kernel_.outer.empty() ? 1 : kPointwiseThreads / 2;
    else if (plan_.lanes_outer)
      plan_columns();
    else
      plan_rows();
    place_scratch();
    const Sym each(int64_t{plan_.outer_threads} * plan_.outer_vector);
    plan_.blocks = floordiv(plan_.points + each - Sym(1), each);
    plan_.narrow = fits_narrow();
    return plan_;
  }

  // Of the points of all axes.
  int64_t work() const { return hint_of(context_, plan_.points) * hint_of(context_, row_); }

 private:
  int num_outer() const { return static_cast<int>(kernel_.outer.size()); }

  static int vary(int value, int by, int least, int most) {
    return std::clamp(by < 0 ? value >> -by : value << by, std::min(least, value), std::max(most, value));
  }

  // How many points along `axis` (the last of its kind, with this extent) one access may have.
  int widest_vector(int axis, const Sym& extent) const {
    int widest = 1;
    for (const Phase& phase : kernel_.phases)
      for (const Stmt& stmt : phase.body) {
        if (stmt.kind != StmtKind::kLoad && stmt.kind != StmtKind::kStore) continue;
        const KernelBuffer& buffer = kernel_.buffers[stmt.buffer];
        if (!(stride_along(stmt.index, axis) == Sym(1))) continue;
        widest = std::max(widest, kAccessBytes / runtime::bytes(buffer.dtype));
      }
    // Where types differ the widest of them fills a few accesses.
    widest = std::min(widest, 8);
    while (widest > 1 && !is_multiple(extent, widest)) widest /= 2;
    return widest;
  }

  // What a mask selects is written one by one: threads next to each other had better write near each other.
  int widest_selected() const {
    int widest = 8;
    for (const Phase& phase : kernel_.phases)
      for (const Stmt& stmt : phase.body)
        if (stmt.kind == StmtKind::kStore &&
            std::ranges::any_of(stmt.index.terms, [](const IndexTerm& term) { return term.reg >= 0; }))
          widest = std::min(widest, 2 * kAccessBytes / runtime::bytes(kernel_.buffers[stmt.buffer].dtype));
    return widest;
  }

  double body_cost() const {
    double cost = 0;
    for (const Phase& phase : kernel_.phases)
      for (const Stmt& stmt : phase.body) cost += statement_cost(stmt, kernel_);
    return cost;
  }

  bool computes_wide() const {
    for (const Phase& phase : kernel_.phases)
      for (const Stmt& stmt : phase.body)
        if (stmt.dtype == DType::kF64) return true;
    return false;
  }

  void plan_pointwise() {
    plan_.outer_threads = kPointwiseThreads;
    if (kernel_.outer.empty()) {
      plan_.outer_threads = 1;
      return;
    }
    plan_.outer_vector = widest_vector(num_outer() - 1, kernel_.outer.back());
    // Few points had better be spread over many threads.
    while (plan_.outer_vector > 1 && hint_of(context_, plan_.points) / plan_.outer_vector <
                                         int64_t{architecture_.processors} * 2 * kPointwiseThreads / 4)
      plan_.outer_vector /= 2;
    const int64_t threads = hint_of(context_, plan_.points) / plan_.outer_vector;
    while (plan_.outer_threads > kWarp && plan_.outer_threads / 2 >= threads) plan_.outer_threads /= 2;
    plan_.outer_threads = vary(plan_.outer_threads, variation_.threads, kWarp, kMostRowThreads / 2);
    plan_.outer_vector = vary(plan_.outer_vector, std::min(variation_.in_flight, 0), 1, plan_.outer_vector);
  }

  // Lanes across rows: warps of neighbours, as many of them one above the other as the rows are long and the points few.
  void plan_columns() {
    const int64_t points = hint_of(context_, plan_.points), row = hint_of(context_, row_);
    plan_.outer_threads = kWarp;
    const int64_t wanted = int64_t{architecture_.processors} * 512;  // threads that keep the device busy
    int inner = 1;
    while (inner < 32 && inner * 8 <= row && points * inner < wanted) inner *= 2;
    plan_.inner_threads = vary(inner, variation_.threads, 1, 32);
    while (plan_.outer_threads * plan_.inner_threads < 128 && plan_.outer_threads < points &&
           points >= int64_t{architecture_.processors} * plan_.outer_threads * 2)
      plan_.outer_threads *= 2;
    // A few rows in flight hide the latency of their loads.
    plan_.tiles = row / plan_.inner_threads >= 4 && body_cost() < 64 ? 4 : 1;
    plan_.tiles = vary(plan_.tiles, variation_.in_flight, 1, 8);
  }

  // Lanes along rows: a warp for a short one, a block for a long one.
  void plan_rows() {
    const int64_t row = hint_of(context_, row_);
    if (alike_)
      plan_.inner_vector = widest_vector(num_outer() + static_cast<int>(inner_.size()) - 1, inner_.back());
    while (plan_.inner_vector > 1 && row < int64_t{kWarp} * plan_.inner_vector) plan_.inner_vector /= 2;
    const int64_t points = hint_of(context_, plan_.points);
    const int64_t units = (row + plan_.inner_vector - 1) / plan_.inner_vector;
    // Few rows need many threads each.
    const int64_t each = points < int64_t{architecture_.processors} * 8 ? 1 : 8 / plan_.inner_vector;
    const int64_t wanted = std::max<int64_t>(1, units / std::max<int64_t>(1, each));
    plan_.inner_threads = static_cast<int>(std::clamp<int64_t>(
        static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(wanted))), kWarp, kMostRowThreads / 2));
    if (units > int64_t{plan_.inner_threads} * 8 && points < architecture_.processors * 2)
      plan_.inner_threads = kMostRowThreads;
    plan_.inner_threads = vary(plan_.inner_threads, variation_.threads, kWarp, kMostRowThreads);
    // Warps with a row each share a block.
    if (plan_.inner_threads == kWarp && points > 4) plan_.outer_threads = 4;
    const int64_t tile = int64_t{plan_.inner_threads} * plan_.inner_vector;
    const int64_t tiles = (row + tile - 1) / tile;
    plan_.whole_row = alike_ && row_.is_constant() && tiles * plan_.inner_vector <= kMostInFlight &&
                      tiles * plan_.inner_vector * values_kept() <= 128;
    plan_.tiles = static_cast<int>(plan_.whole_row ? tiles : std::clamp<int64_t>(tiles, 1, 4));
    if (!plan_.whole_row) plan_.tiles = vary(plan_.tiles, variation_.in_flight, 1, 8);
    // Two tiles are enough for the loads of one to be under way while the other is computed. So that other warps' are too, a thread
    // has no more than 40 registers, where these do.
    if (!plan_.whole_row && body_cost() * plan_.inner_vector > 64) {
      plan_.tiles = std::min(plan_.tiles, 2);
      if (plan_.inner_threads <= kMostRowThreads / 2 && body_cost() <= 80 && !computes_wide())
        plan_.resident_blocks = std::min(kResidentThreads / plan_.threads(), 16);
    }
  }

  // Whether all that is sequential are running values: no point reads what another one writes. Short rows that lie next to each
  // other are one thread's.
  bool scans_in_tiles() const {
    bool scans = false;
    std::vector<const Stmt*> stores;
    for (const Phase& phase : kernel_.phases)
      for (const Stmt& stmt : phase.body) {
        scans |= stmt.kind == StmtKind::kScan;
        if (stmt.stepwise || stmt.adds || (stmt.kind == StmtKind::kReduce && phase.sequential)) return false;
        if (stmt.kind == StmtKind::kStore) stores.push_back(&stmt);
      }
    for (const Phase& phase : kernel_.phases)
      for (const Stmt& stmt : phase.body)
        for (const Stmt* store : stores)
          if (stmt.kind == StmtKind::kLoad && stmt.buffer == store->buffer && !same(stmt.index, store->index))
            return false;
    const int64_t row = hint_of(context_, row_), points = hint_of(context_, plan_.points);
    return scans && alike_ && inner_.size() == 1 &&
           (row >= 2 * kWarp || (row > 4 && points < int64_t{architecture_.processors} * 256));
  }

  // Along rows: a warp or a block for each, with several points a thread. Across them: threads next to each other have
  // neighbouring rows, and few rows are shared out.
  void plan_scans() {
    constexpr int kMostAcross = 16, kPointsAcross = 8;
    const int64_t row = hint_of(context_, row_), points = hint_of(context_, plan_.points);
    if (plan_.lanes_outer) {
      plan_.outer_threads = kWarp;
      plan_.inner_vector = kPointsAcross;
      while (plan_.inner_vector > 1 && !is_multiple(inner_[0], plan_.inner_vector)) plan_.inner_vector /= 2;
      const int64_t wanted = int64_t{architecture_.processors} * 1024;  // threads that keep the device busy
      while (plan_.inner_threads < kMostAcross && points * plan_.inner_threads < wanted &&
             row >= int64_t{2} * plan_.inner_threads * plan_.inner_vector)
        plan_.inner_threads *= 2;
      while (plan_.threads() < 128 && points >= int64_t{architecture_.processors} * plan_.outer_threads * 2)
        plan_.outer_threads *= 2;
      plan_.tiles = plan_.inner_vector == 1 && row >= 4 * plan_.inner_threads ? 4 : 1;
      return;
    }
    plan_.inner_vector = std::min(widest_vector(num_outer(), inner_[0]), widest_selected());
    while (plan_.inner_vector > 1 && row < int64_t{kWarp} * plan_.inner_vector) plan_.inner_vector /= 2;
    const int64_t units = (row + plan_.inner_vector - 1) / plan_.inner_vector;
    const int most = points < int64_t{architecture_.processors} * 2 ? kMostRowThreads : kPointwiseThreads;
    plan_.inner_threads = static_cast<int>(
        std::clamp<int64_t>(static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(units))), kWarp, most));
    plan_.inner_threads = vary(plan_.inner_threads, variation_.threads, kWarp, kMostRowThreads);
    plan_.inner_vector = vary(plan_.inner_vector, std::min(variation_.in_flight, 0), 1, plan_.inner_vector);
    if (plan_.inner_threads == kWarp && points > 4) plan_.outer_threads = 4;
  }

  // Roughly the values of a row that a thread holds at once.
  int64_t values_kept() const {
    int64_t loads = 0;
    for (const Phase& phase : kernel_.phases)
      for (const Stmt& stmt : phase.body) loads += stmt.kind == StmtKind::kLoad;
    return std::max<int64_t>(1, loads);
  }

  // Registers hold a scratch that each thread writes and reads at the points that it has.
  bool stays_in_registers(int buffer) const {
    if (!plan_.whole_row || plan_.lanes_outer) return false;
    const Index* written = nullptr;
    for (const Phase& phase : kernel_.phases)
      for (const Stmt& stmt : phase.body) {
        if (stmt.buffer != buffer) continue;
        if (stmt.mask >= 0) return false;
        if (stmt.kind == StmtKind::kStore && written) return false;
        if (stmt.kind == StmtKind::kStore) written = &stmt.index;
        if (!written || !same(stmt.index, *written)) return false;
      }
    return written != nullptr;
  }

  static bool same(const Index& a, const Index& b) {
    if (a.terms.size() != b.terms.size() || !(a.offset == b.offset)) return false;
    for (size_t i = 0; i < a.terms.size(); ++i)
      if (a.terms[i].axis != b.terms[i].axis || a.terms[i].reg != b.terms[i].reg ||
          !(a.terms[i].stride == b.terms[i].stride))
        return false;
    return true;
  }

  void place_scratch() {
    plan_.scratch.resize(kernel_.buffers.size());
    int64_t shared = 0;
    Sym global;
    const int64_t rows = int64_t{plan_.outer_threads} * plan_.outer_vector;
    const int64_t budget =
        architecture_.shared_bytes_per_block / 2 / (plan_.lanes_outer ? rows : plan_.outer_threads);
    for (size_t b = 0; b < kernel_.buffers.size(); ++b) {
      const KernelBuffer& buffer = kernel_.buffers[b];
      if (buffer.kind != BufferKind::kRowScratch) continue;
      ScratchPlace& place = plan_.scratch[b];
      const Sym bytes = buffer.size * Sym(runtime::bytes(buffer.dtype));
      if (stays_in_registers(static_cast<int>(b))) {
        place.where = ScratchPlace::kRegisters;
      } else if (bytes.is_constant() && shared + bytes.constant() + 16 <= budget) {
        place = {ScratchPlace::kShared, Sym(shared)};
        shared += (bytes.constant() + 15) / 16 * 16;
      } else {
        place = {ScratchPlace::kGlobal, global};
        global = global + floordiv(bytes + Sym(15), Sym(16)) * Sym(16);
      }
    }
    plan_.shared_scratch = shared;
    plan_.global_scratch = global * Sym(rows);
  }

  bool fits_narrow() const {
    constexpr int64_t kLimit = int64_t{1} << 31;
    if (!alike_) return false;
    const Sym all = plan_.points * row_;
    return all.is_constant() && all.constant() < kLimit / 2;
  }

  const ScheduledKernel& kernel_;
  const graph::SymContext& context_;
  const Architecture& architecture_;
  const Variation variation_;
  ThreadPlan plan_;
  std::vector<Sym> inner_;
  Sym row_;
  bool sequential_ = false;
  bool alike_ = true;  // the phases that loop do so over the same points
};

}  // namespace

std::string Architecture::cpu() const {
  // Of LLVM 19; code for one runs on those after it, so an unknown one takes the nearest below.
  constexpr int kKnown[] = {90, 89, 87, 86, 80, 75, 72, 70};
  for (int known : kKnown)
    if (known <= compute_capability) return absl::StrCat("sm_", known);
  return "sm_70";
}

std::string Architecture::features() const { return compute_capability >= 89 ? "+ptx78" : "+ptx71"; }

bool adds_atomically(DType dtype) {
  return dtype == DType::kF32 || dtype == DType::kF64 || dtype == DType::kI32 || dtype == DType::kI64;
}

// Few rows are split until each processor has several blocks.
ReductionBlocks reduction_blocks(const ReductionShape& shape, const Architecture& architecture) {
  const int64_t rows = shape.results_are_innermost ? (shape.results + kWarp - 1) / kWarp : shape.results;
  const int64_t enough = int64_t{architecture.processors} * 2;
  const int64_t long_row = shape.results_are_innermost ? 256 : kLongRow;
  const int64_t block = shape.results_are_innermost ? 64 : kBlock;
  if (rows >= enough || shape.length <= long_row) return {};
  return {std::clamp<int64_t>(std::min(shape.length / block, 8 * enough / std::max<int64_t>(rows, 1)), 2,
                              kMostBlocks / 2),
          kMostBlocks};
}

// A row that a block has alone is read once, so there is less to gain: only where most processors would have none.
ReductionBlocks scan_blocks(const ReductionShape& shape, const Architecture& architecture) {
  const int64_t rows = shape.results_are_innermost ? (shape.results + kWarp - 1) / kWarp : shape.results;
  const int64_t long_row = shape.results_are_innermost ? 4096 : kLongRow;
  if (rows * 2 > architecture.processors || shape.length <= long_row) return {};
  return reduction_blocks(shape, architecture);
}

ThreadPlan plan_threads(const ScheduledKernel& kernel, const graph::SymContext& context,
                        const Architecture& architecture, Variation variation) {
  return Planner(kernel, context, architecture, variation).run();
}

std::vector<ThreadPlan> plan_variants(const ScheduledKernel& kernel, const graph::SymContext& context,
                                      const Architecture& architecture, int64_t fewest_points) {
  constexpr Variation kVariations[] = {
      {.threads = 1}, {.threads = -1}, {.threads = -2}, {.in_flight = 1}, {.in_flight = -1}};
  Planner planner(kernel, context, architecture, {});
  std::vector<ThreadPlan> plans = {planner.run()};
  if (planner.work() < fewest_points) return plans;
  const auto shape = [](const ThreadPlan& plan) {
    return std::tuple(plan.outer_threads, plan.inner_threads, plan.outer_vector, plan.inner_vector,
                      plan.tiles, plan.whole_row, plan.resident_blocks);
  };
  for (const Variation& variation : kVariations) {
    ThreadPlan plan = plan_threads(kernel, context, architecture, variation);
    if (std::ranges::none_of(plans, [&](const ThreadPlan& other) { return shape(other) == shape(plan); }))
      plans.push_back(std::move(plan));
  }
  return plans;
}

}  // namespace cdynamo::lowering::gpu
