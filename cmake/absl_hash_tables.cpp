// What abseil's hash tables need out of line, in place of libabsl_raw_hash_set.a: Debian's archive is built without -fPIC, and the
// thread-local counter with which it varies the order of insertion cannot be linked into a shared object. Here the order does not vary.
#include <absl/container/internal/raw_hash_set.h>

#include <cstring>
#include <stdexcept>

namespace absl {
ABSL_NAMESPACE_BEGIN
namespace container_internal {

alignas(16) const ctrl_t kEmptyGroup[16] = {
    ctrl_t::kSentinel, ctrl_t::kEmpty, ctrl_t::kEmpty, ctrl_t::kEmpty, ctrl_t::kEmpty, ctrl_t::kEmpty,
    ctrl_t::kEmpty,    ctrl_t::kEmpty, ctrl_t::kEmpty, ctrl_t::kEmpty, ctrl_t::kEmpty, ctrl_t::kEmpty,
    ctrl_t::kEmpty,    ctrl_t::kEmpty, ctrl_t::kEmpty, ctrl_t::kEmpty};

bool ShouldInsertBackwards(size_t, const ctrl_t*) { return false; }

void HashTableSizeOverflow() { throw std::length_error("hash table: too many elements"); }

// Deleted slots become empty ones and full ones deleted, before a rehash in place; the control bytes that repeat the first group's follow.
void ConvertDeletedToEmptyAndFullToDeleted(ctrl_t* ctrl, size_t capacity) {
  for (ctrl_t* at = ctrl; at < ctrl + capacity; at += Group::kWidth)
    Group{at}.ConvertSpecialToEmptyAndFullToDeleted(at);
  std::memcpy(ctrl + capacity + 1, ctrl, NumClonedBytes());
  ctrl[capacity] = ctrl_t::kSentinel;
}

template FindInfo find_first_non_full(const ctrl_t*, size_t, size_t);

}  // namespace container_internal
ABSL_NAMESPACE_END
}  // namespace absl
