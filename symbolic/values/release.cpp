#include "symbolic/values/release.h"

#include <utility>

namespace cdynamo::symbolic {

void release(ValuePtr value) {
  constexpr int kNested = 50;
  static thread_local int depth = 0;
  static thread_local std::vector<ValuePtr> waiting;
  if (!value || value.use_count() > 1) return;
  if (depth >= kNested) {
    waiting.push_back(std::move(value));
    return;
  }
  ++depth;
  value.reset();
  --depth;
  while (depth == 0 && !waiting.empty()) {
    ValuePtr next = std::move(waiting.back());
    waiting.pop_back();
    ++depth;
    next.reset();
    --depth;
  }
}

void release(std::vector<ValuePtr>& values) {
  for (ValuePtr& value : values) release(std::move(value));
}

}  // namespace cdynamo::symbolic
