// CDYNAMO_TEST_TARGET=emulated-gpu: what is compiled for the CPU is scheduled and emitted as for a GPU and runs in the
// emulator of the C++ tests (tests/lowering/emulated_gpu.h). Only the framework's own calls are the CPU's.
#pragma once

namespace cdynamo::test_hooks {

void choose_target();

}  // namespace cdynamo::test_hooks
