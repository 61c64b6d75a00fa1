// The PEP 523 hook: on only while Python code runs whose frames are to be compiled, never on a hit of a fully
// captured function.
//
//   HookScope scope(config);             // frames that this thread starts from here on are looked at
//   PyObject_Vectorcall(function, …);
#pragma once

#include <string>
#include <vector>

#include "frame_eval/config.h"

namespace cdynamo::frame_eval {

class HookScope {
 public:
  // Null config: frames run in plain Python, as during capture. The first frame of `let_pass` is not looked
  // at.
  explicit HookScope(ConfigPtr config, PyCodeObject* let_pass = nullptr);
  ~HookScope();
  HookScope(const HookScope&) = delete;

 private:
  ConfigPtr previous_;
  PyCodeObject* previous_pass_;
  bool installed_;
};

// The config under which this thread's frames are looked at; null: none.
const ConfigPtr& hook_config();

// Code that is never compiled on its own: cdynamo's, the standard library's, torch's but for
// torch.nn.modules, NumPy's, generators, module bodies, and what the user marked with cdynamo.disable.
bool is_skipped_code(PyCodeObject* code);
// Python's side of the package names the folders whose code is skipped (and those within them that are not).
void set_skipped_folders(std::vector<std::string> skipped, std::vector<std::string> kept);

}  // namespace cdynamo::frame_eval
