// Generators that die, or are left by what is captured, before they have ended: Python closes them then, and runs the
// handlers that they are suspended in. Capture does not, and leaves to Python what a handler of theirs would do.
#pragma once

#include <cstdint>
#include <memory>

#include "symbolic/capture/executor.h"

namespace cdynamo::symbolic {

class SymbolicFrame;

struct AbandonedGenerator {
  int64_t started_at = -1;  // the root's step
  std::shared_ptr<SymbolicFrame> frame;
  bool closes_another = false;  // waits_for_closable(*frame)
};

// It is suspended in a `try` or `with`, whose handlers Python runs when the generator dies.
bool is_in_handler(const SymbolicFrame& suspended);
// What it waits for in `yield from`; null: it does not.
ValuePtr delegated_to(const SymbolicFrame& suspended);
// It waits for an iterator of the program's with a close() of its own, which Python calls when the generator dies.
bool waits_for_closable(const SymbolicFrame& suspended);

// Breaks the graph before the first one starts whose handlers do something about GeneratorExit.
void refuse_abandoned_generators(Executor& ex);

}  // namespace cdynamo::symbolic
