// LLVM as a function: a module that the caller fills becomes object code or assembly for a target. No LLVM header is needed to
// include this.
//
//   std::string ptx = compile(target, CodeForm::kAssembly, "kernel_0", [&](llvm::Module& module) { ... });
//
// Everything here is safe to call from several threads, and nothing here ends the process: what LLVM refuses or would
// abort on becomes a JitError.
#pragma once

#include <absl/functional/function_ref.h>

#include <exception>
#include <string>
#include <utility>

namespace llvm {
class Module;
class Error;
}  // namespace llvm

namespace cdynamo::runtime {

struct JitError : std::exception {
  explicit JitError(std::string message) : message(std::move(message)) {}
  const char* what() const noexcept override { return message.c_str(); }
  std::string message;
};

// An error that LLVM would have ended the process with. What was called of LLVM cannot be called again.
struct FatalError : JitError {
  using JitError::JitError;
};

struct CodeTarget {
  std::string triple, cpu, features;
  std::string key() const { return triple + "|" + cpu + "|" + features; }
};

enum class CodeForm { kObject, kAssembly };

// The code of the module that `emit` fills, after the pass pipeline and code generation. `assembly` and
// `optimized_ir`, where not null, get the text too.
std::string compile(const CodeTarget& target, CodeForm form, const std::string& name,
                    absl::FunctionRef<void(llvm::Module&)> emit, std::string* assembly = nullptr,
                    std::string* optimized_ir = nullptr);

// LLVM's targets and error handlers; `compile` sees to it by itself.
void initialize_llvm();

// The one adapter of LLVM's errors: throws JitError with `what` and LLVM's message where there is one.
void check_llvm(llvm::Error error, const char* what);

}  // namespace cdynamo::runtime
