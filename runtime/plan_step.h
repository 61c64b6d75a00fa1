// What every device's executable needs of a plan: when its buffers live, library steps, errors.
#pragma once

#include <vector>

#include "runtime/plan.h"

namespace cdynamo::runtime {

// What begins and ends with a segment of a plan (steps that run together): indices of plan buffers.
struct StepLives {
  std::vector<int> first_writes, last_reads;  // outputs that begin here, inputs that end
  std::vector<int> begins, ends;              // of the arena
};
// `segment_of`: of each step, ascending.
std::vector<StepLives> find_lives(const Plan& plan, const std::vector<int>& segment_of);

// `sizes`: values of the plan's expressions; `pointers`: one a plan buffer.
// `brought`: by output, as LibraryArgs has it.
bool run_library_step(const PlanStep& step, Device device, const int64_t* sizes, void* const* pointers,
                      LibraryCallbacks* callbacks, BroughtMemory* const* brought, RunError* error);

// These fill in the error, and are false.
bool out_of_memory(RunError* error);
bool index_error(const int64_t* code, RunError* error);  // of a kernel's three error codes

// For errors: "kernel fused_exp_sum (model.py:12)".
std::string describe(const PlanStep& step);

}  // namespace cdynamo::runtime
