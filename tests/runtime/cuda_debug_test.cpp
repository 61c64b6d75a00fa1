// Faults of kernels as a call reports them, with a driver that only says that something happened.
#include <gmock/gmock.h>

#include "runtime/cuda/cuda_executable.h"
#include "runtime/cuda/torch_memory.h"

namespace cdynamo::runtime::cuda {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;

constexpr Result kIllegalAddress = 700;

struct FakeDriver {
  Result launch_result = kSuccess, wait_result = kSuccess;
  int launches = 0, waits = 0;
  int64_t index = 0;  // that a kernel finds out of range; 0: none
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
    driver.launch_kernel = [](Function, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                              Stream, void**, void**) {
      ++fake.launches;
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
  // On a stream of its own: there is no framework.
  RunError run(Executable& executable) {
    RunError error;
    const auto stream = reinterpret_cast<Stream>(&fake);
    const Recording recording(stream, stream);
    done = executable.run({}, &error);
    return error;
  }
  bool done = false;
};

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
