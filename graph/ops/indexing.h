// What the entries of indexing share.
#pragma once

#include "graph/ops/entry.h"
#include "graph/strides.h"

namespace cdynamo::graph {

// What an index out of range raises.
inline constexpr const char* kIndexError = "IndexError";
inline constexpr const char* kRuntimeError = "RuntimeError";

inline Tensor core_index(Tensor self, const std::vector<Tensor>& indices, const char* error = kIndexError) {
  std::vector<Value*> values;
  for (const Tensor& index : indices) values.push_back(index.value);
  return wrap(*self.builder, self.builder->call1("core.index", {self.value, values, std::string(error)}));
}
inline Tensor core_index_put(Tensor self, const std::vector<Tensor>& indices, Tensor values, bool accumulate,
                             const char* error = kIndexError) {
  std::vector<Value*> list;
  for (const Tensor& index : indices) list.push_back(index.value);
  return wrap(*self.builder, self.builder->call1("core.index_put", {self.value, list, values.value,
                                                                    accumulate, std::string(error)}));
}

// The permutation that undoes `order`.
inline Dims inverse(const Dims& order) {
  Dims result(order.size());
  for (size_t i = 0; i < order.size(); ++i) result[order[i]] = static_cast<int64_t>(i);
  return result;
}

inline OpDef indexing(std::string_view name, std::vector<std::string_view> schemas, BodyFn body,
                      StridesFn strides = contiguous_results) {
  return composite(name, std::move(schemas), body, {}, strides);
}

}  // namespace cdynamo::graph
