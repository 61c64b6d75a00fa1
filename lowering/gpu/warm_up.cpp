#include "lowering/gpu/warm_up.h"

#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/Module.h>
#include <pthread.h>

#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

#include "lowering/gpu/emit.h"
#include "runtime/cuda/module.h"

namespace cdynamo::lowering {
namespace {

namespace cuda = runtime::cuda;

// Uses what every kernel does: memory, arithmetic, a branch.
void emit_sample(llvm::Module& module) {
  llvm::IRBuilder<> ir(module.getContext());
  llvm::Type *pointer = ir.getPtrTy(), *number = ir.getFloatTy();
  auto* function =
      llvm::Function::Create(llvm::FunctionType::get(ir.getVoidTy(), {pointer, ir.getInt64Ty()}, false),
                             llvm::Function::ExternalLinkage, "sample", module);
  auto block = [&](const char* name) {
    return llvm::BasicBlock::Create(module.getContext(), name, function);
  };
  llvm::BasicBlock *entry = block("entry"), *body = block("body"), *end = block("end");
  ir.SetInsertPoint(entry);
  ir.CreateCondBr(ir.CreateICmpSGT(function->getArg(1), ir.getInt64(0)), body, end);
  ir.SetInsertPoint(body);
  llvm::Value* place = ir.CreateGEP(number, function->getArg(0), function->getArg(1));
  llvm::Value* read = ir.CreateLoad(number, place);
  llvm::Value* product = ir.CreateFMul(read, ir.CreateFAdd(read, llvm::ConstantFP::get(number, 0.5)));
  ir.CreateStore(ir.CreateSelect(ir.CreateFCmpOGT(product, read), product, read), place);
  ir.CreateBr(end);
  ir.SetInsertPoint(end);
  ir.CreateRetVoid();
}

void start_assembler(const cuda::DeviceInfo& device) noexcept {
  try {
    cuda::assemble(".version 7.0\n.target sm_70\n.address_size 64\n.visible .entry sample() { ret; }\n",
                   device);
  } catch (const std::exception&) {
  }
}

void start_llvm(const cuda::DeviceInfo& device) noexcept {
  const gpu::Architecture architecture{device.compute_capability, device.processors,
                                       device.shared_bytes_per_block};
  try {
    runtime::compile(gpu::code_target(architecture), runtime::CodeForm::kAssembly, "sample", emit_sample);
  } catch (const std::exception&) {
  }
}

struct Threads {
  std::mutex mutex;
  std::vector<std::thread> running;
};
Threads& threads() {
  static auto* instance = new Threads;
  return *instance;
}

}  // namespace

void warm_up_gpu(int index) {
  static std::once_flag once;
  std::call_once(once, [index] {
    try {
      const cuda::DeviceInfo& device = cuda::device_info(index);
      std::lock_guard lock(threads().mutex);
      pthread_atfork(finish_warm_up, nullptr, nullptr);
      threads().running.emplace_back(start_assembler, std::cref(device));
      threads().running.emplace_back(start_llvm, std::cref(device));
    } catch (const cuda::CudaError&) {    // no such device
    } catch (const std::system_error&) {  // no more threads
    }
  });
}

void finish_warm_up() {
  std::lock_guard lock(threads().mutex);
  for (std::thread& thread : threads().running) thread.join();
  threads().running.clear();
}

}  // namespace cdynamo::lowering
