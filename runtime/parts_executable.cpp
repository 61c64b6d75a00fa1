#include "runtime/parts_executable.h"

#include <absl/container/inlined_vector.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>

#include "runtime/plan_step.h"

namespace cdynamo::runtime {
namespace {

struct Lives {
  std::vector<int> begins,
      ends;  // temporaries and outputs that are first written; temporaries that were last read
};

std::vector<Lives> find_part_lives(const PartsPlan& plan) {
  std::vector<Lives> lives(plan.steps.size());
  std::vector<int> first(plan.slots.size(), -1), last(plan.slots.size(), -1);
  for (size_t i = 0; i < plan.steps.size(); ++i) {
    const PartStep& step = plan.steps[i];
    const auto use = [&](int slot) {
      if (slot < 0) return;
      if (first[slot] < 0) first[slot] = static_cast<int>(i);
      last[slot] = static_cast<int>(i);
    };
    for (int slot : step.inputs) use(slot);
    for (int slot : step.outputs) use(slot);
    use(step.from), use(step.to);
  }
  for (size_t slot = 0; slot < plan.slots.size(); ++slot) {
    if (first[slot] < 0 || plan.slots[slot].where == PartSlot::kInput) continue;
    lives[first[slot]].begins.push_back(static_cast<int>(slot));
    if (plan.slots[slot].where == PartSlot::kTemporary)
      lives[last[slot]].ends.push_back(static_cast<int>(slot));
  }
  return lives;
}

class PartsExecutable final : public Executable {
 public:
  PartsExecutable(PartsPlan plan, const DeviceMemory& memory)
      : plan_(std::move(plan)), memory_(memory), lives_(find_part_lives(plan_)) {
    for (const PartSlot& slot : plan_.slots)
      takes_long |= !(slot.type.device == Device{});  // a copy to the host waits for the device
    for (const PartStep& step : plan_.steps) {
      takes_long |= step.executable && step.executable->takes_long;
      reads_symbols |= step.symbol >= 0;
    }
    allocates_late = reads_symbols;
  }

  bool run(const Call& call, RunError* error) override {
    Tensors tensors(*this, call);
    for (size_t i = 0; i < plan_.steps.size(); ++i) {
      for (int slot : lives_[i].begins)
        if (!tensors.begin(slot)) return out_of_memory(error);
      if (!run_step(plan_.steps[i], call, tensors, error)) return false;
      for (int slot : lives_[i].ends) tensors.end(slot);
    }
    return true;
  }

 private:
  // The slots of one call.
  class Tensors {
   public:
    Tensors(const PartsExecutable& parts, const Call& call)
        : parts_(parts), call_(call), views_(parts.plan_.slots.size()) {
      size_t dims = 0;
      for (const PartSlot& slot : parts.plan_.slots) dims += 2 * slot.type.sizes.size();
      dims_.reserve(dims);
      for (size_t i = 0; i < views_.size(); ++i)
        if (parts.plan_.slots[i].where == PartSlot::kInput) describe(parts.plan_.slots[i], views_[i]);
    }
    ~Tensors() {
      for (size_t i = 0; i < views_.size(); ++i) end(static_cast<int>(i));
    }
    const TensorView& view(int slot) const { return views_[slot]; }

    // The symbols of its sizes are known.
    bool begin(int index) {
      const PartSlot& slot = parts_.plan_.slots[index];
      TensorView& view = views_[index];
      describe(slot, view);
      if (slot.where == PartSlot::kOutput) {
        view.data = call_.memory ? call_.memory->allocate(call_.memory->context, slot.index)
                                 : call_.outputs[slot.index];
        return view.data || !call_.memory;
      }
      int64_t span = 1;
      for (int d = 0; d < view.rank; ++d) {
        if (view.sizes[d] == 0) return true;
        span += (view.sizes[d] - 1) * view.strides[d];
      }
      view.data = parts_.memory_.allocate(view.device, span * bytes(view.dtype));
      return view.data != nullptr;
    }
    void end(int index) {
      if (parts_.plan_.slots[index].where != PartSlot::kTemporary || !views_[index].data) return;
      parts_.memory_.free(views_[index].device, views_[index].data);
      views_[index].data = nullptr;
    }

   private:
    void describe(const PartSlot& slot, TensorView& view) {
      const size_t rank = slot.type.sizes.size(), at = dims_.size();
      for (const SizeExpr& size : slot.type.sizes) dims_.push_back(size.evaluate(call_.symbols));
      for (const SizeExpr& stride : slot.type.strides) dims_.push_back(stride.evaluate(call_.symbols));
      view = {.data = slot.where == PartSlot::kInput ? call_.inputs[slot.index].data : nullptr,
              .sizes = dims_.data() + at,
              .strides = dims_.data() + at + rank,
              .rank = static_cast<int32_t>(rank),
              .dtype = slot.type.dtype,
              .device = slot.type.device};
    }

    const PartsExecutable& parts_;
    const Call& call_;
    absl::InlinedVector<TensorView, 16> views_;
    absl::InlinedVector<int64_t, 64> dims_;  // of all views; never grows beyond what was reserved
  };

  // Within the host nothing else is asked: a program of NumPy's has no framework.
  bool copy(const TensorView& from, const TensorView& to, RunError* error) const {
    if (!(from.device == Device{}) || !(to.device == Device{})) return memory_.copy(from, to, error);
    copy_on_host(from, static_cast<const char*>(from.data), to, static_cast<char*>(to.data), 0);
    return true;
  }
  static void copy_on_host(const TensorView& from, const char* source, const TensorView& to, char* target,
                           int dim) {
    const int64_t width = bytes(from.dtype);
    if (dim == from.rank) {
      std::memcpy(target, source, static_cast<size_t>(width));
    } else if (dim == from.rank - 1 && from.strides[dim] == 1 && to.strides[dim] == 1) {
      std::memcpy(target, source, static_cast<size_t>(from.sizes[dim] * width));
    } else {
      for (int64_t i = 0; i < from.sizes[dim]; ++i)
        copy_on_host(from, source + i * from.strides[dim] * width, to, target + i * to.strides[dim] * width,
                     dim + 1);
    }
  }

  bool read_symbol(const PartStep& step, const Call& call, const TensorView& number, RunError* error) const {
    union {
      int64_t integer;
      double real;
    } host;
    const TensorView cell{.data = &host, .dtype = number.dtype};
    if (!copy(number, cell, error)) return false;
    const bool is_real = number.dtype == DType::kF64;
    // Beyond this a double is no int64; what is no number is not within either.
    constexpr double kLargest = 9.2e18;
    const bool fits = !is_real || std::abs(host.real) < kLargest;
    const int64_t value = !fits ? 0 : is_real ? static_cast<int64_t>(host.real) : host.integer;
    call.read_symbols[step.symbol] = value;
    if (!fits || value < step.min || value > step.max) {
      *error = {RunError::kUnexpectedNumber,
                "a number that was read is out of the range that was compiled for"};
      return false;
    }
    const char* broken = step.broken_assumption ? step.broken_assumption(call.symbols) : nullptr;
    if (!broken) return true;
    *error = {RunError::kUnexpectedNumber,
              std::string("a number that was read is none that was compiled for: ") + broken};
    return false;
  }

  bool run_step(const PartStep& step, const Call& call, const Tensors& tensors, RunError* error) const {
    if (step.symbol >= 0) return read_symbol(step, call, tensors.view(step.from), error);
    if (!step.executable) {
      const TensorView &from = tensors.view(step.from), &to = tensors.view(step.to);
      for (int d = 0; d < from.rank; ++d)
        if (from.sizes[d] == 0) return true;
      return copy(from, to, error);
    }
    absl::InlinedVector<TensorView, 16> inputs;
    absl::InlinedVector<void*, 16> outputs;
    for (int slot : step.inputs) inputs.push_back(tensors.view(slot));
    for (int slot : step.outputs) outputs.push_back(tensors.view(slot).data);
    const Call part{
        .inputs = inputs.data(), .symbols = call.symbols, .outputs = outputs.data(), .library = call.library};
    return step.executable->run(part, error);
  }

  const PartsPlan plan_;
  const DeviceMemory& memory_;
  const std::vector<Lives> lives_;
};

}  // namespace

std::unique_ptr<Executable> make_parts_executable(PartsPlan plan, const DeviceMemory& memory) {
  return std::make_unique<PartsExecutable>(std::move(plan), memory);
}

}  // namespace cdynamo::runtime
