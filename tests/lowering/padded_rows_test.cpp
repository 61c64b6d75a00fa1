// Long reductions in blocks of which the last is not full: what lies past the end of an input is not read, whosoever memory it is.
#include <sys/mman.h>
#include <unistd.h>

#include <numeric>

#include "tests/lowering/emulated_gpu.h"
#include "tests/lowering/lowering_test_util.h"

namespace cdynamo::lowering {
namespace {

using namespace testing;
using graph::Tensor;

// Memory that ends where a page begins that nobody may touch.
class GuardedTensor {
 public:
  explicit GuardedTensor(const graph::TensorType& type) : dtype_(type.dtype) {
    for (const Sym& size : type.sizes) sizes_.push_back(size.constant());
    for (const Sym& stride : type.strides) strides_.push_back(stride.constant());
    const size_t page = sysconf(_SC_PAGESIZE), guard = 256 * page;
    const size_t bytes =
        std::accumulate(sizes_.begin(), sizes_.end(), runtime::bytes(dtype_), std::multiplies<>());
    const size_t span = (bytes + page - 1) / page * page;
    mapped_ = span + guard;
    base_ = static_cast<char*>(
        mmap(nullptr, mapped_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    if (base_ == MAP_FAILED || mprotect(base_ + span, guard, PROT_NONE) != 0) throw std::bad_alloc();
    data_ = base_ + (span - bytes) / 16 * 16;
  }
  ~GuardedTensor() { munmap(base_, mapped_); }
  GuardedTensor(const GuardedTensor&) = delete;
  void* data() const { return data_; }
  runtime::TensorView view() const {
    return {.data = data_,
            .sizes = sizes_.data(),
            .strides = strides_.data(),
            .rank = static_cast<int32_t>(sizes_.size()),
            .dtype = dtype_};
  }

 private:
  DType dtype_;
  std::vector<int64_t> sizes_, strides_;
  size_t mapped_ = 0;
  char *base_ = nullptr, *data_ = nullptr;
};

void run_guarded(const Graph& graph, const Target& target) {
  CompileReport report;
  std::unique_ptr<runtime::Executable> executable = compile_for(target, graph, {}, &report);
  std::vector<std::unique_ptr<GuardedTensor>> tensors;
  std::vector<runtime::TensorView> inputs;
  std::vector<void*> outputs;
  for (const Value* value : graph.inputs) {
    tensors.push_back(std::make_unique<GuardedTensor>(value->type));
    inputs.push_back(tensors.back()->view());
  }
  for (const Value* value : graph.outputs) {
    tensors.push_back(std::make_unique<GuardedTensor>(value->type));
    outputs.push_back(tensors.back()->data());
  }
  runtime::RunError error;
  const int64_t symbols[1] = {};
  EXPECT_TRUE(
      executable->run({.inputs = inputs.data(), .symbols = symbols, .outputs = outputs.data()}, &error));
}

// Layer norm's backward: sums over a prime number of rows, beside values of each row that are stored on the way.
Graph& normalization(Graph& graph, int64_t batch, int64_t rows, int64_t columns) {
  Builder b(graph, graph::Level::kCore);
  const auto input = [&](std::vector<Sym> sizes, DType dtype) {
    return graph::wrap(b, graph.add_input(tensor_type(std::move(sizes), dtype), "x"));
  };
  const std::vector<Sym> all = {batch, rows, columns};
  const Tensor grad = cast(reshape(input({batch * rows, columns}, DType::kBF16), all), DType::kF32);
  const Tensor x = cast(input(all, DType::kBF16), DType::kF32);
  const Tensor sums = reshape(input({batch, rows}, DType::kF32), {batch, rows, 1});
  const Tensor scale = reshape(input({batch, rows}, DType::kF32), {batch, rows, 1});
  const Tensor weight = cast(input({columns}, DType::kBF16), DType::kF32);
  const Tensor centred = x - expand(sums / static_cast<double>(columns), all);
  const Tensor weighted = grad * expand(weight, all);
  graph.outputs = {sum(grad, {0, 1}).value, sum(grad * (centred * expand(scale, all)), {0, 1}).value,
                   (weighted * centred).value, (centred * 2.0).value};
  for (Value* output : graph.outputs) output->type.strides = graph::contiguous_strides(output->type.sizes);
  return graph;
}

TEST(PaddedRows, NothingPastTheEndIsRead) {
  static const EmulatedGpuTarget large_gpu(
      {.compute_capability = 90, .processors = 132, .shared_bytes_per_block = 227 << 10});
  for (const Target* target : std::initializer_list<const Target*>{&large_gpu, &emulated_gpu_target(),
                                                                   &interpreted_target(), &cpu_target()})
    for (const auto& [batch, rows, columns] :
         {std::array<int64_t, 3>{2, 197, 768}, {1, 1031, 64}, {3, 4099, 8}}) {
      if (target != &large_gpu && target != &cpu_target() && batch * rows * columns > 100'000) continue;
      Graph graph;
      run_guarded(normalization(graph, batch, rows, columns), *target);
    }
}

}  // namespace
}  // namespace cdynamo::lowering
