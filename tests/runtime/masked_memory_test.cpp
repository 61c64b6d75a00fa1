// Masks that are constant in part, behind a condition that is not: what the passes fold, what code generation takes apart.
#include <gtest/gtest.h>
#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/Module.h>

#include <numeric>
#include <vector>

#include "runtime/host/jit.h"

namespace cdynamo::runtime {
namespace {

constexpr int kLanes = 16;

llvm::Value* mask_of(llvm::IRBuilder<>& builder, llvm::Value* condition, unsigned lanes) {
  llvm::SmallVector<llvm::Constant*, kLanes> on;
  for (int lane = 0; lane < kLanes; ++lane) on.push_back(builder.getInt1(lanes >> lane & 1));
  llvm::Value* everywhere =
      builder.CreateVectorSplat(kLanes, builder.CreateTrunc(condition, builder.getInt1Ty()));
  return builder.CreateAnd(everywhere, llvm::ConstantVector::get(on));
}

// void kernel(from, to, condition): copies the lanes that are on, and 0 or `otherwise` for the others, then those lanes alone behind that.
auto copies(unsigned bits, bool floats, unsigned lanes, int otherwise) {
  return [=](llvm::Module& module) {
    llvm::IRBuilder<> b(module.getContext());
    auto* type = llvm::FunctionType::get(b.getVoidTy(), {b.getPtrTy(), b.getPtrTy(), b.getInt64Ty()}, false);
    auto* kernel = llvm::Function::Create(type, llvm::Function::ExternalLinkage, "kernel", module);
    b.SetInsertPoint(llvm::BasicBlock::Create(module.getContext(), "entry", kernel));
    llvm::Type* element = !floats ? b.getIntNTy(bits) : bits == 32 ? b.getFloatTy() : b.getDoubleTy();
    auto* vector = llvm::FixedVectorType::get(element, kLanes);
    llvm::Value* mask = mask_of(b, kernel->getArg(2), lanes);
    llvm::Constant* rest =
        floats ? llvm::ConstantFP::get(vector, otherwise) : llvm::ConstantInt::get(vector, otherwise);
    llvm::Value* loaded = b.CreateMaskedLoad(vector, kernel->getArg(0), llvm::Align(bits / 8), mask, rest);
    b.CreateAlignedStore(loaded, kernel->getArg(1), llvm::Align(bits / 8));
    b.CreateMaskedStore(loaded, b.CreateConstGEP1_64(element, kernel->getArg(1), kLanes),
                        llvm::Align(bits / 8), mask);
    b.CreateRetVoid();
  };
}

template <typename T>
void check(unsigned lanes, int otherwise) {
  auto code = load_object(
      compile("masked", copies(8 * sizeof(T), std::is_floating_point_v<T>, lanes, otherwise)), {"kernel"});
  auto* kernel = reinterpret_cast<void (*)(const T*, T*, int64_t)>(code->address(0));
  std::vector<T> from(kLanes);
  std::iota(from.begin(), from.end(), T(1));
  for (int64_t condition : {0, 1}) {
    std::vector<T> to(2 * kLanes, T(-1)), expected = to;
    for (int lane = 0; lane < kLanes; ++lane) {
      const bool on = condition && lanes >> lane & 1;
      expected[lane] = on ? from[lane] : T(otherwise);
      if (on) expected[kLanes + lane] = from[lane];
    }
    kernel(from.data(), to.data(), condition);
    EXPECT_EQ(to, expected) << "lanes " << std::hex << lanes << ", condition " << condition;
  }
}

TEST(MaskedMemory, LanesThatAreOffAreOff) {
  for (unsigned lanes : {0x0000u, 0xffffu, 0xff00u, 0x00ffu, 0xfff0u, 0x000fu, 0x0f0fu, 0xf000u, 0x0ff0u,
                         0x8001u, 0x0100u, 0xaaaau})
    for (int otherwise : {0, 7}) {
      check<float>(lanes, otherwise);
      check<double>(lanes, otherwise);
      check<int32_t>(lanes, otherwise);
      check<int64_t>(lanes, otherwise);
      check<int16_t>(lanes, otherwise);
      check<int8_t>(lanes, otherwise);
    }
}

}  // namespace
}  // namespace cdynamo::runtime
