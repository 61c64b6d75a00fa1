// What a call of cdynamo.optimize asked for. Python's optimize() checks the values and keeps one object for
// equal options, so that what was optimized alike can share cache entries.
#pragma once

#include <memory>
#include <string>

#include "symbolic/interop/py_ref.h"

namespace cdynamo::frame_eval {

enum class BackendKind : uint8_t { kNative, kEager, kCallable };
enum class Mode : uint8_t { kDefault, kReduceOverhead, kMaxAutotune, kMaxAutotuneNoCudagraphs };

struct Config {
  BackendKind backend = BackendKind::kNative;
  Mode mode = Mode::kDefault;
  symbolic::PyRef
      backend_callable;  // kEager, kCallable: (graph description, example inputs) -> callable, in Python
  bool fullgraph = false;
  bool evicts = false;  // at the limit of entries the one that was used longest ago makes room for a new one
  bool shared = false;  // one object for all calls with equal options
  bool dynamic = false,
       is_static = false;  // dynamic=True, dynamic=False; neither: sizes that change become dynamic
};

// Whether a GPU's launches are recorded and replayed.
inline bool replays_launches(Mode mode) {
  return mode == Mode::kReduceOverhead || mode == Mode::kMaxAutotune;
}

// Whether the algorithms of libraries are timed.
inline bool times_algorithms(Mode mode) {
  return mode == Mode::kMaxAutotune || mode == Mode::kMaxAutotuneNoCudagraphs;
}

using ConfigPtr = std::shared_ptr<const Config>;

// cdynamo.config: read at each compile, never on a hit.
struct GlobalConfig {
  int recompile_limit = 8;
  bool suppress_errors = true;
  bool keep_empty_graphs = false;
  bool disk_cache = true;
  bool debug = false;           // runtime::Plan::debugs
  double memory_budget = 1;     // graph::PartitionOptions
  double compile_seconds = 30;  // graph::TimeBudget
  int stance = 0;               // set_stance: see stance.h
};
inline GlobalConfig& global_config() {
  static GlobalConfig instance;
  return instance;
}

}  // namespace cdynamo::frame_eval
