// Debian's abseil has a string_view of its own: what its functions (StrCat, StrJoin) take for a std::string_view.
#pragma once

#include <string_view>

#include "absl/strings/string_view.h"

namespace cdynamo {

inline absl::string_view absl_view(std::string_view text) { return {text.data(), text.size()}; }

}  // namespace cdynamo
