// Object code on disk, so that a second process does not compile what the first did.
//
//   KernelCache& cache = KernelCache::process();         // CDYNAMO_CACHE_DIR, else XDG_CACHE_HOME/cdynamo,
//   else ~/.cache/cdynamo if (auto object = cache.get(key)) ... else cache.put(key, compile());
//
// An entry is a file named by the hash of its key; it holds the key and a checksum. What is damaged, cut
// short, another user's or another key's is no entry. Nothing here throws: a cache that cannot be read or
// written is an empty one.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace cdynamo::runtime {

class KernelCache {
 public:
  static KernelCache& process();
  explicit KernelCache(std::string directory, uint64_t max_bytes = uint64_t{256} << 20);

  std::optional<std::string> get(std::string_view key);
  void put(std::string_view key, std::string_view object);
  // Removes the entries that were used least recently until the rest takes at most `max_bytes`.
  void trim();
  const std::string& directory() const { return directory_; }

 private:
  bool open_directory();
  std::string path(std::string_view key) const;

  std::string directory_;  // empty: no cache
  uint64_t max_bytes_;
  std::atomic<uint64_t> written_{0};  // bytes since the last trim
};

}  // namespace cdynamo::runtime
