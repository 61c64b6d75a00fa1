#include "tests/ext/emulated_target.h"

#include <cstdlib>
#include <string_view>

#include "lowering/compile.h"
#include "tests/lowering/emulated_gpu.h"

namespace cdynamo::test_hooks {

void choose_target() {
  const char* name = std::getenv("CDYNAMO_TEST_TARGET");
  if (name && std::string_view(name) == "emulated-gpu")
    lowering::replace_cpu_target(&lowering::testing::emulated_gpu_target());
}

}  // namespace cdynamo::test_hooks
