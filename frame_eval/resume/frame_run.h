// Runs the frames of a continuation in Python, under the hook.
#pragma once

#include "frame_eval/hook/hook.h"
#include "frame_eval/resume/resume_point.h"

namespace cdynamo::frame_eval {

// Calls the function, whose arguments are its alone once it has begun. What Python calls on the way is compiled for `owner`.
// `locals`: OwnedArguments'. Null: it has raised.
PyRef run_frame(const OwnerPtr& owner, WaitingFrame frame, PyRef* locals = nullptr);

// A callable that does so, once: what the frame around it calls. No owner: the function is compiled as what Python calls.
PyRef inner_call(const OwnerPtr& owner, WaitingFrame frame);

}  // namespace cdynamo::frame_eval
