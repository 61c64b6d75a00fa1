// Random numbers by PyTorch's own operators, through the dispatcher: the same kernels and the same generator
// as eager's, so the same numbers.
#include <cstring>
#include <iterator>
#include <vector>

#include "runtime/library/library.h"
#include "runtime/library/torch_shim.h"

namespace cdynamo::runtime {
namespace {

bool is_row_major(const TensorView& view) {
  int64_t expected = 1;
  for (int d = view.rank; d-- > 0;) {
    if (view.sizes[d] != 1 && view.strides[d] != expected) return false;
    expected *= view.sizes[d];
  }
  return true;
}

int64_t count(const TensorView& view) {
  int64_t total = 1;
  for (int d = 0; d < view.rank; ++d) total *= view.sizes[d];
  return total;
}

// From row-major memory to the view's strides.
void spread(const char* from, const TensorView& to) {
  const int64_t width = bytes(to.dtype), total = count(to);
  std::vector<int64_t> index(to.rank, 0);
  for (int64_t i = 0; i < total; ++i) {
    int64_t place = 0;
    for (int d = 0; d < to.rank; ++d) place += index[d] * to.strides[d];
    std::memcpy(static_cast<char*>(to.data) + place * width, from + i * width, width);
    for (int d = to.rank; d-- > 0 && ++index[d] == to.sizes[d];) index[d] = 0;
  }
}

}  // namespace

int draw_kind(std::string_view distribution) {
  for (size_t i = 0; i < std::size(kDraws); ++i)
    if (distribution == kDraws[i].distribution) return static_cast<int>(i);
  return -1;
}

bool library_draw(const LibraryArgs& args, RunError* error) {
  const TensorView& out = args.output();
  if (count(out) == 0) return true;
  // The order of the numbers is that of the memory: row-major, whatever the plan makes of it afterwards.
  TensorView row_major = out;
  std::vector<char> memory;
  std::vector<int64_t> strides(out.rank);
  if (!is_row_major(out)) {
    memory.resize(count(out) * bytes(out.dtype));
    row_major.data = memory.data();
    for (int64_t d = out.rank, step = 1; d-- > 0; step *= out.sizes[d]) strides[d] = step;
    row_major.strides = strides.data();
  }
  if (!torch_draw(kDraws[args.integers[0]], row_major, args.operands[0], args.numbers)) {
    *error = {RunError::kRuntimeError,
              std::string("PyTorch could not draw random numbers: ") + kDraws[args.integers[0]].op};
    return false;
  }
  if (!memory.empty()) spread(memory.data(), out);
  return true;
}

}  // namespace cdynamo::runtime
