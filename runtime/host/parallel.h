// Threads: regions run on the OpenMP runtime that the process has already, so that no second pool fights the
// framework's.
//
//   parallel_region(num_threads(), [&](Team& team) {
//     auto [begin, end] = team.share(items);      // this thread's part of [0, items)
//     ...
//     team.barrier();                              // then the next kernel
//   });
//
// Falls back to the calling thread where there is no OpenMP runtime, inside another region, and in a forked
// child (whose parent's threads are gone). Exceptions of one thread reach the caller after all have finished;
// a thread that threw still takes part in the barriers it would have reached only if it catches, so kernels
// must not throw between barriers.
//
// Where the processors are busy with other programs, a thread that has to wait for its turn holds up the others
// for longer than the work takes. After a region whose caller waited longer than it would have taken alone, regions
// run on the caller's thread for a while.
#pragma once

#include <cstdint>
#include <type_traits>
#include <utility>

namespace cdynamo::runtime {

// How many threads the framework would use now: PyTorch's setting, else OpenMP's, else the processors we may
// run on.
int num_threads();

// Nanoseconds of a clock that only goes forward.
int64_t clock_now();

// One thread's place in a region.
class Team {
 public:
  // `waited`: where the nanoseconds that barriers take are added up, if anywhere.
  Team(int index, int count, void (*barrier)(), int64_t* waited = nullptr)
      : index_(index), count_(count), barrier_(barrier), waited_(waited) {}
  int index() const { return index_; }
  int count() const { return count_; }
  void barrier() const {
    if (!barrier_) return;
    const int64_t before = waited_ ? clock_now() : 0;
    barrier_();
    if (waited_) *waited_ += clock_now() - before;
  }
  // This thread's contiguous share of [0, items).
  std::pair<int64_t, int64_t> share(int64_t items) const {
    int64_t each = items / count_, extra = items % count_;
    int64_t begin = index_ * each + (index_ < extra ? index_ : extra);
    return {begin, begin + each + (index_ < extra ? 1 : 0)};
  }

 private:
  int index_, count_;
  void (*barrier_)();
  int64_t* waited_;
};

void run_region(int threads, void (*body)(void* context, const Team& team), void* context);

// Calls fn(team) on up to `threads` threads, the caller's among them, and waits for all.
template <typename F>
void parallel_region(int threads, F&& fn) {
  using Fn = std::remove_reference_t<F>;
  run_region(
      threads, [](void* context, const Team& team) { (*static_cast<Fn*>(context))(team); },
      const_cast<void*>(static_cast<const void*>(&fn)));
}

// Calls fn(begin, end) on disjoint parts of [0, items), each of at least `grain` items but the last.
template <typename F>
void parallel_for(int64_t items, int64_t grain, F&& fn) {
  if (items <= 0) return;
  int64_t parts = grain > 0 ? (items + grain - 1) / grain : items;
  int64_t threads = parts <= 1 ? 1 : num_threads();
  if (threads > parts) threads = parts;
  if (threads <= 1) {
    fn(int64_t{0}, items);
    return;
  }
  parallel_region(static_cast<int>(threads), [&](const Team& team) {
    auto [begin, end] = team.share(items);
    if (begin < end) fn(begin, end);
  });
}

// The address of a function that some loaded library exports, global or not; null where none does. Cached;
// looked for again only after libraries were loaded.
void* find_process_symbol(const char* name);

}  // namespace cdynamo::runtime
