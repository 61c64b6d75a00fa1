#include "runtime/host/jit.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

namespace cdynamo::runtime {
namespace {

TEST(Jit, DescribesTheHost) {
  const HostTarget& host = host_target();
  EXPECT_FALSE(host.cpu.empty());
  EXPECT_NE(host.key().find(host.cpu), std::string::npos);
  EXPECT_TRUE(host.vector_bytes == 16 || host.vector_bytes == 32 || host.vector_bytes == 64);
}

TEST(Jit, RefusesWhatIsNoObject) {
  EXPECT_THROW(load_object("not an object file", {"kernel"}), JitError);
  EXPECT_THROW(load_object("", {"kernel"}), JitError);
  // An ELF header and nothing after it.
  EXPECT_THROW(load_object(std::string_view("\177ELF\2\1\1\0\0\0\0\0\0\0\0\0\1\0>\0", 20), {"kernel"}),
               JitError);
}

TEST(Jit, RefusingIsSafeFromSeveralThreads) {
  std::vector<std::thread> threads;
  std::atomic<int> refused{0};
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int j = 0; j < 20; ++j) {
        try {
          load_object("garbage", {"kernel"});
        } catch (const JitError&) {
          ++refused;
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(refused, 80);
}

}  // namespace
}  // namespace cdynamo::runtime
