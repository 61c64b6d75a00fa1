// What a signal's handler raised (Ctrl-C, a time limit) while cdynamo asked something of a library and could not stop for
// it. It is the program's to handle: the call that was being compiled for ends with it.
#pragma once

namespace cdynamo::symbolic {

void interrupt_later();     // puts the exception that is set aside
bool raise_interruption();  // sets it again; false: there is none

}  // namespace cdynamo::symbolic
