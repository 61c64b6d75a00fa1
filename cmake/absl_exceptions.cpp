// The exceptions that abseil throws, in place of libabsl_throw_delegate.a: Debian's archive is built without -fPIC, and what
// names the classes of libstdc++ in it cannot be linked into a shared object.
#include <absl/base/internal/throw_delegate.h>

#include <functional>
#include <new>
#include <stdexcept>

namespace absl {
ABSL_NAMESPACE_BEGIN
namespace base_internal {

#define CDYNAMO_THROW(function, type)                          \
  void function(const std::string& what) { throw type(what); } \
  void function(const char* what) { throw type(what); }

CDYNAMO_THROW(ThrowStdLogicError, std::logic_error)
CDYNAMO_THROW(ThrowStdInvalidArgument, std::invalid_argument)
CDYNAMO_THROW(ThrowStdDomainError, std::domain_error)
CDYNAMO_THROW(ThrowStdLengthError, std::length_error)
CDYNAMO_THROW(ThrowStdOutOfRange, std::out_of_range)
CDYNAMO_THROW(ThrowStdRuntimeError, std::runtime_error)
CDYNAMO_THROW(ThrowStdRangeError, std::range_error)
CDYNAMO_THROW(ThrowStdOverflowError, std::overflow_error)
CDYNAMO_THROW(ThrowStdUnderflowError, std::underflow_error)

#undef CDYNAMO_THROW

void ThrowStdBadFunctionCall() { throw std::bad_function_call(); }
void ThrowStdBadAlloc() { throw std::bad_alloc(); }

}  // namespace base_internal
ABSL_NAMESPACE_END
}  // namespace absl
