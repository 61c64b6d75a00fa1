// A 128-bit hash for names and checksums: equal bytes give equal hashes in every process. Not for
// adversaries.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace cdynamo::runtime {

struct Hash128 {
  uint64_t low = 0, high = 0;
  std::string hex() const;  // 32 digits
  friend auto operator<=>(const Hash128&, const Hash128&) = default;
};
Hash128 hash_bytes(std::string_view bytes);

}  // namespace cdynamo::runtime
