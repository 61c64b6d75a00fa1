// The PEP 523 hook: on only while Python code runs whose frames are to be compiled, never on a hit of a fully
// captured function.
//
//   HookScope scope(owner);              // frames that this thread starts from here on are looked at
//   PyObject_Vectorcall(function, …);
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "frame_eval/hook/frame.h"
#include "frame_eval/hook/owned_arguments.h"

namespace cdynamo::frame_eval {

class Owner;
using OwnerPtr = std::shared_ptr<Owner>;

class HookScope {
 public:
  // What frames are compiled to belongs to `owner`. Null: frames run in plain Python, as during capture. The first frame of `let_pass` is not looked
  // at; `owned` is dropped when it begins.
  explicit HookScope(OwnerPtr owner, PyCodeObject* let_pass = nullptr, OwnedArguments owned = {});
  ~HookScope();
  HookScope(const HookScope&) = delete;

 private:
  OwnerPtr previous_;
  PyCodeObject* previous_pass_;
  OwnedArguments previous_owned_;
  bool installed_;
};

// Runs the frame and all that it calls in plain Python.
PyObject* run_with_callees_uncompiled(PyThreadState* tstate, CdynamoFrame* frame);

// Whose frames this thread runs; null: none are looked at.
const OwnerPtr& hook_owner();

// kSkipFrame: code that is never compiled on its own, though what it calls may be: cdynamo's, the standard library's,
// torch's but for torch.nn.modules, NumPy's, generators, module bodies. kSkipFrameAndCallees: it and all that it calls runs in
// plain Python: what was marked with `disable`, and checkpoints, whose recomputation has to be what their forward was.
enum class CodeVerdict : uint8_t { kCompile, kSkipFrame, kSkipFrameAndCallees };
CodeVerdict code_verdict(PyCodeObject* code);
// Code of a framework, which its users do not know: reports do not name its lines.
bool is_library_code(PyCodeObject* code);

// Beginnings of file names, named by Python's side of the package.
struct CodeFolders {
  std::vector<std::string> skipped;
  std::vector<std::string> kept;                  // within `skipped`
  std::vector<std::string> skipped_with_callees;  // and all that they call
  std::vector<std::string> libraries;
};
void set_code_folders(CodeFolders names);

}  // namespace cdynamo::frame_eval
