// Random core graphs: compiled and run against the interpreter of graphs. The seed of a failure is in its
// message.
#include <cmath>

#include "tests/lowering/emulated_gpu.h"
#include "tests/lowering/lowering_test_util.h"

namespace cdynamo::lowering::testing {
namespace {

using graph::Tensor;

class RandomGraph {
 public:
  explicit RandomGraph(uint32_t seed) : rng_(seed) {
    if (pick(3) == 0) dynamic_ = graph.sym->new_symbol("s0", 3 + pick(4));
    const int count = 1 + pick(3);
    for (int i = 0; i < count; ++i) add_input();
    const int steps = 2 + pick(14);
    for (int i = 0; i < steps; ++i) add_step();
    const int outputs = 1 + pick(3);
    for (int i = 0; i < outputs; ++i) graph.outputs.push_back(any_value().value);
    // What nobody reads would be dead code.
    graph.outputs.push_back(values_.back().value);
    if (pick(4) == 0) mutate();
  }

  Graph graph;
  std::vector<DenseTensor> inputs;

 private:
  int pick(int below) { return static_cast<int>(rng_() % static_cast<uint32_t>(below)); }
  Tensor any_value() { return values_[pick(static_cast<int>(values_.size()))]; }
  int64_t hint(const Sym& size) const { return graph.sym->hint(size); }

  std::vector<Sym> any_sizes() {
    const Sym choices[] = {Sym(1),
                           Sym(2),
                           Sym(3),
                           Sym(4),
                           Sym(6),
                           Sym(17),
                           dynamic_ ? *dynamic_ : Sym(5),
                           dynamic_ ? *dynamic_ : Sym(8)};
    std::vector<Sym> sizes;
    for (int rank = pick(4); rank > 0; --rank) sizes.push_back(choices[pick(8)]);
    return sizes;
  }

  void add_input() {
    std::vector<Sym> sizes = any_sizes();
    graph::TensorType type = tensor_type(sizes);
    if (sizes.size() >= 2 && pick(3) == 0) {  // a transposed view of something larger
      std::swap(type.strides[0], type.strides.back());
      Sym stride(2);
      for (size_t d = 0; d < sizes.size(); ++d) {
        type.strides[d] = stride;
        stride = stride * sizes[d];
      }
    }
    values_.push_back(
        graph::wrap(builder_, graph.add_input(type, "x" + std::to_string(graph.inputs.size()))));
    std::vector<int64_t> hints;
    for (const Sym& size : sizes) hints.push_back(hint(size));
    inputs.push_back(random_tensor(DType::kF32, hints, rng_));
  }

  void add_step() {
    Tensor x = any_value();
    if (hint(x.type().numel()) > 4000) return;
    switch (pick(12)) {
      case 0: return add_unary(x);
      case 1: return add_unary(x);
      case 2: return add_binary(x);
      case 3: return add_binary(x);
      case 4: return add_reduction(x);
      case 5: return add_permute(x);
      case 6: return add_reshape(x);
      case 7: return add_slice(x);
      case 8: return add_expand(x);
      case 9: return add_softmax(x);
      case 10: return add_join(x);
      case 11: return add_other(x);
    }
  }

  void push(Tensor x) { values_.push_back(x); }

  void add_unary(Tensor x) {
    switch (pick(5)) {
      case 0: return push(sin(x));
      case 1: return push(x * 0.5 + 1.0);
      case 2: return push(tanh(x));
      case 3: return push(abs(x));
      case 4: return push(maximum(x, 0.0));
    }
  }

  void add_binary(Tensor x) {
    // A partner of the same sizes, or of one size that broadcasts.
    std::vector<Tensor> partners;
    for (Tensor y : values_)
      if (y.sizes() == x.sizes() || y.rank() == 0 ||
          (y.rank() == 1 && x.rank() > 0 && y.sizes()[0] == x.sizes().back()))
        partners.push_back(y);
    Tensor y = partners[pick(static_cast<int>(partners.size()))];
    const int op = pick(3);
    push(op == 0 ? x + y : op == 1 ? x * y * 0.25 : maximum(x, y));
  }

  void add_reduction(Tensor x) {
    graph::Dims dims;
    for (int64_t d = 0; d < x.rank(); ++d)
      if (pick(2)) dims.push_back(d);
    for (int64_t d : dims)
      if (hint(x.size(d)) == 0) return;
    const bool keep = pick(2);
    const int op = pick(3);
    push(op == 0 ? sum(x, dims, keep) * 0.1 : op == 1 ? amax(x, dims, keep) : mean(x, dims, keep));
  }

  void add_permute(Tensor x) {
    graph::Dims dims;
    for (int64_t d = 0; d < x.rank(); ++d) dims.push_back(d);
    std::shuffle(dims.begin(), dims.end(), rng_);
    push(permute(x, dims));
  }

  void add_reshape(Tensor x) {
    if (x.rank() == 0) return;
    std::vector<Sym> sizes = x.sizes();
    const int way = pick(3);
    if (way == 0) {
      push(reshape(x, {x.type().numel()}));
    } else if (way == 1 && sizes.size() >= 2) {
      const int d = pick(static_cast<int>(sizes.size()) - 1);
      sizes[d] = sizes[d] * sizes[d + 1];
      sizes.erase(sizes.begin() + d + 1);
      push(reshape(x, sizes));
    } else {
      for (size_t d = 0; d < sizes.size(); ++d)
        if (sizes[d].is_constant() && sizes[d].constant() > 2 && sizes[d].constant() % 2 == 0) {
          const int64_t half = sizes[d].constant() / 2;
          sizes[d] = Sym(2);
          sizes.insert(sizes.begin() + static_cast<int64_t>(d) + 1, Sym(half));
          return push(reshape(x, sizes));
        }
    }
  }

  void add_slice(Tensor x) {
    if (x.rank() == 0) return;
    const int64_t d = pick(x.rank());
    if (pick(3) == 0) return push(flip(x, {d}));
    const Sym size = x.size(d);
    if (!size.is_constant() || size.constant() < 3) return;
    push(graph::slice(x, d, 1, (size.constant() - 1) / 2, 2));
  }

  void add_expand(Tensor x) {
    if (x.rank() >= 4) return;
    std::vector<Sym> sizes = x.sizes();
    sizes.insert(sizes.begin(), Sym(1 + pick(3)));
    push(graph::expand(x, sizes));
  }

  void add_softmax(Tensor x) {
    if (x.rank() == 0) return;
    const int64_t d = pick(x.rank());
    Tensor e = exp(x - amax(x, {d}, true));
    push(e / sum(e, {d}, true));
  }

  void add_join(Tensor x) {
    if (x.rank() == 0) return;
    const int64_t d = pick(x.rank());
    if (pick(2)) return push(graph::concat({x, x * 2.0}, d));
    std::vector<Sym> low(x.rank(), Sym()), high(x.rank(), Sym());
    low[d] = Sym(pick(3));
    high[d] = Sym(pick(3));
    push(graph::pad(x, low, high, 0.5));
  }

  void add_other(Tensor x) {
    if (x.rank() == 2 && pick(2)) return push(mm(x, transpose(x, 0, 1)) * 0.05);
    if (x.rank() == 0) return;
    const int64_t d = pick(x.rank());
    if (pick(2)) return push(graph::wrap(builder_, builder_.call1("core.cumsum", {x.value, Sym(d)})) * 0.2);
    Tensor index = graph::iota(builder_, x.sizes(), d, DType::kI64);
    push(gather(x, remainder(index * 7, x.size(d)), d));
  }

  void mutate() {
    const int i = pick(static_cast<int>(graph.inputs.size()));
    for (Tensor y : values_)
      if (y.value != graph.inputs[i] && y.sizes() == graph.inputs[i]->type.sizes)
        return graph.mutations.push_back({i, y.value});
  }

  std::mt19937 rng_;
  Builder builder_{graph, graph::Level::kCore};
  std::optional<Sym> dynamic_;
  std::vector<Tensor> values_;
};

void run_seeds(uint32_t first, uint32_t count, const Target& target) {
  for (uint32_t seed = first; seed < first + count; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    RandomGraph random(seed);
    try {
      compile_and_compare(random.graph, random.inputs, {}, target);
    } catch (const graph::Unsupported& unsupported) {
      ADD_FAILURE() << "unsupported: " << unsupported.message;
    } catch (const graph::InternalError& error) {
      ADD_FAILURE() << "internal error: " << error.message;
    }
    if (::testing::Test::HasFailure()) return;
  }
}

TEST(RandomGraphTest, InterpretedKernels) { run_seeds(0, 400, interpreted_target()); }
TEST(RandomGraphTest, MachineCode) { run_seeds(10000, 60, cpu_target()); }
TEST(RandomGraphTest, EmulatedGpu) { run_seeds(20000, 120, emulated_gpu_target()); }

}  // namespace
}  // namespace cdynamo::lowering::testing
