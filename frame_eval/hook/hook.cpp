#include "frame_eval/hook/hook.h"

#include <algorithm>
#include <utility>

#include "frame_eval/hook/calls.h"
#include "frame_eval/hook/code_slot.h"
#include "frame_eval/hook/frame.h"
#include "symbolic/interop/moving_call.h"
#include "symbolic/interop/stack_limit.h"

namespace cdynamo::frame_eval {
namespace {

thread_local OwnerPtr current_owner;
thread_local PyCodeObject* code_to_let_pass = nullptr;
thread_local OwnedArguments owned_by_let_pass;
thread_local int installs_of_thread = 0;  // HookScopes of this thread that have the hook on

CodeFolders& folders() {
  static auto* instance = new CodeFolders();
  return *instance;
}

// The length of the longest folder that the path lies in; 0: none.
size_t longest_match(const std::vector<std::string>& names, const std::string& path) {
  size_t longest = 0;
  for (const std::string& name : names)
    if (path.compare(0, name.size(), name) == 0) longest = std::max(longest, name.size());
  return longest;
}

CodeVerdict decide(PyCodeObject* code) {
  constexpr int kSuspended = CO_GENERATOR | CO_COROUTINE | CO_ASYNC_GENERATOR | CO_ITERABLE_COROUTINE;
  if (code->co_flags & kSuspended || !(code->co_flags & CO_OPTIMIZED)) return CodeVerdict::kSkipFrame;
  const char* file = PyUnicode_AsUTF8(code->co_filename);
  if (!file) {
    PyErr_Clear();
    return CodeVerdict::kSkipFrame;
  }
  if (longest_match(folders().skipped_with_callees, file)) return CodeVerdict::kSkipFrameAndCallees;
  const size_t skipped = longest_match(folders().skipped, file);
  return skipped > 0 && longest_match(folders().kept, file) <= skipped ? CodeVerdict::kSkipFrame
                                                                       : CodeVerdict::kCompile;
}

// The verdict is kept in the code object's extra slot, one more than the value.
const CodeSlot& verdict_slot() {
  static const CodeSlot slot(nullptr);
  return slot;
}

PyObject* evaluate(PyThreadState* tstate, CdynamoFrame* frame, int throw_flag) {
  if (symbolic::stack_is_low() || cdynamo_recursion_is_deep(tstate))
    return cdynamo_run_without_hook(tstate, frame, throw_flag);
  if (!current_owner || throw_flag || cdynamo_is_tracing(tstate))
    return cdynamo_run_default(tstate, frame, throw_flag);
  PyCodeObject* code = cdynamo_frame_code(frame);
  symbolic::drop_moved_arguments(code);
  if (code == code_to_let_pass) {
    code_to_let_pass = nullptr;
    const OwnedArguments owned = std::exchange(owned_by_let_pass, {});
    owned.drop();  // the frame has references of its own
    if (owned.locals && *owned.locals) cdynamo_give_locals(frame, owned.locals->release());
    return cdynamo_run_default(tstate, frame, throw_flag);
  }
  PyObject* result = nullptr;
  const CodeVerdict verdict = code_verdict(code);
  if (verdict == CodeVerdict::kSkipFrameAndCallees) return run_with_callees_uncompiled(tstate, frame);
  if (verdict == CodeVerdict::kCompile && run_compiled(tstate, frame, code, OwnerPtr(current_owner), &result))
    return result;
  return cdynamo_run_default(tstate, frame, throw_flag);
}

// The hook is off, where no other thread has it on: with one, CPython's calls from Python to Python take the long way.
class WithoutHook {
 public:
  WithoutHook() : taken_off_(cdynamo_hook_count() == installs_of_thread ? installs_of_thread : 0) {
    for (int i = 0; i < taken_off_; ++i) cdynamo_hook_uninstall();
    installs_of_thread -= taken_off_;
  }
  ~WithoutHook() {
    for (int i = 0; i < taken_off_; ++i) cdynamo_hook_install(evaluate);
    installs_of_thread += taken_off_;
  }
  WithoutHook(const WithoutHook&) = delete;

 private:
  const int taken_off_;
};

}  // namespace

// The frame and all that it calls, in plain Python.
PyObject* run_with_callees_uncompiled(PyThreadState* tstate, CdynamoFrame* frame) {
  HookScope nothing_is_compiled(nullptr, nullptr);
  const WithoutHook plain;
  return cdynamo_run_default(tstate, frame, 0);
}

HookScope::HookScope(OwnerPtr owner, PyCodeObject* let_pass, OwnedArguments owned)
    : previous_(std::move(current_owner)),
      previous_pass_(code_to_let_pass),
      previous_owned_(owned_by_let_pass),
      installed_(owner != nullptr) {
  current_owner = std::move(owner);
  code_to_let_pass = let_pass;
  owned_by_let_pass = owned;
  if (installed_) {
    cdynamo_hook_install(evaluate);
    ++installs_of_thread;
  }
}

HookScope::~HookScope() {
  if (installed_) {
    cdynamo_hook_uninstall();
    --installs_of_thread;
  }
  current_owner = std::move(previous_);
  code_to_let_pass = previous_pass_;
  owned_by_let_pass = previous_owned_;
}

const OwnerPtr& hook_owner() { return current_owner; }

CodeVerdict code_verdict(PyCodeObject* code) {
  void* kept = verdict_slot().get(code);
  if (!kept) {
    kept = reinterpret_cast<void*>(static_cast<intptr_t>(decide(code)) + 1);
    if (!verdict_slot().set(code, kept)) PyErr_Clear();
  }
  return static_cast<CodeVerdict>(reinterpret_cast<intptr_t>(kept) - 1);
}

bool is_library_code(PyCodeObject* code) {
  const char* file = PyUnicode_AsUTF8(code->co_filename);
  if (!file) PyErr_Clear();
  return file && longest_match(folders().libraries, file) > 0;
}

void set_code_folders(CodeFolders names) { folders() = std::move(names); }

}  // namespace cdynamo::frame_eval
