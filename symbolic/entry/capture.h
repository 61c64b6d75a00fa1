// The entry of symbolic/: executes a function's bytecode on symbolic values.
//
//   CaptureResult result = capture(request);
//   if (result.end == End::kReturn) …   // whole function captured: run graph, replay effects, return results[0]
//   if (result.end == End::kBreak)  …   // run graph, replay effects, put `stack` and `locals` back, go on in Python at
//                                       // break_at
#pragma once

#include "symbolic/capture/capture_result.h"

namespace cdynamo::symbolic {

// Never throws C++ exceptions other than PythonError (an interrupt, no memory); whatever it cannot do is a
// kBreak or kSkipFrame.
CaptureResult capture(const CaptureRequest& request);

}  // namespace cdynamo::symbolic
