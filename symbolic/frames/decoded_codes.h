// The table of decoded code objects (frame.h), which keeps them alive for later captures.
#pragma once

namespace cdynamo::symbolic {

// Drops what is kept of code objects that nothing else refers to.
void forget_dead_codes();

}  // namespace cdynamo::symbolic
