#include "runtime/host/kernel_cache.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <vector>

#include "runtime/host/hash.h"

namespace cdynamo::runtime {
namespace {

constexpr char kMagic[8] = {'c', 'd', 'y', 'n', 'k', 'e', 'r', '1'};
constexpr const char* kSuffix = ".o";

// Followed by the key and the object.
struct Header {
  char magic[8];
  uint64_t key_bytes, object_bytes;
  Hash128 checksum;  // of key and object
};

struct File {
  int fd = -1;
  explicit File(int fd) : fd(fd) {}
  File(const File&) = delete;
  ~File() {
    if (fd >= 0) ::close(fd);
  }
};

bool read_all(int fd, char* out, size_t size) {
  while (size > 0) {
    ssize_t got = ::read(fd, out, size);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    out += got, size -= static_cast<size_t>(got);
  }
  return true;
}

bool write_all(int fd, const char* data, size_t size) {
  while (size > 0) {
    ssize_t put = ::write(fd, data, size);
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0) return false;
    data += put, size -= static_cast<size_t>(put);
  }
  return true;
}

std::string default_directory() {
  auto env = [](const char* name) { return std::string(std::getenv(name) ? std::getenv(name) : ""); };
  if (std::string own = env("CDYNAMO_CACHE_DIR"); !own.empty()) return own;
  if (std::string xdg = env("XDG_CACHE_HOME"); !xdg.empty() && xdg[0] == '/') return xdg + "/cdynamo";
  if (std::string home = env("HOME"); !home.empty()) return home + "/.cache/cdynamo";
  return "";
}

Hash128 checksum(std::string_view key, std::string_view object) {
  Hash128 a = hash_bytes(key), b = hash_bytes(object);
  return {a.low ^ b.high, a.high + b.low};
}

}  // namespace

KernelCache& KernelCache::process() {
  static auto* instance = new KernelCache(default_directory());
  return *instance;
}

KernelCache::KernelCache(std::string directory, uint64_t max_bytes)
    : directory_(std::move(directory)), max_bytes_(max_bytes) {}

// Ours alone: generated code is executed as it is found.
bool KernelCache::open_directory() {
  if (directory_.empty()) return false;
  std::error_code error;
  std::filesystem::path path(directory_);
  if (path.has_parent_path()) std::filesystem::create_directories(path.parent_path(), error);
  ::mkdir(directory_.c_str(), 0700);
  struct stat info;
  if (::stat(directory_.c_str(), &info) != 0 || !S_ISDIR(info.st_mode)) return false;
  return info.st_uid == ::geteuid() && (info.st_mode & (S_IWGRP | S_IWOTH)) == 0;
}

std::string KernelCache::path(std::string_view key) const {
  return directory_ + "/" + hash_bytes(key).hex() + kSuffix;
}

std::optional<std::string> KernelCache::get(std::string_view key) {
  if (directory_.empty()) return std::nullopt;
  // Not blocking: a pipe of this name would be waited for.
  File file(::open(path(key).c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (file.fd < 0) return std::nullopt;
  struct stat info, directory_info;
  if (::fstat(file.fd, &info) != 0 || !S_ISREG(info.st_mode) || info.st_uid != ::geteuid() ||
      (info.st_mode & (S_IWGRP | S_IWOTH)))
    return std::nullopt;
  if (::stat(directory_.c_str(), &directory_info) != 0 || directory_info.st_uid != ::geteuid())
    return std::nullopt;
  Header header;
  if (!read_all(file.fd, reinterpret_cast<char*>(&header), sizeof header)) return std::nullopt;
  auto size = static_cast<uint64_t>(info.st_size);
  if (std::memcmp(header.magic, kMagic, sizeof kMagic) != 0 || header.key_bytes != key.size())
    return std::nullopt;
  if (size > max_bytes_ || header.object_bytes > size ||
      sizeof header + header.key_bytes + header.object_bytes != size)
    return std::nullopt;
  std::string stored_key(header.key_bytes, '\0'), object(header.object_bytes, '\0');
  if (!read_all(file.fd, stored_key.data(), stored_key.size()) ||
      !read_all(file.fd, object.data(), object.size()))
    return std::nullopt;
  if (stored_key != key || checksum(key, object) != header.checksum) return std::nullopt;
  ::futimens(file.fd, nullptr);  // used now: `trim` removes the oldest
  return object;
}

void KernelCache::put(std::string_view key, std::string_view object) {
  if (!open_directory()) return;
  static std::atomic<uint64_t> counter{0};
  std::string temporary = directory_ + "/tmp." + std::to_string(::getpid()) + "." + std::to_string(counter++);
  Header header{};
  std::memcpy(header.magic, kMagic, sizeof kMagic);
  header.key_bytes = key.size(), header.object_bytes = object.size(), header.checksum = checksum(key, object);
  bool complete;
  {
    File file(::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600));
    if (file.fd < 0) return;
    complete = write_all(file.fd, reinterpret_cast<const char*>(&header), sizeof header) &&
               write_all(file.fd, key.data(), key.size()) && write_all(file.fd, object.data(), object.size());
  }
  // Readers see a whole entry or none.
  if (!complete || ::rename(temporary.c_str(), path(key).c_str()) != 0) {
    ::unlink(temporary.c_str());
    return;
  }
  uint64_t size = sizeof header + key.size() + object.size();
  uint64_t before = written_.fetch_add(size);
  // At the first entry of a process and then every sixteenth of the bound.
  if (before == 0 || before / (max_bytes_ / 16 + 1) != (before + size) / (max_bytes_ / 16 + 1)) trim();
}

void KernelCache::trim() {
  struct Entry {
    std::filesystem::path path;
    int64_t used;
    uint64_t bytes;
  };
  std::vector<Entry> entries;
  uint64_t total = 0;
  std::error_code error;
  for (auto it = std::filesystem::directory_iterator(directory_, error);
       !error && it != std::filesystem::directory_iterator(); it.increment(error)) {
    struct stat info;
    std::string name = it->path().filename().string();
    bool ours = it->path().extension() == kSuffix || name.rfind("tmp.", 0) == 0;
    if (!ours || ::lstat(it->path().c_str(), &info) != 0 || !S_ISREG(info.st_mode)) continue;
    int64_t used = info.st_mtim.tv_sec * int64_t{1000000000} + info.st_mtim.tv_nsec;
    entries.push_back({it->path(), used, static_cast<uint64_t>(info.st_size)});
    total += entries.back().bytes;
  }
  std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) { return a.used < b.used; });
  for (const Entry& entry : entries) {
    if (total <= max_bytes_) break;
    if (::unlink(entry.path.c_str()) == 0) total -= entry.bytes;
  }
}

}  // namespace cdynamo::runtime
