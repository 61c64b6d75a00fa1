// A target that schedules kernels as the CPU does and interprets them.
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <utility>

#include "lowering/cpu/target.h"
#include "lowering/loops/loop_interpreter.h"
#include "lowering/loops/schedule.h"
#include "runtime/host/kernel.h"

namespace cdynamo::lowering::testing {

// A HostKernelFn carries no context: each interpreted kernel takes one of a fixed number of functions.
struct Slot {
  Kernel kernel;
  const graph::SymContext* context;
};
constexpr size_t kSlots = 256;
inline std::array<std::atomic<Slot*>, kSlots> slots;

template <size_t I>
void run_slot(void* const* buffers, const int64_t* symbols, int64_t begin, int64_t end, void*,
              int64_t* error) {
  const Slot& slot = *slots[I].load();
  for (int64_t item = begin; item < end; ++item)
    interpret_item(slot.kernel, *slot.context, buffers, symbols, item, error);
}

template <size_t... I>
constexpr std::array<runtime::HostKernelFn, kSlots> slot_functions(std::index_sequence<I...>) {
  return {&run_slot<I>...};
}

class InterpretedModule final : public CompiledModule {
 public:
  InterpretedModule(std::span<const Kernel> given, const graph::SymContext& context) {
    static constexpr std::array<runtime::HostKernelFn, kSlots> kFunctions =
        slot_functions(std::make_index_sequence<kSlots>());
    for (const Kernel& kernel : given) {
      auto slot = std::make_unique<Slot>(Slot{kernel, &context});
      size_t i = 0;
      for (Slot* free = nullptr; i < kSlots && !slots[i].compare_exchange_strong(free, slot.get()); ++i)
        free = nullptr;
      if (i == kSlots) throw graph::Unsupported("too many kernels for the interpreter");
      taken_.push_back({i, std::move(slot)});
      kernels.push_back({.code = reinterpret_cast<const void*>(kFunctions[i]), .grid = kernel.outer});
    }
  }
  ~InterpretedModule() override {
    for (auto& [i, slot] : taken_) slots[i].store(nullptr);
  }

 private:
  std::vector<std::pair<size_t, std::unique_ptr<Slot>>> taken_;
};

class InterpretedTarget : public CpuTarget {
 public:
  std::unique_ptr<CompiledModule> emit(std::span<const Kernel> kernels, const graph::SymContext& context,
                                       const EmitOptions& options) const override {
    std::vector<Kernel> scheduled;
    for (const Kernel& kernel : kernels) {
      scheduled.push_back(schedule(kernel, context, {.few = 16, .tiles = true}));
      if (options.loop_ir) *options.loop_ir += print(scheduled.back()) + "\n";
      for (const std::string& broken : verify(scheduled.back())) ADD_FAILURE() << broken;
    }
    return std::make_unique<InterpretedModule>(scheduled, context);
  }
};
inline const Target& interpreted_target() {
  static const InterpretedTarget target;
  return target;
}

}  // namespace cdynamo::lowering::testing
