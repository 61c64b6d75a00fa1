#include "runtime/host/kernel_cache.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <thread>

#include "runtime/host/hash.h"

namespace cdynamo::runtime {
namespace {

namespace fs = std::filesystem;

class KernelCacheTest : public testing::Test {
 protected:
  KernelCacheTest() {
    std::string pattern = (fs::temp_directory_path() / "cdynamo-cache-XXXXXX").string();
    root_ = mkdtemp(pattern.data());
  }
  ~KernelCacheTest() override { fs::remove_all(root_); }
  std::string directory() const { return root_ + "/kernels"; }
  std::vector<fs::path> files() const {
    std::vector<fs::path> out;
    for (const auto& entry : fs::directory_iterator(directory())) out.push_back(entry.path());
    return out;
  }
  std::string root_;
};

TEST_F(KernelCacheTest, KeepsWhatIsPut) {
  KernelCache cache(directory());
  EXPECT_FALSE(cache.get("key"));
  std::string object("\0binary\n", 8);
  cache.put("key", object);
  EXPECT_EQ(cache.get("key"), object);
  EXPECT_FALSE(cache.get("other key"));
  EXPECT_EQ(KernelCache(directory()).get("key"), object);
  cache.put("key", "newer");
  EXPECT_EQ(cache.get("key"), "newer");
  EXPECT_EQ(files().size(), 1u);
}

TEST_F(KernelCacheTest, DirectoryIsPrivate) {
  KernelCache(directory()).put("key", "object");
  struct stat info;
  ASSERT_EQ(stat(directory().c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0700u);
}

TEST_F(KernelCacheTest, DamageIsNoEntry) {
  KernelCache cache(directory());
  std::string object(1000, 'x');
  cache.put("key", object);
  fs::path file = files().at(0);
  std::ifstream in(file, std::ios::binary);
  std::string whole((std::istreambuf_iterator<char>(in)), {});
  auto write = [&](const std::string& bytes) {
    std::ofstream(file, std::ios::binary | std::ios::trunc) << bytes;
  };
  for (size_t position = 0; position < whole.size(); position += 7) {
    std::string damaged = whole;
    damaged[position] ^= 1;
    write(damaged);
    EXPECT_FALSE(cache.get("key")) << position;
  }
  for (size_t length : {size_t{0}, size_t{10}, whole.size() / 2, whole.size() - 1}) {
    write(whole.substr(0, length));
    EXPECT_FALSE(cache.get("key")) << length;
  }
  write(whole + "more");
  EXPECT_FALSE(cache.get("key"));
  write(whole);
  EXPECT_EQ(cache.get("key"), object);
}

TEST_F(KernelCacheTest, AnotherKeysEntryUnderThisNameIsNoEntry) {
  KernelCache cache(directory());
  cache.put("a", "object of a");
  cache.put("b", "object of b");
  fs::path a = directory() + "/" + hash_bytes("a").hex() + ".o",
           b = directory() + "/" + hash_bytes("b").hex() + ".o";
  fs::copy_file(a, b, fs::copy_options::overwrite_existing);
  EXPECT_FALSE(cache.get("b"));
}

TEST_F(KernelCacheTest, TrimRemovesTheLeastRecentlyUsed) {
  KernelCache cache(directory(), 5000);
  std::string object(1000, 'x');
  auto wait = [] { std::this_thread::sleep_for(std::chrono::milliseconds(15)); };
  for (const char* key : {"1", "2", "3", "4"}) {
    cache.put(key, object);
    wait();
  }
  EXPECT_TRUE(cache.get("1"));  // used again: now "2" is the oldest
  wait();
  cache.put("5", object);
  cache.trim();
  EXPECT_TRUE(cache.get("1"));
  EXPECT_FALSE(cache.get("2"));
  EXPECT_TRUE(cache.get("5"));
}

TEST_F(KernelCacheTest, UnusableDirectoriesAreHarmless) {
  KernelCache nowhere("");
  nowhere.put("key", "object");
  EXPECT_FALSE(nowhere.get("key"));
  std::ofstream(root_ + "/file") << "x";
  KernelCache below_a_file(root_ + "/file/kernels");
  below_a_file.put("key", "object");
  EXPECT_FALSE(below_a_file.get("key"));
  // Where nobody can make a file, root included.
  KernelCache read_only("/proc/cdynamo/kernels");
  read_only.put("key", "object");
  EXPECT_FALSE(read_only.get("key"));
  read_only.trim();
  // Others can write there: nothing is taken from it.
  KernelCache open(directory());
  open.put("key", "object");
  fs::permissions(files().at(0), fs::perms(0666));
  EXPECT_FALSE(open.get("key"));
}

TEST_F(KernelCacheTest, WhatIsNoFileIsNoEntry) {
  KernelCache cache(directory());
  cache.put("key", "object");
  fs::path file = files().at(0);
  fs::remove(file);
  fs::create_directory(file);
  EXPECT_FALSE(cache.get("key"));
  fs::remove(file);
  ASSERT_EQ(mkfifo(file.c_str(), 0600), 0);
  EXPECT_FALSE(cache.get("key"));  // and does not wait for a writer
  cache.put("key", "object");
  EXPECT_EQ(cache.get("key"), "object");
}

TEST_F(KernelCacheTest, AnEntryLargerThanTheCacheIsNotRead) {
  KernelCache(directory()).put("key", std::string(10000, 'x'));
  EXPECT_FALSE(KernelCache(directory(), 1000).get("key"));
}

// As on a full disk, writing stops within an entry; no file may grow beyond the limit.
class FullDisk {
 public:
  explicit FullDisk(rlim_t bytes) {
    getrlimit(RLIMIT_FSIZE, &before_);
    handler_ = std::signal(SIGXFSZ, SIG_IGN);
    rlimit limit{bytes, before_.rlim_max};
    setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FullDisk() {
    setrlimit(RLIMIT_FSIZE, &before_);
    std::signal(SIGXFSZ, handler_);
  }

 private:
  rlimit before_;
  void (*handler_)(int);
};

TEST_F(KernelCacheTest, AFullDiskLeavesNoPartOfAnEntry) {
  KernelCache cache(directory());
  const std::string object(5000, 'x');
  for (rlim_t room : {0, 10, 100, 4096}) {
    FullDisk full(room);
    cache.put("key", object);
    EXPECT_FALSE(cache.get("key")) << room;
    EXPECT_TRUE(files().empty()) << room;
  }
  cache.put("key", object);
  {
    FullDisk full(100);
    cache.put("key", "newer" + object);
    EXPECT_EQ(cache.get("key"), object);  // what was there stays
  }
  EXPECT_EQ(files().size(), 1u);
}

TEST_F(KernelCacheTest, ADirectoryThatVanishesIsMadeAgain) {
  KernelCache cache(directory());
  cache.put("key", "object");
  fs::remove_all(directory());
  EXPECT_FALSE(cache.get("key"));
  cache.trim();
  cache.put("key", "object");
  EXPECT_EQ(cache.get("key"), "object");
}

TEST_F(KernelCacheTest, SeveralWritersLeaveWholeEntries) {
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      KernelCache cache(directory());
      for (int i = 0; i < 50; ++i)
        cache.put("key" + std::to_string(i % 5), std::string(100 + t, static_cast<char>('a' + t)));
    });
  }
  for (std::thread& thread : threads) thread.join();
  KernelCache cache(directory());
  for (int i = 0; i < 5; ++i) {
    auto object = cache.get("key" + std::to_string(i));
    ASSERT_TRUE(object);
    EXPECT_EQ(*object, std::string(100 + (object->at(0) - 'a'), object->at(0)));
  }
  EXPECT_EQ(files().size(), 5u);
}

TEST(Hash, DependsOnEveryByte) {
  std::string text(100, 'a');
  Hash128 base = hash_bytes(text);
  for (size_t i = 0; i < text.size(); ++i) {
    std::string changed = text;
    changed[i] = 'b';
    EXPECT_NE(hash_bytes(changed), base) << i;
  }
  EXPECT_NE(hash_bytes(std::string_view("a\0", 2)), hash_bytes("a"));
  EXPECT_EQ(hash_bytes(text), base);
  EXPECT_EQ(base.hex().size(), 32u);
}

}  // namespace
}  // namespace cdynamo::runtime
