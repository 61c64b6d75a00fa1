// PTX through NVIDIA's assembler, where CDYNAMO_PTXAS names one (tools/ptxas.sh).
#pragma once

#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>

#include "lowering/gpu/emit.h"

namespace cdynamo::lowering::testing {

inline const char* ptxas() {
  static const char* path = std::getenv("CDYNAMO_PTXAS");
  return path && *path ? path : nullptr;
}

// What the assembler says of what it refuses; empty where it takes it.
inline std::string refused_by_ptxas(const std::string& ptx, int compute_capability) {
  char name[] = "/tmp/cdynamo-ptx-XXXXXX";
  const int file = mkstemp(name);
  if (file < 0) return "no temporary file";
  close(file);
  std::ofstream(name) << ptx;
  const std::string command = std::string("'") + ptxas() + "' -arch=sm_" +
                              std::to_string(compute_capability) + " -o /dev/null " + name + " 2>&1";
  std::string said;
  FILE* pipe = popen(command.c_str(), "r");
  if (!pipe) return "popen failed";
  char part[4096];
  while (size_t bytes = fread(part, 1, sizeof part, pipe)) said.append(part, bytes);
  const int status = pclose(pipe);
  std::filesystem::remove(name);
  if (status == 0) return "";
  return said.empty() ? "it ended with " + std::to_string(status) : said;
}

// One kernel's PTX, for two generations of GPUs in turn. Throws what the assembler says.
inline void check_ptx(const ScheduledKernel& kernel, const gpu::ThreadPlan& plan,
                      gpu::Architecture architecture) {
  if (!ptxas()) return;
  static std::atomic<int> count{0};
  architecture.compute_capability = count++ % 2 ? 90 : 80;
  gpu::KernelCode code;
  const std::string ptx = gpu::emit_ptx(kernel, plan, architecture, &code);
  const std::string refused = refused_by_ptxas(ptx, architecture.compute_capability);
  if (!refused.empty()) throw std::runtime_error(refused + "\n" + print(kernel) + "\n" + ptx);
}

}  // namespace cdynamo::lowering::testing
