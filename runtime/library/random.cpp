// Random numbers by PyTorch's own operators, through the dispatcher: the same kernels and the same generator
// as eager's, so the same numbers.
#include <algorithm>
#include <cstring>
#include <iterator>
#include <vector>

#include "absl/strings/str_cat.h"

#include "runtime/abseil.h"
#include "runtime/library/convert.h"
#include "runtime/library/library.h"
#include "runtime/library/random_layout.h"
#include "runtime/library/torch_shim.h"

namespace cdynamo::runtime {
namespace {

void copy(const TensorView& from, const TensorView& to) {
  const int64_t width = bytes(to.dtype), total = count_elements(to);
  std::vector<int64_t> index(to.rank, 0);
  for (int64_t i = 0; i < total; ++i) {
    int64_t source = 0, place = 0;
    for (int d = 0; d < to.rank; ++d) source += index[d] * from.strides[d], place += index[d] * to.strides[d];
    std::memcpy(static_cast<char*>(to.data) + place * width,
                static_cast<const char*>(from.data) + source * width, width);
    for (int d = to.rank; d-- > 0 && ++index[d] == to.sizes[d];) index[d] = 0;
  }
}

}  // namespace

bool library_random(const LibraryArgs& args, RunError* error) {
  const TensorView& out = args.output();
  if (count_elements(out) == 0) return true;
  TensorView target = out;
  std::vector<char> memory;
  const std::vector<int64_t> strides = packed_strides(args, out);
  if (!has_strides(out, strides)) {
    memory.resize(count_elements(out) * bytes(out.dtype));
    target.data = memory.data();
    target.strides = strides.data();
  }
  const auto* distribution = std::ranges::find(kDistributions, args.text, &Distribution::name);
  if (distribution == std::end(kDistributions) ||
      !torch_random(*distribution, target, args.operands[0], args.operands[1], args.numbers)) {
    *error = {RunError::kRuntimeError,
              absl::StrCat("PyTorch could not draw random numbers: ", absl_view(args.text))};
    return false;
  }
  if (!memory.empty()) copy(target, out);
  return true;
}

}  // namespace cdynamo::runtime
