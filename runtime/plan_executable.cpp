#include "runtime/plan_executable.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <memory>
#include <new>
#include <optional>

#include "runtime/host/arena.h"
#include "runtime/host/crash_note.h"
#include "runtime/host/kernel.h"
#include "runtime/host/parallel.h"
#include "runtime/plan_step.h"

namespace cdynamo::runtime {
namespace {

constexpr double kWorthThreads = 12e3;    // nanoseconds of work below which threads cost more than they bring
constexpr double kWorthReleasing = 50e3;  // of work above which the caller may want to give up a lock
constexpr int64_t kLargestArena = int64_t{1} << 46;
// Where memory is to come and go while a plan runs, a large arena is taken buffer by buffer.
constexpr int64_t kWorthScattering = int64_t{256} << 10;
constexpr int64_t kAlignment = 64;
constexpr int kMostPointers = 96;  // of a plan whose pointers fit on the stack
constexpr int kMostSizes = 128;
alignas(64) char nothing[256];  // where empty tensors point

// Steps [begin, end) that run together: kernels in one parallel region, or one library call.
struct Segment : StepLives {
  int begin = 0, end = 0;
  bool library = false;
};

// A buffer of the arena by itself.
struct FreeBlock {
  void operator()(void* block) const { std::free(block); }
};
using Block = std::unique_ptr<void, FreeBlock>;

// Everything of one call, in arrays on the stack where they fit.
struct Frame {
  const int64_t* symbols;
  const int64_t* sizes;
  void** pointers;  // by plan buffer
  const Call* call;
  int64_t error[3] = {0, 0, 0};
};

class PlanExecutable final : public Executable {
 public:
  explicit PlanExecutable(Plan plan) : plan_(std::move(plan)) {
    is_static_ = std::all_of(plan_.sizes.begin(), plan_.sizes.end(),
                             [](const SizeExpr& size) { return size.is_constant(); });
    if (is_static_)
      for (const SizeExpr& size : plan_.sizes) static_sizes_.push_back(size.constant);
    segments_ = make_segments(/*apart=*/plan_.debugs);
    pieces_ = make_segments(/*apart=*/true);
    if (plan_.debugs)
      for (const PlanStep& step : plan_.steps) notes_.push_back(describe(step));
    single_ = plan_.steps.size() == 1 && !plan_.debugs && !plan_.steps[0].library && plan_.arena_bytes < 0 &&
              is_static_ && plan_.buffers.size() <= kMostPointers &&
              static_sizes_[plan_.steps[0].launch.scratch_bytes] == 0 &&
              step_cost(plan_.steps[0], static_sizes_.data()) < kWorthThreads;
    if (is_static_) {
      double cost = 0;
      for (const PlanStep& step : plan_.steps)
        cost += step.library ? kWorthReleasing : step_cost(step, static_sizes_.data());
      takes_long = cost >= kWorthReleasing;
    } else {
      takes_long = true;
    }
  }

  bool run(const Call& call, RunError* error) override {
    if (single_ && !call.memory) return run_single(call, error);
    int64_t size_storage[kMostSizes];
    std::vector<int64_t> size_overflow;
    Frame frame{.symbols = call.symbols, .sizes = static_sizes_.data(), .pointers = nullptr, .call = &call};
    if (!is_static_) {
      int64_t* sizes = size_storage;
      if (plan_.sizes.size() > kMostSizes) {
        size_overflow.resize(plan_.sizes.size());
        sizes = size_overflow.data();
      }
      for (size_t i = 0; i < plan_.sizes.size(); ++i) sizes[i] = plan_.sizes[i].evaluate(call.symbols);
      frame.sizes = sizes;
    }
    const int64_t arena_bytes = plan_.arena_bytes < 0 ? 0 : frame.sizes[plan_.arena_bytes];
    if (arena_bytes < 0 || arena_bytes > kLargestArena) return out_of_memory(error);
    const FrugalArenas frugal(call.memory != nullptr);
    const bool scattered = call.memory && arena_bytes > kWorthScattering;
    std::vector<Block> blocks(scattered ? plan_.buffers.size() : 0);
    Arena arena(static_cast<size_t>(scattered ? 0 : arena_bytes));
    if (arena_bytes > 0 && !scattered && !arena.data()) return out_of_memory(error);
    void* pointer_storage[kMostPointers];
    std::vector<void*> pointer_overflow;
    frame.pointers = pointer_storage;
    if (plan_.buffers.size() > kMostPointers) {
      pointer_overflow.resize(plan_.buffers.size());
      frame.pointers = pointer_overflow.data();
    }
    locate_buffers(frame, arena.data());
    for (const Segment& segment : scattered ? pieces_ : segments_) {
      if (call.memory && !allocate_outputs(segment, frame)) return out_of_memory(error);
      if (scattered && !allocate_blocks(segment, frame, blocks)) return out_of_memory(error);
      std::optional<CrashNote> note;
      if (plan_.debugs) note.emplace(notes_[segment.begin]);
      if (segment.library ? !run_library_step(plan_.steps[segment.begin], Device(), frame.sizes,
                                              frame.pointers, frame.call->library, nullptr, error)
                          : !run_kernels(segment, frame, error)) {
        if (plan_.debugs) error->message += ", in " + notes_[segment.begin];
        return false;
      }
      for (int buffer : segment.last_reads)
        if (call.memory && call.memory->release)
          call.memory->release(call.memory->context, plan_.buffers[buffer].index);
      for (int buffer : segment.ends)
        if (scattered) blocks[buffer].reset();
    }
    return true;
  }

 private:
  static double step_cost(const PlanStep& step, const int64_t* sizes) {
    return static_cast<double>(sizes[step.launch.items]) * step.launch.cost_per_item;
  }

  std::vector<Segment> make_segments(bool apart) const {
    std::vector<Segment> segments;
    for (int i = 0; i < static_cast<int>(plan_.steps.size()); ++i) {
      const bool library = plan_.steps[i].library != nullptr;
      if (!apart && !library && !segments.empty() && !segments.back().library)
        segments.back().end = i + 1;
      else
        segments.push_back({{}, i, i + 1, library});
    }
    std::vector<int> segment_of;
    for (size_t segment = 0; segment < segments.size(); ++segment)
      segment_of.insert(segment_of.end(), segments[segment].end - segments[segment].begin,
                        static_cast<int>(segment));
    const std::vector<StepLives> lives = find_lives(plan_, segment_of);
    for (size_t segment = 0; segment < segments.size(); ++segment)
      static_cast<StepLives&>(segments[segment]) = lives[segment];
    return segments;
  }

  bool allocate_blocks(const Segment& segment, Frame& frame, std::vector<Block>& blocks) const {
    for (int buffer : segment.begins) {
      const int64_t bytes = frame.sizes[plan_.buffers[buffer].bytes];
      if (bytes <= 0) continue;
      blocks[buffer].reset(std::aligned_alloc(
          kAlignment, static_cast<size_t>((bytes + kAlignment - 1) / kAlignment * kAlignment)));
      frame.pointers[buffer] = blocks[buffer].get();
      if (!frame.pointers[buffer]) return false;
    }
    return true;
  }

  bool allocate_outputs(const Segment& segment, Frame& frame) const {
    const MemoryCallbacks& memory = *frame.call->memory;
    for (int buffer : segment.first_writes) {
      frame.pointers[buffer] = memory.allocate(memory.context, plan_.buffers[buffer].index);
      if (!frame.pointers[buffer]) return false;
    }
    return true;
  }

  void* pointer(const PlanBuffer& buffer, const Call& call, const int64_t* sizes, char* arena) const {
    void* data = nullptr;
    switch (buffer.where) {
      case PlanBuffer::kInput: data = call.inputs[buffer.index].data; break;
      case PlanBuffer::kOutput: data = call.memory ? nullptr : call.outputs[buffer.index]; break;
      case PlanBuffer::kArena: data = arena ? arena + sizes[buffer.offset] : nullptr; break;
      case PlanBuffer::kFromLibrary: break;  // a GPU's
    }
    return data ? data : nothing;
  }

  void locate_buffers(Frame& frame, char* arena) const {
    for (size_t i = 0; i < plan_.buffers.size(); ++i)
      frame.pointers[i] = pointer(plan_.buffers[i], *frame.call, frame.sizes, arena);
  }

  // One small kernel of static sizes without intermediates: nothing but the call.
  bool run_single(const Call& call, RunError* error) const {
    const PlanStep& step = plan_.steps[0];
    void* pointers[kMostPointers];
    for (size_t i = 0; i < step.buffers.size(); ++i)
      pointers[i] = pointer(plan_.buffers[step.buffers[i]], call, static_sizes_.data(), nullptr);
    int64_t code[3] = {0, 0, 0};
    host_kernel(step.launch.code)(pointers, call.symbols, 0, static_sizes_[step.launch.items], nullptr, code);
    return code[0] == 0 || index_error(code, error);
  }

  void run_share(const PlanStep& step, Frame& frame, int64_t begin, int64_t end, void* scratch,
                 int64_t* code) const {
    if (begin >= end) return;
    void* storage[kMostPointers];
    std::vector<void*> overflow;
    void** pointers = storage;
    if (step.buffers.size() > kMostPointers) {
      overflow.resize(step.buffers.size());
      pointers = overflow.data();
    }
    for (size_t i = 0; i < step.buffers.size(); ++i) pointers[i] = frame.pointers[step.buffers[i]];
    host_kernel(step.launch.code)(pointers, frame.symbols, begin, end, scratch, code);
  }

  bool run_kernels(const Segment& segment, Frame& frame, RunError* error) const {
    double cost = 0;
    int64_t scratch_bytes = 0, most_items = 0;
    for (int i = segment.begin; i < segment.end; ++i) {
      cost += step_cost(plan_.steps[i], frame.sizes);
      scratch_bytes = std::max(scratch_bytes, frame.sizes[plan_.steps[i].launch.scratch_bytes]);
      most_items = std::max(most_items, frame.sizes[plan_.steps[i].launch.items]);
    }
    int threads = 1;
    if (cost >= kWorthThreads && most_items > 1)
      threads = static_cast<int>(
          std::min<int64_t>({num_threads(), most_items, static_cast<int64_t>(cost / (kWorthThreads / 2))}));
    scratch_bytes = (scratch_bytes + 63) / 64 * 64;
    Arena scratch(static_cast<size_t>(scratch_bytes * threads));
    if (scratch_bytes > 0 && !scratch.data()) return out_of_memory(error);
    if (threads <= 1) {
      for (int i = segment.begin; i < segment.end && !frame.error[0]; ++i)
        run_share(plan_.steps[i], frame, 0, frame.sizes[plan_.steps[i].launch.items], scratch.data(),
                  frame.error);
    } else {
      run_threads(segment, frame, threads, scratch.data(), scratch_bytes);
    }
    return frame.error[0] == 0 || index_error(frame.error, error);
  }

  void run_threads(const Segment& segment, Frame& frame, int threads, char* scratch,
                   int64_t scratch_bytes) const {
    // Inputs are written last: after an index out of range none is.
    std::atomic<bool> failed = false;
    parallel_region(threads, [&](const Team& team) {
      int64_t code[3] = {0, 0, 0};
      for (int i = segment.begin; i < segment.end; ++i) {
        const PlanStep& step = plan_.steps[i];
        if (i > segment.begin && step.barrier_before) team.barrier();
        if (failed.load(std::memory_order_relaxed)) continue;  // but for the barriers
        auto [begin, end] = team.share(frame.sizes[step.launch.items]);
        run_share(step, frame, begin, end, scratch + scratch_bytes * team.index(), code);
        if (code[0]) failed.store(true, std::memory_order_relaxed);
      }
      // Which thread's error is reported does not matter; that it is whole does: the flag is written last and
      // read after the region.
      if (code[0]) {
        static std::atomic_flag writing = ATOMIC_FLAG_INIT;
        while (writing.test_and_set(std::memory_order_acquire)) {
        }
        std::copy(code, code + 3, frame.error);
        writing.clear(std::memory_order_release);
      }
    });
  }

  Plan plan_;
  bool is_static_ = false, single_ = false;
  std::vector<int64_t> static_sizes_;
  std::vector<std::string> notes_;  // by step, where errors name them
  std::vector<Segment> segments_,
      pieces_;  // pieces: each step for itself, so that memory comes and goes in between
};

}  // namespace

std::unique_ptr<Executable> make_plan_executable(Plan plan) {
  return std::make_unique<PlanExecutable>(std::move(plan));
}

}  // namespace cdynamo::runtime
