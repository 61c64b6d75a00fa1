// Graphs of several devices, with the CPU playing each of them.
#include "lowering/device_parts.h"

#include "graph/passes.h"
#include "lowering/cpu/target.h"
#include "tests/lowering/lowering_test_util.h"

namespace cdynamo::lowering::testing {
namespace {

using graph::Tensor;
using runtime::Device;

constexpr Device kCpu{}, kFirst{runtime::DeviceType::kCUDA, 0}, kSecond{runtime::DeviceType::kCUDA, 1};

// Counts what each device is asked for.
class HostMemory final : public runtime::DeviceMemory {
 public:
  void* allocate(Device, int64_t bytes) const override {
    ++blocks;
    return std::aligned_alloc(64, static_cast<size_t>(bytes + 63) / 64 * 64);
  }
  void free(Device, void* data) const override {
    --blocks;
    std::free(data);
  }
  bool copy(const runtime::TensorView& from, const runtime::TensorView& to,
            runtime::RunError*) const override {
    ++copies;
    std::vector<int64_t> at(static_cast<size_t>(from.rank));
    for (bool more = true; more;) {
      int64_t source = 0, target = 0;
      for (int d = 0; d < from.rank; ++d) source += at[d] * from.strides[d], target += at[d] * to.strides[d];
      const int bytes = runtime::bytes(from.dtype);
      std::memcpy(static_cast<char*>(to.data) + target * bytes,
                  static_cast<const char*>(from.data) + source * bytes, static_cast<size_t>(bytes));
      more = false;
      for (int d = from.rank; d-- > 0 && !more;) {
        more = ++at[d] < from.sizes[d];
        if (!more) at[d] = 0;
      }
    }
    return true;
  }
  mutable int blocks = 0, copies = 0;
};

class DevicePartsTest : public ::testing::Test {
 protected:
  Graph graph;
  Builder builder{graph, graph::Level::kCore};
  std::vector<DenseTensor> inputs;
  std::mt19937 rng{7};
  HostMemory memory;

  Tensor input(Device device, std::vector<Sym> sizes, DType dtype = DType::kF32) {
    graph::TensorType type = tensor_type(sizes, dtype);
    type.device = device;
    std::vector<int64_t> hints;
    for (const Sym& size : sizes) hints.push_back(graph.sym->hint(size));
    inputs.push_back(random_tensor(dtype, hints, rng));
    return graph::wrap(builder, graph.add_input(type, "x" + std::to_string(graph.inputs.size())));
  }
  void output(Tensor x) { graph.outputs.push_back(x.value); }
  void check() {
    static const auto target = [](Device) -> const Target& { return cpu_target(); };
    run_and_compare(
        graph, [&](CompileReport* report) { return compile_parts(graph, {target, memory}, {}, report); },
        inputs);
    EXPECT_EQ(memory.blocks, 0);
  }
};

TEST_F(DevicePartsTest, OneDeviceIsNoParts) {
  output(input(kFirst, {4, 5}) + 1.0);
  EXPECT_TRUE(device_of(graph) == kFirst);
}

TEST_F(DevicePartsTest, ANumberOfTheCpuIsSent) {
  Tensor x = input(kFirst, {4, 5}), number = input(kCpu, {}, DType::kF64);
  output(x * number + 1.0);
  EXPECT_TRUE(graph.outputs[0]->type.device == kFirst);
  EXPECT_FALSE(device_of(graph));
  check();
  EXPECT_EQ(memory.copies, 2);  // one a run
}

TEST_F(DevicePartsTest, ThereAndBack) {
  Sym n = graph.sym->new_symbol("n", 6);
  Tensor x = input(kCpu, {n, 3}), weight = input(kFirst, {3, 4});
  Tensor there = to_device(sin(x), kFirst);
  Tensor product = matmul(there, weight) + 1.0;
  output(to_device(product, kCpu) * 2.0);
  output(product);
  output(there);
  check();
}

TEST_F(DevicePartsTest, SeveralDevices) {
  Tensor x = input(kFirst, {4, 4}), y = input(kSecond, {4, 4});
  Tensor a = x * 2.0, b = y + to_device(a, kSecond), c = exp(x) + to_device(b, kFirst);
  output(b);
  output(c);
  output(a);
  output(c);
  check();
}

TEST_F(DevicePartsTest, WritesComeWhenAllIsRead) {
  Tensor step = input(kCpu, {}), weight = input(kFirst, {7}), momentum = input(kFirst, {7});
  Tensor next = step + 1.0, moved = momentum * 0.9 + weight;
  Tensor updated = weight - moved * to_device(next, kFirst);
  output(updated + momentum);
  output(to_device(weight, kCpu) + step);
  graph.mutations = {{0, next.value}, {1, updated.value}, {2, moved.value}};
  check();
}

TEST_F(DevicePartsTest, OutputsThatAreInputsOrCopies) {
  Tensor x = input(kFirst, {3, 2}), y = input(kCpu, {2});
  output(x);
  output(to_device(x, kCpu));
  output(y);
  output(to_device(y, kFirst) + x);
  check();
}

TEST_F(DevicePartsTest, WhatIsMadeFromNothingIsMadeThere) {
  Tensor x = input(kFirst, {3, 2});
  output(x + to_device(full(builder, {2}, 2.0, DType::kF32), kFirst));
  graph::eliminate_dead_code(graph);
  EXPECT_TRUE(device_of(graph) == kFirst);
}

TEST_F(DevicePartsTest, TensorsOfTwoDevicesInOneOperatorAreRefused) {
  Tensor x = input(kFirst, {3}), y = input(kCpu, {3});
  EXPECT_ANY_THROW(x + y);
  EXPECT_THROW(matmul(input(kFirst, {2, 2}), input(kCpu, {2, 2})), graph::Unsupported);
}

}  // namespace
}  // namespace cdynamo::lowering::testing
