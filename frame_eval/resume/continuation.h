// Continuation: how a function goes on in Python after a graph break.
//
// The code object made for it is the original code entered in the middle: a prologue puts the value stack and
// the locals back and jumps to the instruction that broke the graph, which Python executes; on every way out
// of that instruction a stub hands stack and locals to a resume function, which is compiled in its turn. All
// else is the original code, its exception table included, so breaks inside `with` and `try` need no special
// case. A break in a function that capture has followed a call into continues that one's frame, in the middle of those around
// it, each entered at its call. Resume functions are always made from the original code, so there is one for each place to resume at.
#pragma once

#include <memory>
#include <vector>

#include "symbolic/capture/capture_result.h"

namespace cdynamo::frame_eval {

using symbolic::PyRef;

class Owner;

class Continuation {
 public:
  // Why the function runs in Python as a whole instead, null: it does not. `capture` ended in kBreak.
  static const char* reason_not_to_enter(const symbolic::CaptureResult& capture);
  // For a capture that ended in kBreak and has no such reason. Throws graph::InternalError, PythonError.
  static std::unique_ptr<Continuation> make(const symbolic::CaptureResult& capture);
  virtual ~Continuation() = default;
  // `values`: the results of the capture (null: an empty slot of a stack). They are
  // the running code's alone once it has begun. Of `roots`, the arguments are not looked at. Whatever Python
  // calls on the way is compiled for `owner`. `locals`: OwnedArguments'.
  virtual PyRef run(const std::shared_ptr<Owner>& owner, const symbolic::Roots& roots,
                    std::vector<PyRef> values, PyRef* locals) = 0;
};

}  // namespace cdynamo::frame_eval
