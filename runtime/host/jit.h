// The process's JIT: LLVM IR to object code, object code to callable code. No LLVM header is needed to
// include this.
//
//   std::string object = compile("kernel_0", [&](llvm::Module& module) { ... });
//   std::unique_ptr<LoadedCode> code = load_object(object, {"kernel_0"});
//   auto run = reinterpret_cast<HostKernelFn>(code->address(0));      // valid until `code` is dropped
//
// Everything here is safe to call from several threads, and nothing here ends the process: what LLVM refuses
// or would abort on becomes a JitError.
#pragma once

#include <absl/functional/function_ref.h>

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/codegen/llvm_compile.h"

namespace cdynamo::runtime {

// What code is generated for here. Two processes with equal `key()` can run each other's object code.
struct HostTarget : CodeTarget {
  int vector_bytes = 16;  // of the registers that emission uses: 64 with AVX-512, 32 with AVX2
  bool has_fma = false;
  bool has_avx512 = false;  // F, BW, DQ and VL: masks and 64-byte registers
};
const HostTarget& host_target();

// The object code of the module that `emit` fills, after the pass pipeline and code generation. `assembly` and
// `optimized_ir`, where not null, get the text too.
std::string compile(const std::string& name, absl::FunctionRef<void(llvm::Module&)> emit,
                    std::string* assembly = nullptr, std::string* optimized_ir = nullptr);

// Machine code in this process; dropping it frees the memory.
class LoadedCode {
 public:
  virtual ~LoadedCode() = default;
  void* address(size_t i) const { return addresses_[i]; }
  size_t size() const { return addresses_.size(); }

 protected:
  std::vector<void*> addresses_;
};

// Links an object and resolves `symbols` in it. The object may refer to symbols given to `define_symbols`
// only. With CDYNAMO_PERF_MAP set, profilers see the code under `display_name`.
std::unique_ptr<LoadedCode> load_object(std::string_view object, const std::vector<std::string>& symbols,
                                        const std::string& display_name = "kernel");

// Functions of ours that generated code may call, by name. A name given again with the same address is
// ignored.
void define_symbols(std::span<const std::pair<const char*, void*>> symbols);

}  // namespace cdynamo::runtime
