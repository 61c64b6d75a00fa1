#include "runtime/host/parallel.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <stdexcept>
#include <thread>
#include <vector>

namespace cdynamo::runtime {
namespace {

TEST(Parallel, SharesCoverAllItemsOnce) {
  for (int64_t items : {0, 1, 7, 100}) {
    for (int count : {1, 2, 3, 8}) {
      int64_t next = 0;
      for (int i = 0; i < count; ++i) {
        auto [begin, end] = Team(i, count, nullptr).share(items);
        EXPECT_EQ(begin, next);
        EXPECT_LE(end - begin, items / count + 1);
        next = end;
      }
      EXPECT_EQ(next, items);
    }
  }
}

TEST(Parallel, ForVisitsEveryItemOnce) {
  std::vector<std::atomic<int>> visits(10007);
  parallel_for(static_cast<int64_t>(visits.size()), 16, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) ++visits[i];
  });
  for (const auto& count : visits) EXPECT_EQ(count, 1);
  parallel_for(0, 1, [](int64_t, int64_t) { FAIL(); });
}

TEST(Parallel, BarrierSeparatesSteps) {
  for (int threads : {1, 2, 4}) {
    std::atomic<int> arrived{0}, wrong{0};
    parallel_region(threads, [&](const Team& team) {
      for (int step = 1; step <= 50; ++step) {
        ++arrived;
        team.barrier();
        if (arrived != step * team.count()) ++wrong;
        team.barrier();
      }
    });
    EXPECT_EQ(wrong, 0);
  }
}

TEST(Parallel, RegionsInsideRegionsRunAlone) {
  std::atomic<int> inner{0};
  parallel_region(3, [&](const Team&) {
    parallel_region(3, [&](const Team& team) {
      EXPECT_EQ(team.count(), 1);
      ++inner;
    });
  });
  EXPECT_GE(inner, 1);
  EXPECT_LE(inner, 3);
}

TEST(Parallel, ExceptionsReachTheCaller) {
  EXPECT_THROW(parallel_region(2,
                               [](const Team& team) {
                                 if (team.index() == 0) throw std::runtime_error("no");
                               }),
               std::runtime_error);
  std::atomic<int> ran{0};
  parallel_region(2, [&](const Team&) { ++ran; });
  EXPECT_GE(ran, 1);
}

// A thread that comes late makes the next regions run without it, for a while that grows.
TEST(Parallel, RegionsRunAloneWhereThreadsAreLate) {
  const auto threads = [](int milliseconds) {
    std::atomic<int> count{0};
    parallel_region(2, [&](const Team& team) {
      count = team.count();
      if (team.index() == 1) std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds));
      team.barrier();
    });
    return count.load();
  };
  int late = 0;
  while (late < 100 && threads(3) == 2) ++late;
  EXPECT_LT(late, 100);
  // Not for good. (The processors may be busy in truth: then it is longer.)
  const auto start = std::chrono::steady_clock::now();
  while (threads(0) == 1 && std::chrono::steady_clock::now() - start < std::chrono::seconds(20))
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(20));
}

TEST(Parallel, SeveralCallersAtOnce) {
  std::vector<std::thread> callers;
  std::atomic<int64_t> sum{0};
  for (int c = 0; c < 3; ++c) {
    callers.emplace_back([&] {
      for (int i = 0; i < 20; ++i)
        parallel_region(2, [&](const Team& team) {
          auto [begin, end] = team.share(100);
          sum += end - begin;
        });
    });
  }
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(sum, 3 * 20 * 100);
}

TEST(Parallel, ForkedChildrenRunAlone) {
  parallel_region(2, [](const Team&) {});
  pid_t child = fork();
  if (child == 0) {
    alarm(20);  // the parent's threads are gone: a region that waits for them would never end
    int ran = 0;
    parallel_region(2, [&](const Team& team) { ran += team.count(); });
    _exit(ran == 1 ? 0 : 1);
  }
  int status = -1;
  waitpid(child, &status, 0);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

TEST(Parallel, CountsThreads) {
  EXPECT_GE(num_threads(), 1);
  EXPECT_EQ(find_process_symbol("cdynamo_no_such_symbol"), nullptr);
  EXPECT_NE(find_process_symbol("malloc"), nullptr);
}

}  // namespace
}  // namespace cdynamo::runtime
