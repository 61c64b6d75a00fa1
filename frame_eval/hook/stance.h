// The stance: what optimized callables do, as cdynamo.set_stance or torch.compiler.set_stance says.
#pragma once

#include <cstdint>

namespace cdynamo::frame_eval {

// Values are those of cdynamo.config's "stance" (python/cdynamo/_api.py).
enum class Stance : uint8_t {
  kDefault,
  kForceEager,        // everything runs in Python
  kEagerOnRecompile,  // what is compiled runs; other calls run in Python
  kFailOnRecompile,   // ... raise RuntimeError
  kEagerThenCompile,  // the first call of a function runs in Python
};
// cdynamo's own, and where that is kDefault, torch's.
Stance current_stance();

}  // namespace cdynamo::frame_eval
