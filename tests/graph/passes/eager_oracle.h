// Executes captured graphs as eager does: tensors look at storages, views share them, in-place nodes write
// through. Written without the operator table's bodies, so that it can be an oracle for the passes. Numbers
// are doubles.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "graph/builder.h"
#include "graph/passes.h"

namespace cdynamo::graph::testing {

struct EagerTensor {
  std::shared_ptr<std::vector<double>> storage;
  std::vector<int64_t> sizes, strides;
  int64_t offset = 0;
  std::shared_ptr<int> object;  // identity of the Python object

  int64_t numel() const;
  // The position in the storage of the n-th element in row-major order.
  int64_t position(int64_t n) const;
  std::vector<double> values() const;
  void assign(const std::vector<double>& values);
};

EagerTensor make_tensor(std::vector<int64_t> sizes, const std::vector<double>& values);
EagerTensor make_strided(std::vector<int64_t> sizes, std::vector<int64_t> strides,
                         const std::vector<double>& values);

// The captured graph's outputs; inputs are written where the program writes them.
std::vector<EagerTensor> run_eagerly(const Graph& captured, const std::vector<EagerTensor>& inputs);

// The same through `prepared`: the core graph is interpreted, mutations are written back to `inputs`, outputs
// are made as their classification says.
std::vector<EagerTensor> run_prepared(const Prepared& prepared, const std::vector<EagerTensor>& inputs);

// Outputs of a core graph on made-up inputs, one list an output.
std::vector<std::vector<double>> run_core(const Graph& core);

// Runs the program both ways on equal inputs; compares values, written inputs, sizes, strides, offsets and
// which tensors share storage or are one object. Empty: all equal.
std::string compare_with_eager(const Graph& captured);

}  // namespace cdynamo::graph::testing
