// The interpreter evaluates a core graph in plain loops, one element at a time: small, slow, obviously right.
// It is what the tests of passes and of lowering compare with.
//
//   std::vector<DenseTensor> outputs = interpret(core, {DenseTensor::of({2, 2}, {1, 2, 3, 4})});
#pragma once

#include <initializer_list>
#include <vector>

#include "graph/graph.h"

namespace cdynamo::graph {

// One element: `real` for float dtypes (already rounded to the dtype), else `integer`.
struct Element {
  double real = 0;
  int64_t integer = 0;
};

// Row-major, without strides.
struct DenseTensor {
  DType dtype = DType::kF32;
  std::vector<int64_t> sizes;
  std::vector<Element> elements;

  DenseTensor() = default;
  DenseTensor(DType dtype, std::vector<int64_t> sizes);
  static DenseTensor of(std::vector<int64_t> sizes, std::vector<double> values, DType dtype = DType::kF32);
  int64_t numel() const;
  int rank() const { return static_cast<int>(sizes.size()); }
  double number(size_t index) const;     // of any dtype
  void set(size_t index, double value);  // rounded or converted to the dtype
  std::vector<double> numbers() const;
};

struct InterpretResult {
  std::vector<DenseTensor> outputs;
  std::vector<DenseTensor> inputs;  // as the graph's mutations leave them
};

// `symbols`: one value for each size symbol; their hints where it is empty. Throws UserError where an index
// is out of range, Unsupported for core.library.
InterpretResult interpret_all(const Graph& core, const std::vector<DenseTensor>& inputs,
                              std::vector<int64_t> symbols = {});
std::vector<DenseTensor> interpret(const Graph& core, const std::vector<DenseTensor>& inputs,
                                   std::vector<int64_t> symbols = {});

}  // namespace cdynamo::graph
