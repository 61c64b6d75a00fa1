// A stable structural hash of a core graph, for cache keys: two graphs with one fingerprint compute the same
// thing from the same kinds of inputs. Names, source lines and user calls do not take part; operators,
// arguments, types, strides of inputs and outputs, mutations and the ranges of the size symbols do. Equal in
// every process and on every host.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "graph/graph.h"

namespace cdynamo::graph {

struct Fingerprint {
  std::array<uint64_t, 2> words = {};
  friend bool operator==(const Fingerprint&, const Fingerprint&) = default;
  std::string hex() const;  // 32 digits
};

// 128 bits of SipHash-like mixing over bytes; not meant to withstand an adversary.
Fingerprint fingerprint_bytes(const void* data, size_t size);
Fingerprint fingerprint(const Graph& core);

}  // namespace cdynamo::graph
