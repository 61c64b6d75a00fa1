#include "runtime/cuda/cuda_executable.h"

#include <absl/container/inlined_vector.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <functional>
#include <span>
#include <string>
#include <utility>

#include "runtime/cuda/algorithm_timing.h"
#include "runtime/cuda/faults.h"
#include "runtime/cuda/library.h"
#include "runtime/cuda/replay.h"
#include "runtime/cuda/torch_memory.h"
#include "runtime/host/kernel_cache.h"
#include "runtime/plan_step.h"

namespace cdynamo::runtime::cuda {
namespace {

constexpr int64_t kLargestArena = int64_t{1} << 46;
constexpr int64_t kMostBlocks = (int64_t{1} << 31) - 1;
constexpr int kMostParameters = 48;

// Memory of the host that kernels write an error to. It is looked at when the next call begins: nothing waits for a kernel.
class ErrorSlot {
 public:
  explicit ErrorSlot(const DeviceInfo& device) {
    const CurrentContext current(device.context);
    void* host = nullptr;
    constexpr unsigned kPortable = 1, kMapped = 2;
    check(find_driver()->mem_host_alloc(&host, 64, kPortable | kMapped), "taking memory for kernels' errors");
    codes_ = static_cast<int64_t*>(host);
    std::fill_n(codes_, 3, int64_t{0});
    check(find_driver()->mem_host_get_device_pointer(&address_, host, 0),
          "mapping memory for kernels' errors");
  }
  DevicePointer address() const { return address_; }
  // The codes that were written since the last time.
  bool take(int64_t* codes) {
    std::atomic_ref<int64_t> kind(codes_[0]);
    if (kind.load(std::memory_order_acquire) == 0) return false;
    std::copy_n(codes_, 3, codes);
    kind.store(0);
    return true;
  }

 private:
  int64_t* codes_ = nullptr;  // for ever: kernels that are under way write to it
  DevicePointer address_ = 0;
};

ErrorSlot& error_slot(const DeviceInfo& device) {
  static auto* slot = new ErrorSlot(device);  // portable: one for all devices
  return *slot;
}

class CudaExecutable final : public Executable {
 public:
  CudaExecutable(Plan plan, int device_index, const DeviceInfo& device)
      : plan_(std::move(plan)), device_index_(device_index), device_(device), driver_(*find_driver()) {
    is_static_ = std::all_of(plan_.sizes.begin(), plan_.sizes.end(),
                             [](const SizeExpr& size) { return size.is_constant(); });
    for (const SizeExpr& size : plan_.sizes) static_sizes_.push_back(size.constant);
    make_segments();
    fastest_ = std::make_unique<std::atomic<int>[]>(plan_.steps.size());
    for (size_t i = 0; i < plan_.steps.size(); ++i) fastest_[i] = -1;
    brings_ = std::ranges::any_of(plan_.steps, [](const PlanStep& step) { return !step.brings.empty(); });
    for (const PlanStep& step : plan_.steps) may_fail_ |= step.launch.block.takes_error;
    if (may_fail_) error_slot(device);
    // The host's part is microseconds, but what the framework does in its calls may wait for the device.
    takes_long =
        std::ranges::any_of(plan_.steps, [](const PlanStep& step) { return step.library != nullptr; });
    allocates_late = takes_long;
  }

  bool run(const Call& call, RunError* error) override {
    try {
      const CurrentContext current(device_.context);
      const TimedAlgorithms timed(plan_.times_algorithms);
      if (run_steps(call, error)) return true;
      if (error->kind == RunError::kMemoryError) error->kind = RunError::kDeviceMemoryError;
      return false;
    } catch (const CudaError& failure) {
      *error = run_error(failure, plan_.debugs);
      return false;
    }
  }

 private:
  using Pointers = absl::InlinedVector<void*, 96>;
  using Wanted = absl::InlinedVector<BroughtMemory*, 4>;

  // Steps that run together: one, or as many as are recorded and replayed together.
  struct Segment {
    int begin = 0, end = 0;
    StepLives lives;
    std::vector<int> adopted;  // outputs that it writes first, whose memory its one step may bring
    std::vector<int> buffers;  // that its steps read and write
    std::unique_ptr<ReplayedLaunches> replay;
  };

  bool run_steps(const Call& call, RunError* error) const {
    int64_t codes[3];
    if (may_fail_ && error_slot(device_).take(codes)) {
      index_error(codes, error);
      error->message +=
          " (in an earlier call of a compiled function: kernels on a GPU run on by themselves; with "
          "CDYNAMO_DEBUG=1 they are "
          "waited for)";
      error->of_earlier_call = true;
      return false;
    }
    absl::InlinedVector<int64_t, 128> dynamic_sizes;
    const int64_t* sizes = static_sizes_.data();
    if (!is_static_) {
      for (const SizeExpr& size : plan_.sizes) dynamic_sizes.push_back(size.evaluate(call.symbols));
      sizes = dynamic_sizes.data();
    }
    const int64_t arena_bytes = plan_.arena_bytes < 0 ? 0 : sizes[plan_.arena_bytes];
    if (arena_bytes < 0 || arena_bytes > kLargestArena) return out_of_memory(error);
    DeviceBlock arena(static_cast<size_t>(arena_bytes));
    if (arena_bytes > 0 && !arena.data()) return out_of_memory(error);
    Pointers pointers(plan_.buffers.size());
    for (size_t i = 0; i < pointers.size(); ++i)
      pointers[i] = pointer(plan_.buffers[i], call, sizes, arena.data());
    const Device device{DeviceType::kCUDA, static_cast<int8_t>(device_index_)};
    const Stream stream = current_stream(device_index_);
    std::vector<BroughtMemory> brought(brings_ ? plan_.buffers.size() : 0);
    const bool adopts = call.memory && call.memory->adopt;
    for (const Segment& segment : segments_) {
      if (call.memory && !allocate(segment.lives.first_writes, call, pointers)) return out_of_memory(error);
      if (call.memory && !adopts && !allocate(segment.adopted, call, pointers)) return out_of_memory(error);
      auto run_all = [&] {
        error->kind = RunError::kNone;
        const Recording* recording = Recording::current();
        for (int i = segment.begin; i < segment.end; ++i) {
          const PlanStep& step = plan_.steps[i];
          if (!step.library) {
            if (!launch(step, sizes, call.symbols, pointers.data(), recording ? recording->stream() : stream,
                        error) ||
                !examine(step, stream, error))
              return false;
            continue;
          }
          const Wanted wanted = wanted_of(step, segment, adopts, brought);
          if (!run_library_step(step, device, sizes, pointers.data(), call.library,
                                wanted.empty() ? nullptr : wanted.data(), error) ||
              !take(step, wanted, call, pointers, error) || !examine(step, stream, error))
            return false;
        }
        return true;
      };
      if (!(segment.replay ? replay(segment, call, pointers, stream, run_all, error) : run_all()))
        return false;
      if (call.memory && call.memory->release)
        for (int buffer : segment.lives.last_reads)
          call.memory->release(call.memory->context, plan_.buffers[buffer].index);
      if (brings_)
        for (int buffer : segment.lives.ends) brought[buffer] = {};
      if (&segment == last_of_arena_) arena = {};
    }
    return true;
  }

  // With CDYNAMO_DEBUG=1: waits for the step, whose errors these are. Not where it is only recorded.
  bool examine(const PlanStep& step, Stream stream, RunError* error) const {
    if (!plan_.debugs || is_capturing(stream)) return true;
    check(driver_.stream_synchronize(stream), describe(step).c_str());
    int64_t codes[3];
    if (!step.launch.block.takes_error || !error_slot(device_).take(codes)) return true;
    index_error(codes, error);
    error->message += ", in " + describe(step);
    error->of_earlier_call = true;  // PyTorch's own kernels would end the device's context
    return false;
  }

  bool allocate(const std::vector<int>& outputs, const Call& call, Pointers& pointers) const {
    for (int buffer : outputs) {
      pointers[buffer] = call.memory->allocate(call.memory->context, plan_.buffers[buffer].index);
      if (!pointers[buffer]) return false;
    }
    return true;
  }

  // By output of the step: where it puts memory that it brings; empty: it brings none.
  Wanted wanted_of(const PlanStep& step, const Segment& segment, bool adopts,
                   std::vector<BroughtMemory>& brought) const {
    Wanted wanted;
    for (size_t i = 0; i < step.brings.size(); ++i) {
      const int buffer = step.operands[step.num_inputs + i].buffer;
      const bool brings = step.brings[i] && (plan_.buffers[buffer].where == PlanBuffer::kFromLibrary ||
                                             (adopts && std::ranges::count(segment.adopted, buffer) > 0));
      wanted.push_back(brings ? &brought[buffer] : nullptr);
    }
    return wanted;
  }

  bool take(const PlanStep& step, const Wanted& wanted, const Call& call, Pointers& pointers,
            RunError* error) const {
    for (size_t i = 0; i < wanted.size(); ++i) {
      if (!wanted[i]) continue;
      const int buffer = step.operands[step.num_inputs + i].buffer;
      void* data = wanted[i]->data();
      pointers[buffer] = data ? data : reinterpret_cast<void*>(device_.nothing);
      if (plan_.buffers[buffer].where != PlanBuffer::kOutput) continue;
      if (!call.memory->adopt(call.memory->context, plan_.buffers[buffer].index, std::move(*wanted[i])))
        return out_of_memory(error);
    }
    return true;
  }

  // What takes memory of its own in the framework, or a generator's numbers, is not for recording.
  static bool is_recordable(const PlanStep& step) { return !step.library || step.library == &library_matmul; }

  void make_segments() {
    const int count = static_cast<int>(plan_.steps.size());
    std::vector<int> segment_of(count);
    for (int i = 0; i < count; ++i) {
      const bool joins = plan_.replays_launches && !plan_.debugs && i > 0 && is_recordable(plan_.steps[i]) &&
                         is_recordable(plan_.steps[i - 1]);
      if (!joins) segments_.push_back({.begin = i});
      segments_.back().end = i + 1;
      segment_of[i] = static_cast<int>(segments_.size()) - 1;
    }
    std::vector<StepLives> lives = find_lives(plan_, segment_of);
    const auto is_of_arena = [&](int buffer) { return plan_.buffers[buffer].where == PlanBuffer::kArena; };
    constexpr int kFewest = 3;  // a replay costs what two launches cost
    for (size_t s = 0; s < segments_.size(); ++s) {
      Segment& segment = segments_[s];
      segment.lives = std::move(lives[s]);
      find_adopted(segment);
      if (std::ranges::any_of(segment.lives.ends, is_of_arena)) last_of_arena_ = &segment;
      if (segment.end - segment.begin < kFewest) continue;
      segment.replay = std::make_unique<ReplayedLaunches>();
      for (int i = segment.begin; i < segment.end; ++i) {
        const PlanStep& step = plan_.steps[i];
        segment.buffers.insert(segment.buffers.end(), step.buffers.begin(), step.buffers.end());
        for (const PlanOperand& operand : step.operands)
          if (operand.buffer >= 0) segment.buffers.push_back(operand.buffer);
      }
      std::ranges::sort(segment.buffers);
      segment.buffers.erase(std::unique(segment.buffers.begin(), segment.buffers.end()),
                            segment.buffers.end());
    }
  }

  void find_adopted(Segment& segment) const {
    const PlanStep& step = plan_.steps[segment.begin];
    for (size_t i = 0; i < step.brings.size(); ++i) {
      const int buffer = step.operands[step.num_inputs + i].buffer;
      if (step.brings[i] && std::erase(segment.lives.first_writes, buffer) > 0)
        segment.adopted.push_back(buffer);
    }
  }

  bool replay(const Segment& segment, const Call& call, std::span<void* const> pointers, Stream stream,
              const std::function<bool()>& run_all, RunError* error) const {
    absl::InlinedVector<uint64_t, 128> key{reinterpret_cast<uint64_t>(stream)};
    for (int buffer : segment.buffers) key.push_back(reinterpret_cast<uint64_t>(pointers[buffer]));
    for (int i = 0; i < num_symbols; ++i) key.push_back(static_cast<uint64_t>(call.symbols[i]));
    return segment.replay->run(key, stream, run_all, &error->remark);
  }

  void* pointer(const PlanBuffer& buffer, const Call& call, const int64_t* sizes, char* arena) const {
    void* data = nullptr;
    switch (buffer.where) {
      case PlanBuffer::kInput: data = call.inputs[buffer.index].data; break;
      case PlanBuffer::kOutput: data = call.memory ? nullptr : call.outputs[buffer.index]; break;
      case PlanBuffer::kArena: data = arena ? arena + sizes[buffer.offset] : nullptr; break;
      case PlanBuffer::kFromLibrary: return nullptr;
    }
    return data ? data : reinterpret_cast<void*>(device_.nothing);
  }

  // A step's kernel, the fastest of its variants as far as that is known.
  bool launch(const PlanStep& step, const int64_t* sizes, const int64_t* symbols, void* const* pointers,
              Stream stream, RunError* error) const {
    if (step.variants.empty()) return launch(step, step.launch, sizes, symbols, pointers, stream, error);
    std::atomic<int>& fastest = fastest_[&step - plan_.steps.data()];
    if (fastest.load() < 0 && sizes[step.launch.items] > 0 && !Recording::current() && !is_capturing(stream))
      fastest.store(find_fastest_variant(step, sizes, symbols, pointers, stream));
    return launch(step, variant(step, std::max(0, fastest.load())), sizes, symbols, pointers, stream, error);
  }

  static const Launch& variant(const PlanStep& step, int number) {
    return number == 0 ? step.launch : step.variants[number - 1];
  }

  // Each runs some times; what they would overwrite and read again is memory of their own, of whatever content.
  int find_fastest_variant(const PlanStep& step, const int64_t* sizes, const int64_t* symbols,
                           void* const* pointers, Stream stream) const {
    Pointers trial(pointers, pointers + plan_.buffers.size());
    std::vector<DeviceBlock> blocks;
    for (int position : step.overwritten) {
      const int buffer = step.buffers[position];
      blocks.emplace_back(static_cast<size_t>(sizes[plan_.buffers[buffer].bytes]));
      trial[buffer] = blocks.back().data();
      if (!trial[buffer]) return 0;
    }
    const int count = static_cast<int>(step.variants.size()) + 1;
    const int fastest =
        std::max(0, find_fastest(stream, count, [&](int number) {
                   RunError ignored;
                   return launch(step, variant(step, number), sizes, symbols, trial.data(), stream, &ignored);
                 }));
    KernelCache::process().put(step.variants_key, std::to_string(fastest));
    return fastest;
  }

  bool launch(const PlanStep& step, const Launch& launch, const int64_t* sizes, const int64_t* symbols,
              void* const* pointers, Stream stream, RunError* error) const {
    const BlockShape& block = launch.block;
    const int64_t blocks = sizes[launch.items];
    if (blocks <= 0) return true;
    if (blocks > kMostBlocks) {
      *error = {RunError::kRuntimeError, "a kernel over more points than a GPU has blocks"};
      return false;
    }
    DeviceBlock scratch;
    if (block.takes_scratch) {
      scratch = DeviceBlock(static_cast<size_t>(sizes[launch.scratch_bytes] * blocks));
      if (!scratch.data()) return out_of_memory(error);
    }
    absl::InlinedVector<uint64_t, kMostParameters> values;
    for (int buffer : step.buffers) values.push_back(reinterpret_cast<uint64_t>(pointers[buffer]));
    for (int symbol : block.symbols) values.push_back(static_cast<uint64_t>(symbols[symbol]));
    if (block.takes_scratch) values.push_back(reinterpret_cast<uint64_t>(scratch.data()));
    if (block.takes_error) values.push_back(error_slot(device_).address());
    absl::InlinedVector<void*, kMostParameters> parameters;
    for (uint64_t& value : values) parameters.push_back(&value);
    const auto function = static_cast<Function>(const_cast<void*>(launch.code));
    check(driver_.launch_kernel(
              function, static_cast<unsigned>(blocks), 1, 1, static_cast<unsigned>(block.threads), 1, 1,
              static_cast<unsigned>(block.shared_bytes), stream, parameters.data(), nullptr),
          "launching a kernel");
    return true;
  }

  const Plan plan_;
  const int device_index_;
  const DeviceInfo& device_;
  const Driver& driver_;
  bool is_static_ = false, may_fail_ = false, brings_ = false;
  std::vector<int64_t> static_sizes_;
  std::unique_ptr<std::atomic<int>[]> fastest_;  // by step: of its variants; -1: they have yet to be timed
  std::vector<Segment> segments_;
  const Segment* last_of_arena_ = nullptr;  // after it the arena is free
};

}  // namespace

std::unique_ptr<Executable> make_cuda_executable(Plan plan, int device_index, const DeviceInfo& device) {
  return std::make_unique<CudaExecutable>(std::move(plan), device_index, device);
}

}  // namespace cdynamo::runtime::cuda
