// How much of the thread's C stack is left. Capture follows the program's recursion with its own, and compiled
// frames nest without Python frames that CPython would count.
#pragma once

namespace cdynamo::symbolic {

// Too little is left to begin something that may recurse.
bool stack_is_low();

}  // namespace cdynamo::symbolic
