// Masked loads and stores of 32 and 64 bits as x86 has them without AVX-512: vmaskmov, register by register.
//
// LLVM 19 goes wrong where lanes of a mask become constant while it takes a vector of several registers apart: a load of 16
// floats under `c & (lane >= 8)` reads the first eight whatever `c` is, for their mask is then a 1 without the sign bit that the
// instruction looks at, and a later step takes it for lanes that are on.
#pragma once

namespace llvm {
class Module;
class TargetMachine;
}  // namespace llvm

namespace cdynamo::runtime {

// After the last pass that knows the generic intrinsics. Modules of other targets stay as they are.
void take_masked_memory_apart(llvm::Module& module, const llvm::TargetMachine& machine);

}  // namespace cdynamo::runtime
