#include "runtime/host/arena.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <thread>

namespace cdynamo::runtime {
namespace {

constexpr size_t kLarge = size_t{5} << 20, kHuge = size_t{80} << 20;

// Whether a second arena of as many bytes finds the first one's content.
bool is_kept(size_t bytes, bool frugal) {
  bool same = false;
  std::thread([&] {  // with nothing kept yet
    const FrugalArenas mode(frugal);
    uintptr_t first = 0;
    {
      Arena arena(bytes);
      std::memset(arena.data(), 0x5a, bytes);
      first = reinterpret_cast<uintptr_t>(arena.data());
    }
    const Arena other(bytes / 2);
    same = reinterpret_cast<uintptr_t>(other.data()) == first && other.data()[bytes / 2 - 1] == 0x5a;
  })
      .join();
  return same;
}

TEST(Arena, KeepsBlocksBetweenCalls) {
  EXPECT_TRUE(is_kept(1000, false));
  EXPECT_TRUE(is_kept(kLarge, false));
  EXPECT_TRUE(is_kept(1000, true));
}

TEST(Arena, LiveArenasAreApart) {
  Arena a(1000), b(1000), none(0);
  EXPECT_GE(std::abs(a.data() - b.data()), 1000);
  EXPECT_EQ(none.data(), nullptr);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(a.data()) % 64, 0u);
}

// Many sizes, in turn and nested: whatever is kept or given up, what is alive stays as it was written.
TEST(Arena, ManySizes) {
  for (int round = 0; round < 3; ++round)
    for (size_t bytes : {size_t{100}, kLarge, kHuge, 3 * kLarge, size_t{4096}, 6 * kLarge, 9 * kLarge}) {
      const FrugalArenas mode(round == 1);
      Arena outer(bytes), inner(bytes / 3);
      outer.data()[0] = 1;
      outer.data()[bytes - 1] = 2;
      inner.data()[0] = 3;
      inner.data()[bytes / 3 - 1] = 4;
      EXPECT_EQ(outer.data()[0] + outer.data()[bytes - 1], 3);
    }
}

}  // namespace
}  // namespace cdynamo::runtime
