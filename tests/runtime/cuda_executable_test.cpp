// What an executable asks of the driver: faults of kernels as a call reports them, variants that are timed. The driver here only says
// that something happened.
#include <gmock/gmock.h>
#include <unistd.h>

#include <cstdlib>
#include <map>
#include <optional>

#include "runtime/cuda/cuda_executable.h"
#include "runtime/cuda/torch_memory.h"
#include "runtime/host/kernel_cache.h"

// What PyTorch exports (torch/csrc/inductor/aoti_torch/c/shim.h).
#define CDYNAMO_EXPORTED extern "C" __attribute__((visibility("default")))
CDYNAMO_EXPORTED int32_t aoti_torch_get_current_cuda_stream(int32_t, void** stream) {
  return *stream = nullptr, 0;
}
CDYNAMO_EXPORTED int32_t aoti_torch_cuda_caching_allocator_raw_alloc(uint64_t bytes, void** data) {
  return *data = std::malloc(bytes), 0;
}
CDYNAMO_EXPORTED int32_t aoti_torch_cuda_caching_allocator_raw_delete(void* data) {
  return std::free(data), 0;
}

namespace cdynamo::runtime::cuda {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;

constexpr Result kIllegalAddress = 700;

struct FakeDriver {
  Result launch_result = kSuccess, wait_result = kSuccess;
  int launches = 0, waits = 0;
  const void* launched = nullptr;
  bool notes_pointers = false;
  std::vector<uint64_t> pointers;             // the first of each launch outside of recordings
  std::map<const void*, float> milliseconds;  // that kernels take; others take 1
  int64_t index = 0;                          // that a kernel finds out of range; 0: none
  int64_t slot[8] = {};
};
FakeDriver fake;

void put_fake_driver() {
  static const bool put = [] {
    Driver driver{};
    driver.get_error_name = [](Result, const char** name) { return *name = "CUDA_ERROR", kSuccess; };
    driver.get_error_string = [](Result, const char** text) { return *text = "illegal access", kSuccess; };
    driver.device_get = [](int* device, int) { return *device = 0, kSuccess; };
    driver.device_get_attribute = [](int* value, int, int) { return *value = 9, kSuccess; };
    driver.device_primary_ctx_retain = [](Context* context, int) { return *context = nullptr, kSuccess; };
    driver.ctx_get_current = [](Context* context) { return *context = nullptr, kSuccess; };
    driver.mem_alloc = [](DevicePointer* data, size_t) { return *data = 64, kSuccess; };
    driver.mem_host_alloc = [](void** data, size_t, unsigned) { return *data = fake.slot, kSuccess; };
    driver.mem_host_get_device_pointer = [](DevicePointer* address, void*, unsigned) {
      return *address = 64, kSuccess;
    };
    driver.stream_is_capturing = [](Stream, int* status) { return *status = 0, kSuccess; };
    driver.stream_synchronize = [](Stream) { return ++fake.waits, fake.wait_result; };
    driver.event_create = [](Event* event, unsigned) { return *event = nullptr, kSuccess; };
    driver.event_record = [](Event, Stream) { return kSuccess; };
    driver.event_synchronize = [](Event) { return kSuccess; };
    driver.event_destroy = [](Event) { return kSuccess; };
    driver.event_elapsed_time = [](float* took, Event, Event) {
      const auto found = fake.milliseconds.find(fake.launched);
      return *took = found == fake.milliseconds.end() ? 1 : found->second, kSuccess;
    };
    driver.launch_kernel = [](Function function, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                              unsigned, Stream, void** parameters, void**) {
      ++fake.launches;
      fake.launched = function;
      if (!Recording::current() && fake.notes_pointers)
        fake.pointers.push_back(*static_cast<uint64_t*>(parameters[0]));
      if (fake.index) {
        const int64_t codes[3] = {RunError::kIndexError, fake.index, 4};
        std::copy_n(codes, 3, fake.slot);
      }
      return fake.launch_result;
    };
    replace_driver(driver);
    return true;
  }();
  (void)put;
}

class CudaDebug : public ::testing::Test {
 protected:
  CudaDebug() {
    put_fake_driver();
    fake = {};
  }

  // Two kernels, of which the second checks indices.
  static std::unique_ptr<Executable> make(bool debugs) {
    Plan plan;
    plan.debugs = debugs;
    plan.replays_launches = true;
    plan.sizes = {SizeExpr{.constant = 1}, SizeExpr{}};
    const Launch launch{.code = &fake, .items = 0, .scratch_bytes = 1, .block = {.threads = 32}};
    plan.steps = {{.name = "fused_sin", .origin = "model.py:11", .launch = launch},
                  {.name = "index", .origin = "model.py:12, model.py:14", .launch = launch}};
    plan.steps[1].launch.block.takes_error = true;
    return make_cuda_executable(std::move(plan), 0, device_info(0));
  }
  RunError run(Executable& executable) {
    RunError error;
    done = executable.run({}, &error);
    return error;
  }
  bool done = false;
};

using CudaVariants = CudaDebug;

TEST_F(CudaVariants, TheFastestIsTimedOnceAndKept) {
  static const char code[3] = {};
  const std::string key = "variants of a test " + std::to_string(getpid());
  Plan plan;
  plan.sizes = {SizeExpr{.constant = 1}, SizeExpr{}, SizeExpr{.constant = 256}};
  plan.buffers = {{.offset = 1, .bytes = 2}};
  plan.arena_bytes = 2;
  const auto launch = [](const char* of) {
    return Launch{.code = of, .items = 0, .scratch_bytes = 1, .block = {.threads = 32}};
  };
  plan.steps = {{.name = "sum", .buffers = {0}, .launch = launch(&code[0])}};
  plan.steps[0].variants = {launch(&code[1]), launch(&code[2])};
  plan.steps[0].variants_key = key;
  plan.steps[0].overwritten = {0};
  fake.notes_pointers = true;
  fake.milliseconds = {{&code[0], 3.0F}, {&code[1], 0.5F}, {&code[2], 2.0F}};
  const std::unique_ptr<Executable> executable = make_cuda_executable(std::move(plan), 0, device_info(0));
  {  // what is recorded is not timed
    const Recording recording(nullptr, nullptr);
    run(*executable);
  }
  EXPECT_EQ(fake.launches, 1);
  EXPECT_EQ(fake.launched, &code[0]);
  run(*executable);
  EXPECT_EQ(fake.launched, &code[1]);
  EXPECT_GT(fake.launches, 10);
  // The trials write to memory of their own.
  EXPECT_NE(fake.pointers.front(), fake.pointers.back());
  EXPECT_EQ(std::ranges::count(fake.pointers, fake.pointers.back()), 1);
  EXPECT_EQ(KernelCache::process().get(key), "1");
  fake.launches = 0;
  run(*executable);
  EXPECT_EQ(fake.launches, 1);
}

TEST_F(CudaDebug, AFaultNamesItsKernelAndItsLines) {
  fake.wait_result = kIllegalAddress;
  const RunError error = run(*make(true));
  EXPECT_FALSE(done);
  EXPECT_EQ(error.message, "kernel fused_sin (model.py:11): illegal access (CUDA_ERROR)");
  EXPECT_TRUE(error.of_earlier_call);  // Python would fail too
  EXPECT_EQ(fake.launches, 1);
}

TEST_F(CudaDebug, EachKernelIsWaitedForOnlyThen) {
  run(*make(false));
  EXPECT_TRUE(done);
  EXPECT_EQ(fake.waits, 0);
  run(*make(true));
  EXPECT_TRUE(done);
  EXPECT_EQ(fake.waits, 2);
}

TEST_F(CudaDebug, OtherwiseALaterLaunchSaysHowToFindIt) {
  fake.launch_result = kIllegalAddress;
  const RunError error = run(*make(false));
  EXPECT_FALSE(done);
  EXPECT_THAT(error.message, HasSubstr("CDYNAMO_DEBUG=1"));
  EXPECT_TRUE(error.of_earlier_call);
}

TEST_F(CudaDebug, AnIndexOutOfRangeIsTheErrorOfItsCall) {
  fake.index = 7;
  const RunError error = run(*make(true));
  EXPECT_EQ(error.kind, RunError::kIndexError);
  EXPECT_THAT(error.message, EndsWith("size 4, in kernel index (model.py:12, model.py:14)"));
}

TEST_F(CudaDebug, AnIndexOutOfRangeIsTheErrorOfTheNextCall) {
  fake.index = 7;
  const std::unique_ptr<Executable> executable = make(false);
  run(*executable);
  EXPECT_TRUE(done);
  EXPECT_THAT(run(*executable).message, HasSubstr("CDYNAMO_DEBUG=1"));
}

}  // namespace
}  // namespace cdynamo::runtime::cuda
