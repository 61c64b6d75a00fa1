// Executable: a compiled graph, run on the caller's buffers. It knows no Python and no framework.
//
// The caller gives one TensorView for each graph input, the values of the size symbols, and a buffer for each
// fresh output (sizes and strides from output_specs). Intermediates live in one arena a call.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "runtime/types.h"

namespace cdynamo::runtime {

// An integer computed from the size symbols: a constant, or a postfix program.
struct SizeExpr {
  enum Code : int64_t { kConst, kSymbol, kAdd, kMul, kFloorDiv, kMod, kMin, kMax };
  std::vector<int64_t> program;  // (code, operand) pairs; empty: `constant`
  int64_t constant = 0;
  bool is_constant() const { return program.empty(); }
  int64_t evaluate(const int64_t* symbols) const;
};

struct OutputSpec {
  DType dtype = DType::kF32;
  Device device;
  std::vector<SizeExpr> sizes, strides;
};

struct RunError {
  enum Kind : uint8_t {
    kNone,
    kIndexError,
    kRuntimeError,
    kMemoryError,
    kPythonError,
    kDeviceMemoryError,  // a GPU's
    kUnexpectedNumber    // that was read from a tensor; nothing has been written
  } kind = kNone;
  std::string message;
  bool of_earlier_call = false;  // found out now, of kernels that had not run by then
  std::string remark;            // for the log, also where there is no error
};

// Memory that a library call took for a result, in the order that the plan foresaw, and who frees it.
class BroughtMemory {
 public:
  // What the owner is: a tensor of the framework's C interface, or an object of who is called back.
  enum Owner : uint8_t { kHandle, kObject };
  BroughtMemory() = default;
  BroughtMemory(void* data, void* owner, Owner kind, void (*free)(void* owner))
      : data_(data), owner_(owner), kind_(kind), free_(free) {}
  BroughtMemory(BroughtMemory&& other) noexcept { *this = std::move(other); }
  BroughtMemory& operator=(BroughtMemory&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(owner_, other.owner_);
    std::swap(kind_, other.kind_);
    std::swap(free_, other.free_);
    return *this;
  }
  ~BroughtMemory() {
    if (free_) free_(owner_);
  }
  void* data() const { return data_; }
  void* owner() const { return owner_; }
  Owner kind() const { return kind_; }
  // The owner is the caller's from here on.
  void* release() {
    free_ = nullptr;
    return owner_;
  }

 private:
  void *data_ = nullptr, *owner_ = nullptr;
  Owner kind_ = kHandle;
  void (*free_)(void* owner) = nullptr;
};

// Runs graph nodes that only the framework can: Node::user_call names the call. The outputs' views follow the inputs' in memory.
// Returns false with a Python error set.
struct LibraryCallbacks {
  const void* context = nullptr;
  bool (*call)(const void* context, int user_call, const TensorView* inputs, int num_inputs,
               TensorView* outputs, int num_outputs, BroughtMemory* const* brought) = nullptr;
};

// Memory that comes and goes while a plan runs, so that less of it is there at once. Called on the caller's thread, between steps.
struct MemoryCallbacks {
  void* context = nullptr;
  // The buffer of an output, right before the first step that writes it; null where memory ran out. Not called for outputs that no step
  // writes, as those without elements are.
  void* (*allocate)(void* context, int output) = nullptr;
  // No step to come reads the input. Never called for an input that is not read, nor when a step failed.
  // Null: inputs stay.
  void (*release)(void* context, int input) = nullptr;
  // In place of `allocate`, where a library call brings an output's memory; null: it never does. False where that failed.
  bool (*adopt)(void* context, int output, BroughtMemory memory) = nullptr;
};

struct Call {
  const TensorView* inputs = nullptr;
  const int64_t* symbols = nullptr;
  int64_t* read_symbols = nullptr;  // where Executable::reads_symbols: the same array
  void* const* outputs = nullptr;   // one a fresh output; the memory must not overlap the inputs'
  LibraryCallbacks* library = nullptr;
  MemoryCallbacks* memory = nullptr;  // in place of `outputs`, and frees inputs early
};

class Executable {
 public:
  virtual ~Executable() = default;
  // Safe to call from several threads at once. Releases no lock and takes none of Python's.
  virtual bool run(const Call& call, RunError* error) = 0;

  std::vector<OutputSpec> outputs;  // of the fresh outputs, in order
  int num_inputs = 0, num_symbols = 0;
  bool takes_long = false;  // static estimate: worth giving up a lock for
  bool allocates_late =
      false;  // had better be called with MemoryCallbacks: it needs less memory, or copies less
  // Numbers that it reads from tensors become symbols, and outputs may have sizes made of them: it is called with
  // MemoryCallbacks and Call::read_symbols.
  bool reads_symbols = false;
  // For LibraryCallbacks::context: what the library calls of the graph stand for, which lives as long as the code.
  std::shared_ptr<const void> library_context;
};

}  // namespace cdynamo::runtime
