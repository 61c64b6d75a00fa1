#include "runtime/cuda/replay.h"

#include <absl/strings/str_cat.h>

#include <algorithm>
#include <map>
#include <string_view>

namespace cdynamo::runtime::cuda {
namespace {

constexpr size_t kMostRecordings = 8, kMostSeen = 32;
constexpr int kTrials = 64;           // recordings that are made before their use is judged
constexpr int kRelaxed = 2;           // CUstreamCaptureMode: other work of the process goes on
constexpr unsigned kNonBlocking = 1;  // CUstream_flags

// Recordings are made one at a time, on a stream of the current context that is never launched on.
std::mutex& recording_mutex() {
  static auto* instance = new std::mutex;
  return *instance;
}
Stream recording_stream() {
  static auto* streams = new std::map<Context, Stream>;
  const Driver& driver = *find_driver();
  Context context = nullptr;
  check(driver.ctx_get_current(&context), "asking for the current CUDA context");
  Stream& stream = (*streams)[context];
  if (!stream && driver.stream_create(&stream, kNonBlocking) != kSuccess) stream = nullptr;
  return stream;
}

}  // namespace

struct ReplayedLaunches::Entry {
  explicit Entry(std::span<const uint64_t> key) : key(key.begin(), key.end()) {}
  ~Entry() {
    if (executable) find_driver()->graph_exec_destroy(executable);
  }
  const std::vector<uint64_t> key;
  GraphExec executable = nullptr;
};

ReplayedLaunches::ReplayedLaunches() = default;
ReplayedLaunches::~ReplayedLaunches() = default;

bool ReplayedLaunches::run(std::span<const uint64_t> key, Stream stream, const std::function<bool()>& launch,
                           std::string* remark) {
  {
    std::lock_guard lock(mutex_);
    // A framework that records our launches itself gets them one by one.
    if (!given_up_ && !is_capturing(stream)) {
      Entry* entry = find(key);
      if (!entry && is_repeated(key)) {
        if (std::unique_ptr<Entry> recorded = record(key, stream, launch, remark)) {
          if (entries_.size() == kMostRecordings) entries_.pop_back();
          entries_.insert(entries_.begin(), std::move(recorded));
          entry = entries_.front().get();
        }
      }
      if (entry) {
        check(find_driver()->graph_launch(entry->executable, stream), "replaying launches");
        return true;
      }
    }
  }
  return launch();
}

ReplayedLaunches::Entry* ReplayedLaunches::find(std::span<const uint64_t> key) {
  auto at =
      std::ranges::find_if(entries_, [&](const auto& entry) { return std::ranges::equal(entry->key, key); });
  if (at == entries_.end()) return nullptr;
  ++replayed_;
  std::rotate(entries_.begin(), at, at + 1);
  return entries_.front().get();
}

// Whether the key was there not long ago.
bool ReplayedLaunches::is_repeated(std::span<const uint64_t> key) {
  const size_t hash =
      std::hash<std::string_view>()({reinterpret_cast<const char*>(key.data()), key.size_bytes()});
  if (std::ranges::find(seen_, hash) != seen_.end()) return true;
  if (seen_.size() == kMostSeen) seen_.erase(seen_.begin());
  seen_.push_back(hash);
  return false;
}

std::unique_ptr<ReplayedLaunches::Entry> ReplayedLaunches::record(std::span<const uint64_t> key,
                                                                  Stream stream,
                                                                  const std::function<bool()>& launch,
                                                                  std::string* remark) {
  const Driver& driver = *find_driver();
  auto give_up = [&](absl::string_view why) {
    given_up_ = true;
    *remark = absl::StrCat("launches are not replayed: ", why);
    return nullptr;
  };
  if (++recorded_ > kTrials && replayed_ < 4 * recorded_)
    return give_up("their addresses or sizes are others in most calls");
  std::lock_guard lock(recording_mutex());
  const Stream recorded_on = recording_stream();
  if (!recorded_on) return give_up("there is no stream to record them on");
  auto entry = std::make_unique<Entry>(key);
  if (driver.stream_begin_capture(recorded_on, kRelaxed) != kSuccess)
    return give_up("the driver does not record");
  std::string failure;
  try {
    const Recording recording(recorded_on, stream);
    if (!launch()) failure = "a library call cannot be recorded";
  } catch (const CudaError& error) {
    failure = error.message;
  }
  Graph graph = nullptr;
  Result result = driver.stream_end_capture(recorded_on, &graph);
  if (result == kSuccess && failure.empty()) result = driver.graph_instantiate(&entry->executable, graph, 0);
  if (graph) driver.graph_destroy(graph);
  if (!failure.empty()) return give_up(failure);
  if (result != kSuccess) return give_up("the driver cannot replay what it recorded");
  return entry;
}

}  // namespace cdynamo::runtime::cuda
