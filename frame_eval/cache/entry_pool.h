// EntryPool: the entries of one code object under one config, whoever owns them. What an owner has no entry for
// may fit one of another's: instances of a class and closures of a def share compiled code this way.
//
// A pool does not keep entries alive, with one exception: functions that are made anew for each call
// (`optimize(lambda x: …)(x)`, a decorated def in a function) die with their entries, so of what was compiled for
// functions that are gone the last few stay with the code object.
#pragma once

#include <deque>
#include <memory>
#include <vector>

#include "frame_eval/cache/entry.h"
#include "frame_eval/hook/config.h"

namespace cdynamo::frame_eval {

class EntryPool {
 public:
  EntryPool(ConfigPtr config, bool keeps_retired);
  ~EntryPool();
  EntryPool(const EntryPool&) = delete;

  void add(const std::shared_ptr<Entry>& entry);
  // Its owner is gone.
  void retire(std::shared_ptr<Entry> entry);
  // Those for calls of this form, the latest first.
  std::vector<std::shared_ptr<Entry>> entries(const ArgumentForm& form) const;
  // Those without an owner among them.
  std::vector<std::shared_ptr<Entry>> retired(const ArgumentForm& form) const;
  void clear();

 private:
  ConfigPtr config_;  // its address is part of the key by which a pool is found
  bool keeps_retired_;
  std::vector<std::weak_ptr<Entry>> entries_;
  std::deque<std::shared_ptr<Entry>> retired_;  // the latest last
};

// The pool of a code object, made where there is none: one for each config and each class of receivers (null:
// the code is no method of a module). It lives as long as its owners do; that of functions, under options that
// others may ask for too, as long as the code.
std::shared_ptr<EntryPool> entry_pool(PyCodeObject* code, const ConfigPtr& config,
                                      PyTypeObject* receiver_type);

// `owner` holds a cache of this code: Owner::forget is called when the code object is freed.
void note_owner(PyCodeObject* code, Owner* owner);
void drop_owner(PyCodeObject* code, Owner* owner);

void clear_all_pools();

}  // namespace cdynamo::frame_eval
