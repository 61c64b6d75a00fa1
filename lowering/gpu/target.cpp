#include "lowering/gpu/target.h"

#include <algorithm>
#include <map>
#include <memory>
#include <mutex>

#include "graph/passes/channels_last.h"
#include "lowering/gpu/emit.h"
#include "lowering/gpu/warm_up.h"
#include "lowering/loops/schedule.h"
#include "runtime/cuda/cuda_executable.h"
#include "runtime/cuda/library.h"
#include "runtime/cuda/torch_memory.h"

namespace cdynamo::lowering {
namespace {

constexpr int64_t kFewestRows = 128;  // of queries and keys, of attention that is worth a call

}  // namespace

GpuTarget::GpuTarget(int device_index, const runtime::cuda::DeviceInfo& device)
    : device_index_(device_index),
      device_(device),
      architecture_{device.compute_capability, device.processors, device.shared_bytes_per_block} {}

const char* GpuTarget::obstacle(const Kernel& kernel, const graph::SymContext& context) const {
  return reduces_crosswise(kernel, context, gpu::kThreads)
             ? "one reduction runs along memory, the other across it"
             : nullptr;
}

const char* GpuTarget::fusion_obstacle(const Kernel& kernel, const graph::SymContext& context) const {
  return turns_rows(kernel, context, gpu::kThreads) ? "rows run along memory and across it" : nullptr;
}

bool GpuTarget::gains_by_channels_last(const graph::Node& convolution) const {
  return graph::gains_by_channels_last(convolution, runtime::cuda::convolutions_use_tf32());
}

// Rates of cuBLAS 13 on an H100 (docs/gpu.md): multiplications and additions a second of products whose rows are aligned to 16 bytes,
// and to fewer.
bool GpuTarget::gains_by_padding(const graph::PaddedProduct& product) const {
  constexpr double kBytesASecond = 1.8e12, kLaunch = 4e-6, kWorthMemory = 1.5;
  double fast = 650e12, slow = product.row_alignment < 4 ? 115e12 : 235e12;
  if (product.dtype == DType::kF32 && runtime::cuda::products_use_tf32()) {
    fast = 280e12;
    slow = 120e12;
  } else if (product.dtype != DType::kF16 && product.dtype != DType::kBF16) {
    return false;
  }
  const double operations = 2 * product.multiplications;
  return operations / slow - operations / fast >
         kWorthMemory * (product.copied_bytes / kBytesASecond + product.copies * kLaunch);
}

// The framework's memory-efficient attention, which multiplies float32 on tensor cores without TF32's loss (three products for one).
bool GpuTarget::gains_by_attention(const graph::AttentionShape& shape) const {
  const graph::TensorType &query = shape.query, &key = shape.key;
  const auto is_multiple = [](const Sym& size, int64_t of) { return mod(size, Sym(of)) == Sym(0); };
  const auto at_least = [](const Sym& size, int64_t least) {
    return size.is_constant() && size.constant() >= least;
  };
  if (query.dtype != DType::kF32 || architecture_.compute_capability < 80 ||
      !runtime::cuda::may_use_efficient_attention() || runtime::cuda::products_use_tf32())
    return false;
  // Heads in accesses of four numbers, of at most 128; the gradient of more than 64 takes it longer. Rows whose log-sum-exp the
  // backward reads as the forward writes it.
  const Sym &head = query.sizes[3], &rows = query.sizes[2], &columns = key.sizes[2];
  if (!is_multiple(head, 4) || !is_multiple(shape.value_size, 4) || !head.is_constant() ||
      !(shape.value_size == head) || head.constant() > (shape.for_training ? 64 : 128))
    return false;
  if (shape.for_training && (!is_multiple(rows, 32) || runtime::cuda::framework_is_deterministic()))
    return false;
  return at_least(rows, kFewestRows) && at_least(columns, kFewestRows);
}

ReductionBlocks GpuTarget::reduction_blocks(const ReductionShape& shape) const {
  return gpu::reduction_blocks(shape, architecture_);
}

ReductionBlocks GpuTarget::scan_blocks(const ReductionShape& shape) const {
  return gpu::scan_blocks(shape, architecture_);
}

// As eager: unless torch.use_deterministic_algorithms says otherwise, which every graph is guarded by.
bool GpuTarget::scatters_in_any_order(DType dtype, bool adds) const {
  return !runtime::cuda::framework_is_deterministic() && (!adds || gpu::adds_atomically(dtype));
}

std::unique_ptr<CompiledModule> GpuTarget::emit(std::span<const Kernel> kernels,
                                                const graph::SymContext& context,
                                                const EmitOptions& options) const {
  std::vector<ScheduledKernel> scheduled;
  for (const Kernel& kernel : kernels) {
    scheduled.push_back(schedule(kernel, context, gpu::kThreads));
    if (options.loop_ir) *options.loop_ir += print(scheduled.back()) + "\n";
  }
  return gpu::emit_gpu(scheduled, context, architecture_, device_, options);
}

runtime::LibraryFn GpuTarget::library(graph::CoreKind kind) const {
  using enum graph::CoreKind;
  switch (kind) {
    case kMatmul:
    case kBatchMatmul: return runtime::cuda::library_matmul;
    case kConvolution: return runtime::cuda::library_convolution;
    case kConvolutionWeightGrad: return runtime::cuda::library_convolution_weight_grad;
    case kAttention: return runtime::cuda::library_attention;
    case kAttentionBackward: return runtime::cuda::library_attention_backward;
    case kRandom: return runtime::cuda::library_random;
    case kLibrary: return runtime::library_callback;
    default: throw graph::Unsupported("there is no library function for an operator on the GPU");
  }
}

bool GpuTarget::brings_memory(graph::CoreKind kind) const {
  using enum graph::CoreKind;
  return kind == kConvolution || kind == kConvolutionWeightGrad || kind == kAttention ||
         kind == kAttentionBackward || kind == kLibrary;
}

std::unique_ptr<runtime::Executable> GpuTarget::make_executable(runtime::Plan plan) const {
  return runtime::cuda::make_cuda_executable(std::move(plan), device_index_, device_);
}

const GpuTarget& gpu_target(int index) {
  static auto* mutex = new std::mutex;
  static auto* targets = new std::map<int, std::unique_ptr<GpuTarget>>;
  std::lock_guard lock(*mutex);
  std::unique_ptr<GpuTarget>& target = (*targets)[index];
  if (target) return *target;
  try {
    target = std::make_unique<GpuTarget>(index, runtime::cuda::device_info(index));
  } catch (const runtime::cuda::CudaError& error) {
    throw graph::Unsupported(error.message);
  }
  warm_up_gpu(index);
  return *target;
}

}  // namespace cdynamo::lowering
