#include "runtime/host/hash.h"

#include <algorithm>
#include <cstdio>
#include <cstring>

namespace cdynamo::runtime {

// Two 64-bit multiply-and-fold hashes, eight bytes a step.
Hash128 hash_bytes(std::string_view bytes) {
  auto mix = [](uint64_t a, uint64_t b) {
    auto product = static_cast<unsigned __int128>(a) * b;
    return static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
  };
  uint64_t low = 0x9e3779b97f4a7c15u ^ bytes.size(), high = 0xc2b2ae3d27d4eb4fu + bytes.size();
  for (size_t i = 0; i < bytes.size(); i += 8) {
    uint64_t word = 0;
    std::memcpy(&word, bytes.data() + i, std::min<size_t>(8, bytes.size() - i));
    low = mix(low ^ word, 0xa0761d6478bd642fu) + i;
    high = mix(high + word, 0xe7037ed1a0b428dbu) ^ (high << 7 | high >> 57);
  }
  return {mix(low, 0x8ebc6af09c88c6e3u ^ high), mix(high ^ 0x589965cc75374cc3u, low | 1)};
}

std::string Hash128::hex() const {
  char text[33];
  std::snprintf(text, sizeof text, "%016llx%016llx", static_cast<unsigned long long>(high),
                static_cast<unsigned long long>(low));
  return text;
}

}  // namespace cdynamo::runtime
