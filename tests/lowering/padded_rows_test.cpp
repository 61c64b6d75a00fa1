// Long reductions in blocks of which the last is not full: what lies past the end of an input, where
// the tests' buffers have a page that nobody may touch, is not read.
#include <array>
#include <initializer_list>

#include "tests/lowering/emulated_gpu.h"
#include "tests/lowering/lowering_test_util.h"

namespace cdynamo::lowering {
namespace {

using namespace testing;
using graph::Tensor;

// Layer norm's backward: sums over a prime number of rows, beside values of each row that are stored on the way.
void normalization(Graph& graph, int64_t batch, int64_t rows, int64_t columns) {
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
      normalization(graph, batch, rows, columns);
      std::mt19937 rng(0);
      std::vector<DenseTensor> inputs;
      for (const Value* input : graph.inputs)
        inputs.push_back(random_tensor(input->type.dtype, evaluate(graph, input->type.sizes, {}), rng));
      compile_and_compare(graph, inputs, {}, *target);
    }
}

}  // namespace
}  // namespace cdynamo::lowering
