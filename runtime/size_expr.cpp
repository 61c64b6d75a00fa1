#include <algorithm>

#include "runtime/executable.h"

namespace cdynamo::runtime {
namespace {

int64_t floor_div(int64_t a, int64_t b) {
  if (b == 0) return 0;
  return a / b - ((a % b != 0) && ((a < 0) != (b < 0)));
}

}  // namespace

int64_t SizeExpr::evaluate(const int64_t* symbols) const {
  if (program.empty()) return constant;
  constexpr int kMostDepth = 64;
  int64_t stack[kMostDepth];
  int top = 0;
  for (size_t i = 0; i + 1 < program.size(); i += 2) {
    const int64_t operand = program[i + 1];
    if (program[i] == kConst || program[i] == kSymbol) {
      if (top == kMostDepth) return -1;
      stack[top++] = program[i] == kConst ? operand : symbols[operand];
      continue;
    }
    const int64_t b = stack[--top];
    int64_t& a = stack[top - 1];
    switch (program[i]) {
      // Overflow saturates, so that an arena of such a size is refused.
      case kAdd:
        if (__builtin_add_overflow(a, b, &a)) a = INT64_MAX;
        break;
      case kMul:
        if (__builtin_mul_overflow(a, b, &a)) a = INT64_MAX;
        break;
      case kFloorDiv: a = floor_div(a, b); break;
      case kMod: a = b == 0 ? 0 : a - floor_div(a, b) * b; break;
      case kMin: a = std::min(a, b); break;
      case kMax: a = std::max(a, b); break;
    }
  }
  return stack[0];
}

}  // namespace cdynamo::runtime
