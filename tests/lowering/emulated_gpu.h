// A GPU's code without a GPU: the modules that lowering/gpu emits for NVPTX, with the device's intrinsics as functions of ours,
// compiled for the host and run thread by thread. Threads of a block are fibers; a barrier or a shuffle hands over to the next.
#pragma once

#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/IntrinsicInst.h>
#include <llvm/IR/IntrinsicsNVPTX.h>
#include <llvm/IR/Module.h>
#include <ucontext.h>

#include <atomic>
#include <cmath>
#include <cstring>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "graph/passes/channels_last.h"
#include "lowering/cpu/target.h"
#include "lowering/gpu/emit.h"
#include "runtime/host/jit.h"
#include "runtime/host/kernel.h"
#include "tests/lowering/ptxas.h"

namespace cdynamo::lowering::testing {

// ---- one block at a time

class EmulatedBlock {
 public:
  static EmulatedBlock& current() {
    static thread_local EmulatedBlock block;
    return block;
  }
  // Runs `body` once for each thread of block `index`.
  void run(int index, int threads, bool synchronizes, const std::function<void()>& body) {
    index_ = index;
    if (!synchronizes) {
      for (thread_ = 0; thread_ < threads; ++thread_) body();
      return;
    }
    body_ = &body;
    fibers_.resize(threads);
    for (int t = 0; t < threads; ++t) {
      Fiber& fiber = fibers_[t];
      if (!fiber.stack) fiber.stack = std::make_unique<char[]>(kStack);
      fiber.done = false;
      getcontext(&fiber.context);
      fiber.context.uc_stack = {fiber.stack.get(), 0, kStack};
      fiber.context.uc_link = &home_;
      makecontext(&fiber.context, reinterpret_cast<void (*)()>(&EmulatedBlock::enter), 0);
    }
    // Each turn runs every thread up to its next synchronization, of whatever kind: all threads that go on meet the same ones.
    for (bool going = true; going;) {
      going = false;
      for (thread_ = 0; thread_ < threads; ++thread_) {
        Fiber& fiber = fibers_[thread_];
        if (fiber.done) continue;
        swapcontext(&home_, &fiber.context);
        going |= !fiber.done;
      }
    }
  }
  int thread() const { return thread_; }
  int block() const { return index_; }
  void yield() { swapcontext(&fibers_[thread_].context, &home_); }
  // What the thread `from` of all that shuffle at once gave.
  int shuffle(int value, int from) {
    const int self = thread_;
    fibers_[self].value = value;
    yield();
    const int result = fibers_[from].value;
    yield();  // before anybody writes the next
    return result;
  }

 private:
  static constexpr size_t kStack = 64 << 10;
  struct Fiber {
    ucontext_t context;
    std::unique_ptr<char[]> stack;
    bool done = false;
    int value = 0;
  };
  static void enter() {
    EmulatedBlock& block = current();
    (*block.body_)();
    block.fibers_[block.thread_].done = true;
  }
  int thread_ = 0, index_ = 0;
  ucontext_t home_;
  std::vector<Fiber> fibers_;
  const std::function<void()>* body_ = nullptr;
};

// ---- the device's functions

alignas(64) inline char emulated_shared_memory[256 << 10];

inline int32_t emulated_thread() { return EmulatedBlock::current().thread(); }
inline int32_t emulated_block() { return EmulatedBlock::current().block(); }
inline void emulated_barrier() { EmulatedBlock::current().yield(); }
inline void emulated_warp_barrier(int32_t) { EmulatedBlock::current().yield(); }
inline int32_t emulated_shuffle(int32_t, int32_t value, int32_t mask, int32_t) {
  EmulatedBlock& block = EmulatedBlock::current();
  return block.shuffle(value, block.thread() ^ mask);
}
inline int32_t emulated_shuffle_up(int32_t, int32_t value, int32_t by, int32_t) {
  EmulatedBlock& block = EmulatedBlock::current();
  const int thread = block.thread();
  return block.shuffle(value, thread % gpu::kWarp >= by ? thread - by : thread);
}
inline int32_t emulated_shuffle_at(int32_t, int32_t value, int32_t lane, int32_t) {
  EmulatedBlock& block = EmulatedBlock::current();
  return block.shuffle(value, block.thread() / gpu::kWarp * gpu::kWarp + lane % gpu::kWarp);
}
template <typename From, typename To>
To emulated_conversion(From x) {
  if (std::isnan(x)) return sizeof(To) == 8 ? std::numeric_limits<To>::min() : 0;
  const double limit = std::ldexp(1.0, 8 * sizeof(To) - 1);
  if (x >= limit) return std::numeric_limits<To>::max();
  if (x < -limit) return std::numeric_limits<To>::min();
  return static_cast<To>(x);
}

inline float emulated_saturate(float x) { return x > 0 ? std::min(x, 1.0F) : 0; }  // NaN too
inline float emulated_ex2(float x) {
  const float result = std::exp2(x);
  return std::fabs(result) < std::numeric_limits<float>::min() ? 0 : result;
}

struct EmulatedFunction {
  llvm::Intrinsic::ID intrinsic;
  const char* name;
  void* address;
};
inline const EmulatedFunction kEmulatedFunctions[] = {
    {llvm::Intrinsic::nvvm_read_ptx_sreg_tid_x, "emulated_thread", reinterpret_cast<void*>(&emulated_thread)},
    {llvm::Intrinsic::nvvm_read_ptx_sreg_ctaid_x, "emulated_block", reinterpret_cast<void*>(&emulated_block)},
    {llvm::Intrinsic::nvvm_barrier0, "emulated_barrier", reinterpret_cast<void*>(&emulated_barrier)},
    {llvm::Intrinsic::nvvm_bar_warp_sync, "emulated_warp_barrier",
     reinterpret_cast<void*>(&emulated_warp_barrier)},
    {llvm::Intrinsic::nvvm_shfl_sync_bfly_i32, "emulated_shuffle",
     reinterpret_cast<void*>(&emulated_shuffle)},
    {llvm::Intrinsic::nvvm_shfl_sync_up_i32, "emulated_shuffle_up",
     reinterpret_cast<void*>(&emulated_shuffle_up)},
    {llvm::Intrinsic::nvvm_shfl_sync_idx_i32, "emulated_shuffle_at",
     reinterpret_cast<void*>(&emulated_shuffle_at)},
    {llvm::Intrinsic::nvvm_f2i_rz, "emulated_f2i",
     reinterpret_cast<void*>(&emulated_conversion<float, int32_t>)},
    {llvm::Intrinsic::nvvm_f2ll_rz, "emulated_f2ll",
     reinterpret_cast<void*>(&emulated_conversion<float, int64_t>)},
    {llvm::Intrinsic::nvvm_d2i_rz, "emulated_d2i",
     reinterpret_cast<void*>(&emulated_conversion<double, int32_t>)},
    {llvm::Intrinsic::nvvm_d2ll_rz, "emulated_d2ll",
     reinterpret_cast<void*>(&emulated_conversion<double, int64_t>)},
    {llvm::Intrinsic::nvvm_saturate_f, "emulated_saturate", reinterpret_cast<void*>(&emulated_saturate)},
    {llvm::Intrinsic::nvvm_ex2_approx_ftz_f, "emulated_ex2", reinterpret_cast<void*>(&emulated_ex2)},
};

// A HostKernelFn hands work items [begin, end) to this, with the EmulatedKernel that it belongs to.
inline void run_emulated(const void* kernel, void* const* buffers, const int64_t* symbols, int64_t begin,
                         int64_t end, int64_t* error);

inline constexpr const char* kEmulatedName = "kernel";

// Hosts have no instruction for it.
inline void round_in_integers(llvm::FPTruncInst* rounding) {
  llvm::IRBuilder<> ir(rounding);
  llvm::Value* x = rounding->getOperand(0);
  llvm::Value* bits = ir.CreateBitCast(x, ir.getInt32Ty());
  llvm::Value* odd = ir.CreateAnd(ir.CreateLShr(bits, 16), ir.getInt32(1));
  llvm::Value* rounded = ir.CreateAdd(bits, ir.CreateAdd(odd, ir.getInt32(0x7fff)));
  llvm::Value* chosen = ir.CreateSelect(ir.CreateFCmpUNO(x, x), ir.getInt32(0x7fff0000), rounded);
  llvm::Value* upper = ir.CreateTrunc(ir.CreateLShr(chosen, 16), ir.getInt16Ty());
  rounding->replaceAllUsesWith(ir.CreateBitCast(upper, rounding->getType()));
  rounding->eraseFromParent();
}

// Intrinsics to functions, the kernel to an ordinary function, `run`, which calls it with an array of its parameters, and
// `items`, a HostKernelFn of `owner`.
inline void make_emulated(llvm::Module& module, const void* owner) {
  llvm::Function* kernel = module.getFunction(kEmulatedName);
  kernel->setCallingConv(llvm::CallingConv::C);
  llvm::NamedMDNode* annotations = module.getNamedMetadata("nvvm.annotations");
  if (annotations) annotations->eraseFromParent();
  std::vector<llvm::CallInst*> calls;
  std::vector<llvm::FPTruncInst*> roundings;
  for (llvm::Function& function : module)
    for (llvm::BasicBlock& block : function)
      for (llvm::Instruction& instruction : block) {
        if (auto* call = llvm::dyn_cast<llvm::CallInst>(&instruction)) calls.push_back(call);
        if (auto* cast = llvm::dyn_cast<llvm::FPTruncInst>(&instruction))
          if (cast->getType()->getScalarType()->isBFloatTy()) roundings.push_back(cast);
      }
  for (llvm::FPTruncInst* rounding : roundings) round_in_integers(rounding);
  for (llvm::CallInst* call : calls) {
    if (call->isInlineAsm()) {  // a copy that LLVM is not to see through
      llvm::IRBuilder<> ir(call);
      call->replaceAllUsesWith(
          ir.CreateUnaryIntrinsic(llvm::Intrinsic::arithmetic_fence, call->getArgOperand(0)));
      call->eraseFromParent();
      continue;
    }
    for (const EmulatedFunction& function : kEmulatedFunctions)
      if (call->getIntrinsicID() == function.intrinsic) {
        call->setCalledFunction(module.getOrInsertFunction(function.name, call->getFunctionType()));
        break;
      }
  }
  llvm::IRBuilder<> ir(module.getContext());
  auto* run = llvm::Function::Create(llvm::FunctionType::get(ir.getVoidTy(), {ir.getPtrTy()}, false),
                                     llvm::Function::ExternalLinkage, "run", module);
  ir.SetInsertPoint(llvm::BasicBlock::Create(module.getContext(), "entry", run));
  std::vector<llvm::Value*> arguments;
  for (llvm::Argument& argument : kernel->args()) {
    llvm::Value* slot = ir.CreateConstGEP1_64(ir.getInt64Ty(), run->getArg(0), argument.getArgNo());
    llvm::Value* bits = ir.CreateLoad(ir.getInt64Ty(), slot);
    arguments.push_back(argument.getType()->isPointerTy() ? ir.CreateIntToPtr(bits, argument.getType())
                                                          : bits);
  }
  ir.CreateCall(kernel, arguments);
  ir.CreateRetVoid();
  llvm::Type *pointer = ir.getPtrTy(), *integer = ir.getInt64Ty();
  auto* items = llvm::Function::Create(
      llvm::FunctionType::get(ir.getVoidTy(), {pointer, pointer, integer, integer, pointer, pointer}, false),
      llvm::Function::ExternalLinkage, "items", module);
  ir.SetInsertPoint(llvm::BasicBlock::Create(module.getContext(), "entry", items));
  const llvm::FunctionCallee emulated = module.getOrInsertFunction(
      "run_emulated",
      llvm::FunctionType::get(ir.getVoidTy(), {pointer, pointer, pointer, integer, integer, pointer}, false));
  llvm::Value* self = ir.CreateIntToPtr(ir.getInt64(reinterpret_cast<uint64_t>(owner)), pointer);
  ir.CreateCall(emulated, {self, items->getArg(0), items->getArg(1), items->getArg(2), items->getArg(3),
                           items->getArg(5)});
  ir.CreateRetVoid();
}

// ---- kernels and a target

class EmulatedKernel {
 public:
  EmulatedKernel(const ScheduledKernel& kernel, const graph::SymContext& context,
                 const gpu::Architecture& architecture)
      : EmulatedKernel(kernel, architecture, gpu::plan_threads(kernel, context, architecture)) {}
  EmulatedKernel(const ScheduledKernel& kernel, const gpu::Architecture& architecture,
                 gpu::ThreadPlan thread_plan)
      : plan(std::move(thread_plan)),
        symbols_(gpu::symbols_of(kernel, plan)),
        takes_error_(gpu::checks_indices(kernel)) {
    static std::once_flag once;
    std::call_once(once, [] {
      std::vector<std::pair<const char*, void*>> symbols = {
          {"shared_memory", emulated_shared_memory},
          {"run_emulated", reinterpret_cast<void*>(&run_emulated)}};
      for (const EmulatedFunction& function : kEmulatedFunctions)
        symbols.push_back({function.name, function.address});
      runtime::define_symbols(symbols);
    });
    for (const KernelBuffer& buffer : kernel.buffers) buffers_ += buffer.kind == BufferKind::kGlobal;
    const std::string object = runtime::compile("emulated", [&](llvm::Module& module) {
      gpu::KernelEmitter(module, kernel, plan).emit(kEmulatedName);
      make_emulated(module, this);
    });
    code_ = runtime::load_object(object, {"run", "items"});
    check_ptx(kernel, plan, architecture);
  }
  EmulatedKernel(const EmulatedKernel&) = delete;
  const void* items() const { return code_->address(1); }
  // Blocks [begin, end); the arguments of a HostKernelFn.
  void run(void* const* buffers, const int64_t* symbols, int64_t begin, int64_t end, int64_t* error) const {
    std::vector<uint64_t> parameters;
    for (int i = 0; i < buffers_; ++i) parameters.push_back(reinterpret_cast<uint64_t>(buffers[i]));
    for (int symbol : symbols_) parameters.push_back(static_cast<uint64_t>(symbols[symbol]));
    std::vector<char> scratch;
    if (!(plan.global_scratch == Sym())) {
      scratch.resize(sizes_.evaluate(plan.global_scratch, symbols) * end + 16);
      parameters.push_back((reinterpret_cast<uint64_t>(scratch.data()) + 15) / 16 * 16);
    }
    if (takes_error_) parameters.push_back(reinterpret_cast<uint64_t>(error));
    auto* function = reinterpret_cast<void (*)(const uint64_t*)>(code_->address(0));
    // Shared memory is one for all.
    static std::mutex mutex;
    std::lock_guard lock(mutex);
    for (int64_t block = begin; block < end; ++block)
      EmulatedBlock::current().run(static_cast<int>(block), plan.threads(), plan.inner_threads > 1,
                                   [&] { function(parameters.data()); });
  }
  const gpu::ThreadPlan plan;

 private:
  const graph::SymContext sizes_;  // only evaluates
  const std::vector<int> symbols_;
  const bool takes_error_;
  int buffers_ = 0;
  std::unique_ptr<runtime::LoadedCode> code_;
};

inline void run_emulated(const void* kernel, void* const* buffers, const int64_t* symbols, int64_t begin,
                         int64_t end, int64_t* error) {
  static_cast<const EmulatedKernel*>(kernel)->run(buffers, symbols, begin, end, error);
}

class EmulatedModule final : public CompiledModule {
 public:
  EmulatedModule(std::span<const ScheduledKernel> given, const graph::SymContext& context,
                 const gpu::Architecture& architecture) {
    static std::atomic<size_t> turn = 0;
    for (const ScheduledKernel& kernel : given) {
      // Every other kernel by a plan that is not the first choice.
      std::vector<gpu::ThreadPlan> plans = gpu::plan_variants(kernel, context, architecture, 1);
      const size_t number = turn++ % 2 == 0 ? 0 : turn / 2 % plans.size();
      emulated_.push_back(std::make_unique<EmulatedKernel>(kernel, architecture, std::move(plans[number])));
      kernels.push_back({.code = emulated_.back()->items(), .grid = {emulated_.back()->plan.blocks}});
    }
    kernels_compiled = static_cast<int>(given.size());
  }

 private:
  std::vector<std::unique_ptr<EmulatedKernel>> emulated_;
};

// Fuses and schedules as a GPU does, and runs on the host.
class EmulatedGpuTarget : public CpuTarget {
 public:
  explicit EmulatedGpuTarget(gpu::Architecture architecture) : architecture_(architecture) {}
  const char* obstacle(const Kernel& kernel, const graph::SymContext& context) const override {
    return reduces_crosswise(kernel, context, gpu::kThreads) ? "crosswise" : nullptr;
  }
  const char* fusion_obstacle(const Kernel& kernel, const graph::SymContext& context) const override {
    return turns_rows(kernel, context, gpu::kThreads) ? "rows run along memory and across it" : nullptr;
  }
  bool gains_by_channels_last(const graph::Node& convolution) const override {
    return graph::gains_by_channels_last(convolution, true);
  }
  bool gains_by_padding(const graph::PaddedProduct& product) const override {
    return runtime::bytes(product.dtype) == 2;
  }
  ReductionBlocks reduction_blocks(const ReductionShape& shape) const override {
    return gpu::reduction_blocks(shape, architecture_);
  }
  ReductionBlocks scan_blocks(const ReductionShape& shape) const override {
    return gpu::scan_blocks(shape, architecture_);
  }
  bool scatters_in_any_order(DType dtype, bool adds) const override {
    return !adds || gpu::adds_atomically(dtype);
  }
  std::unique_ptr<CompiledModule> emit(std::span<const Kernel> kernels, const graph::SymContext& context,
                                       const EmitOptions& options) const override {
    std::vector<ScheduledKernel> scheduled;
    for (const Kernel& kernel : kernels) {
      scheduled.push_back(schedule(kernel, context, gpu::kThreads));
      if (options.loop_ir) *options.loop_ir += print(scheduled.back()) + "\n";
    }
    return std::make_unique<EmulatedModule>(scheduled, context, architecture_);
  }

 private:
  const gpu::Architecture architecture_;
};
// Few processors, so that small graphs take the ways of large ones too.
inline const gpu::Architecture kSmallGpu{
    .compute_capability = 80, .processors = 2, .shared_bytes_per_block = 16 << 10};
inline const Target& emulated_gpu_target() {
  static const EmulatedGpuTarget target(kSmallGpu);
  return target;
}

}  // namespace cdynamo::lowering::testing
