// Owner: what was optimized (a function, a module, an object), and the compiled entries that it owns: those of
// its own code and those of all frames that it leaves to Python. They end with it.
//
//   optimize(model)   one Owner for the model, whatever the number of views of it
//   optimize(f)       one for the function object
//
// So the key of a cache is: the owner (which has the config), the code object, and, where the frame is a method
// of a torch.nn.Module (as `_call_impl` is, of all of them), the module. Entries that one cache lacks are looked
// for among those of other owners, and of other modules of that class, first (EntryPool).
#pragma once

#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "frame_eval/cache/code_cache.h"
#include "frame_eval/hook/config.h"

namespace cdynamo::frame_eval {

struct OriginalCode;  // frame_eval/resume/entered_code.h

class Owner : public std::enable_shared_from_this<Owner> {
 public:
  // `name`: how reports call it, "Net (model.py:12)".
  Owner(ConfigPtr config, std::string name);
  ~Owner();
  Owner(const Owner&) = delete;

  const ConfigPtr& config() const { return config_; }
  const std::string& name() const { return name_; }

  // The cache for a call of `code` with these arguments: CodeCache::Running holds it. `is_root`: it is what was optimized that is called.
  CodeCache& cache(PyCodeObject* code, PyObject* const* args, Py_ssize_t count, bool is_root);

  // True once for each place: an inlined call that breaks its caller's graph breaks its own as well, when Python
  // calls it.
  bool is_new(const symbolic::BreakRecord& record);
  // Shared by all pieces of a function.
  std::shared_ptr<FrameYield> yield_of(const std::shared_ptr<OriginalCode>& original);
  // Grows with each call that ran compiled code or was compiled.
  int64_t activity() const { return activity_; }
  void note_activity() { ++activity_; }
  // One more entry was compiled for a module that is not what was optimized.
  void count_entry_of_receiver(PyCodeObject* code);

  void clear();                     // drops all entries
  void forget(PyCodeObject* code);  // which is being freed

 private:
  struct Receiver {
    PyRef weak_reference;  // another module may come to be where one was
    std::shared_ptr<CodeCache> cache;
  };
  struct Caches {  // of one code object
    std::shared_ptr<CodeCache> common;
    std::unordered_map<PyObject*, Receiver> receivers;
    int entries_of_receivers = 0;
  };

  // `reference`: the weak reference to a receiver whose own cache it is.
  CodeCache& find(PyCodeObject* code, PyObject* receiver, bool is_root, PyRef* reference);
  Receiver* find_own(Caches& caches, PyCodeObject* code, PyObject* receiver, bool is_root);
  std::vector<std::shared_ptr<CodeCache>> all_caches() const;

  ConfigPtr config_;
  std::string name_;
  std::unordered_map<PyCodeObject*, std::unique_ptr<Caches>> caches_;  // a code object that dies is forgotten
  std::map<std::weak_ptr<OriginalCode>, std::shared_ptr<FrameYield>, std::owner_less<>> yields_;
  int64_t activity_ = 0;
  std::unordered_set<std::string> reported_;  // the places of breaks, and how they are reached
  // The latest answer of `cache`, as long as its receiver lives.
  PyCodeObject* last_code_ = nullptr;
  PyObject* last_receiver_ = nullptr;  // compared only
  PyRef last_reference_;               // weak, to a receiver with a cache of its own
  CodeCache* last_ = nullptr;
};

// Drops every entry of every owner.
void reset_all_caches();

}  // namespace cdynamo::frame_eval
