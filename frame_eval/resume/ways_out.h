// Where a continuation, which executes in Python what broke the graph, gives the frame back: the ways out on which a stub
// calls a resume function. A way is left out where the stub could not know what the frame holds there.
#pragma once

#include <vector>

#include "frame_eval/resume/entered_code.h"

namespace cdynamo::frame_eval {

// Of the one instruction that is entered at.
std::vector<symbolic::WayOut> ways_out_of(const OriginalCode& original, const EntryPoint& entry);
// Of the loop that is entered at, which Python executes as a whole: those that are known, or none.
std::vector<symbolic::WayOut> ways_of_whole_loop(const OriginalCode& original, const EntryPoint& entry,
                                                 const BrokenCode& broken);
// Back to loops that are cut, for a frame that has handled an exception of the broken instruction.
std::vector<symbolic::WayOut> ways_to_cut_loops(const OriginalCode& original, const EntryPoint& entry);

}  // namespace cdynamo::frame_eval
