// The counters behind cdynamo.counters(): one row each, plain integers that only grow.
#pragma once

#include <atomic>
#include <cstdint>

namespace cdynamo::symbolic {

#define CDYNAMO_COUNTERS(X) \
  X(frames_seen)            \
  X(frames_compiled)        \
  X(graphs_compiled)        \
  X(graph_breaks)           \
  X(recompiles)             \
  X(cache_hits)             \
  X(guard_failures)         \
  X(kernels_compiled)       \
  X(kernels_from_disk)      \
  X(library_calls_compiled) \
  X(calls_in_python)

struct Counters {
#define CDYNAMO_COUNTER(name) std::atomic<int64_t> name{0};
  CDYNAMO_COUNTERS(CDYNAMO_COUNTER)
#undef CDYNAMO_COUNTER
};

inline Counters& counters() {
  static Counters instance;
  return instance;
}

}  // namespace cdynamo::symbolic
