/* Preloaded by training_memory.py: counts the bytes of large heap blocks that are alive, and their peak. Tensors, arenas
 * and a library's buffers are large; Python's and the compiler's own objects are small and left out. glibc only. */
#include <errno.h>
#include <malloc.h>
#include <stdatomic.h>
#include <stddef.h>

#define LARGE (16 * 1024)

extern void* __libc_malloc(size_t);
extern void* __libc_calloc(size_t, size_t);
extern void* __libc_realloc(void*, size_t);
extern void* __libc_memalign(size_t, size_t);
extern void __libc_free(void*);

static atomic_llong live, peak;

static void* counted(void* block) {
  const size_t bytes = block ? malloc_usable_size(block) : 0;
  if (bytes < LARGE) return block;
  const long long now = atomic_fetch_add(&live, bytes) + bytes;
  long long before = atomic_load(&peak);
  while (now > before && !atomic_compare_exchange_weak(&peak, &before, now)) {
  }
  return block;
}

static void uncount(void* block) {
  const size_t bytes = block ? malloc_usable_size(block) : 0;
  if (bytes >= LARGE) atomic_fetch_sub(&live, bytes);
}

void* malloc(size_t bytes) { return counted(__libc_malloc(bytes)); }
void* calloc(size_t count, size_t bytes) { return counted(__libc_calloc(count, bytes)); }
void* memalign(size_t alignment, size_t bytes) { return counted(__libc_memalign(alignment, bytes)); }
void* aligned_alloc(size_t alignment, size_t bytes) { return memalign(alignment, bytes); }

int posix_memalign(void** result, size_t alignment, size_t bytes) {
  void* block = memalign(alignment, bytes);
  if (!block) return ENOMEM;
  *result = block;
  return 0;
}

void* realloc(void* block, size_t bytes) {
  uncount(block);
  void* moved = __libc_realloc(block, bytes);
  if (!moved && bytes) counted(block);
  return counted(moved);
}

void free(void* block) {
  uncount(block);
  __libc_free(block);
}

long long peak_heap_live(void) { return atomic_load(&live); }
long long peak_heap_peak(void) { return atomic_load(&peak); }
void peak_heap_restart(void) { atomic_store(&peak, atomic_load(&live)); }
