#include "runtime/plan_step.h"

#include <absl/container/inlined_vector.h>

#include <new>
#include <string>

namespace cdynamo::runtime {

std::vector<StepLives> find_lives(const Plan& plan, const std::vector<int>& segment_of) {
  std::vector<StepLives> lives(segment_of.empty() ? 0 : segment_of.back() + 1);
  std::vector<int> first(plan.buffers.size(), -1), last(plan.buffers.size(), -1);
  for (size_t i = 0; i < plan.steps.size(); ++i) {
    auto use = [&](int buffer) {
      if (buffer < 0) return;
      if (first[buffer] < 0) first[buffer] = segment_of[i];
      last[buffer] = segment_of[i];
    };
    for (int buffer : plan.steps[i].buffers) use(buffer);
    for (const PlanOperand& operand : plan.steps[i].operands) use(operand.buffer);
  }
  for (int buffer = 0; buffer < static_cast<int>(plan.buffers.size()); ++buffer) {
    if (first[buffer] < 0) continue;
    switch (plan.buffers[buffer].where) {
      case PlanBuffer::kOutput: lives[first[buffer]].first_writes.push_back(buffer); break;
      case PlanBuffer::kInput: lives[last[buffer]].last_reads.push_back(buffer); break;
      case PlanBuffer::kArena:
      case PlanBuffer::kFromLibrary:
        lives[first[buffer]].begins.push_back(buffer);
        lives[last[buffer]].ends.push_back(buffer);
    }
  }
  return lives;
}

bool out_of_memory(RunError* error) {
  *error = {RunError::kMemoryError, "not enough memory for the intermediate results of a compiled graph"};
  return false;
}

bool index_error(const int64_t* code, RunError* error) {
  *error = {static_cast<RunError::Kind>(code[0]), "index " + std::to_string(code[1]) +
                                                      " is out of bounds for dimension with size " +
                                                      std::to_string(code[2])};
  return false;
}

std::string describe(const PlanStep& step) {
  const std::string name = (step.library ? "call of " : "kernel ") + step.name;
  return step.origin.empty() ? name : name + " (" + step.origin + ")";
}

bool run_library_step(const PlanStep& step, Device device, const int64_t* sizes, void* const* pointers,
                      LibraryCallbacks* callbacks, BroughtMemory* const* brought, RunError* error) {
  size_t dims_needed = 0;
  for (const PlanOperand& operand : step.operands) dims_needed += 2 * operand.sizes.size();
  absl::InlinedVector<int64_t, 64> all_dims(dims_needed);
  absl::InlinedVector<TensorView, 8> views(step.operands.size());
  int64_t* dims = all_dims.data();
  for (size_t i = 0; i < step.operands.size(); ++i) {
    const PlanOperand& operand = step.operands[i];
    const size_t rank = operand.sizes.size();
    views[i] = {.dtype = operand.dtype, .device = device};
    if (operand.buffer < 0) continue;
    for (size_t d = 0; d < rank; ++d) {
      dims[d] = sizes[operand.sizes[d]];
      dims[rank + d] = sizes[operand.strides[d]];
    }
    const bool brings = brought && static_cast<int>(i) >= step.num_inputs && brought[i - step.num_inputs];
    char* data =
        brings ? nullptr
               : static_cast<char*>(pointers[operand.buffer]) + sizes[operand.offset] * bytes(operand.dtype);
    views[i] = {.data = data,
                .sizes = dims,
                .strides = dims + rank,
                .rank = static_cast<int32_t>(rank),
                .dtype = operand.dtype,
                .device = device};
    dims += 2 * rank;
  }
  absl::InlinedVector<int64_t, 32> integers;
  for (SizeId id : step.integers) integers.push_back(sizes[id]);
  const LibraryArgs args{.operands = views.data(),
                         .num_inputs = step.num_inputs,
                         .num_operands = static_cast<int>(step.operands.size()),
                         .integers = integers.data(),
                         .num_integers = static_cast<int>(step.integers.size()),
                         .numbers = step.numbers.data(),
                         .text = step.text,
                         .user_call = step.user_call,
                         .callbacks = callbacks,
                         .brought = brought};
  try {
    return step.library(args, error);
  } catch (const std::bad_alloc&) {
    return out_of_memory(error);
  }
}

}  // namespace cdynamo::runtime
