#include "frame_eval/cache/owner.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "frame_eval/cache/entry_pool.h"
#include "symbolic/frames/decoded_codes.h"
#include "symbolic/interop/loaded_object.h"
#include "symbolic/interop/tensor_access.h"
#include "symbolic/interop/torch_access.h"

namespace cdynamo::frame_eval {
namespace {

// Modules of one owner and one code that are told apart, and entries that are compiled for them: a program that
// makes modules without end does not compile without end.
constexpr int kMostReceivers = 256;

std::unordered_set<Owner*>& all_owners() {
  static auto* owners = new std::unordered_set<Owner*>();
  return *owners;
}

// torch.nn.Module; null where torch is not loaded.
PyTypeObject* module_type() {
  static PyObject* type = nullptr;
  if (!type && symbolic::torch_is_loaded()) type = symbolic::loaded_object("torch.nn.Module").release();
  return reinterpret_cast<PyTypeObject*>(type);
}

bool is_module(PyObject* object) {
  PyTypeObject* type = Py_TYPE(object);
  if (!(type->tp_flags & Py_TPFLAGS_HEAPTYPE)) return false;
  const symbolic::torch_access::Api* api = symbolic::torch_access::api();
  if (api && type == api->tensor_type) return false;  // what most functions are called with
  PyTypeObject* module = module_type();
  return module && PyType_IsSubtype(type, module);
}

bool is_alive(const PyRef& weak_reference) {
  return reinterpret_cast<PyWeakReference*>(weak_reference.get())->wr_object != Py_None;
}

}  // namespace

Owner::Owner(ConfigPtr config, std::string name) : config_(std::move(config)), name_(std::move(name)) {
  all_owners().insert(this);
}

Owner::~Owner() {
  all_owners().erase(this);
  for (auto& [code, caches] : caches_) drop_owner(code, this);
  for (const std::shared_ptr<CodeCache>& cache : all_caches()) cache->retire();
  last_ = nullptr;
  caches_.clear();
  symbolic::forget_dead_codes();  // resume functions and continuations
}

CodeCache& Owner::cache(PyCodeObject* code, PyObject* const* args, Py_ssize_t count, bool is_root) {
  PyObject* receiver = count > 0 && args[0] && is_module(args[0]) ? args[0] : nullptr;
  if (code == last_code_ && receiver == last_receiver_ && last_ &&
      (!last_reference_ || is_alive(last_reference_)))
    return *last_;
  PyRef reference;
  CodeCache& found = find(code, receiver, is_root, &reference);
  last_code_ = code;
  last_reference_ = std::move(reference);
  last_receiver_ = receiver;
  last_ = &found;
  return found;
}

CodeCache& Owner::find(PyCodeObject* code, PyObject* receiver, bool is_root, PyRef* reference) {
  auto known = caches_.find(code);
  if (known == caches_.end()) {
    note_owner(code, this);
    known = caches_.emplace(code, std::make_unique<Caches>()).first;
  }
  Caches& caches = *known->second;
  if (Receiver* own = receiver ? find_own(caches, code, receiver, is_root) : nullptr) {
    *reference = own->weak_reference;
    return *own->cache;
  }
  if (!caches.common) caches.common = std::make_shared<CodeCache>(*this, code, nullptr, is_root);
  return *caches.common;
}

// The module's own. Null: it has none, there are too many.
Owner::Receiver* Owner::find_own(Caches& caches, PyCodeObject* code, PyObject* receiver, bool is_root) {
  const auto known = caches.receivers.find(receiver);
  if (known != caches.receivers.end() && is_alive(known->second.weak_reference)) return &known->second;
  // Dropping one may run Python code that comes here: it finds the map whole.
  std::vector<std::shared_ptr<CodeCache>> dropped;
  if (known != caches.receivers.end()) {
    dropped.push_back(std::move(known->second.cache));
    caches.receivers.erase(known);
  } else if (caches.receivers.size() >= kMostReceivers) {
    std::erase_if(caches.receivers, [&](auto& item) {
      const bool is_dead = !is_alive(item.second.weak_reference);
      if (is_dead) dropped.push_back(std::move(item.second.cache));
      return is_dead;
    });
  }
  for (std::shared_ptr<CodeCache>& cache : dropped) CodeCache::give_up(std::move(cache));
  if (caches.receivers.size() >= kMostReceivers || caches.entries_of_receivers >= kMostReceivers)
    return nullptr;
  PyRef reference = PyRef::steal(PyWeakref_NewRef(receiver, nullptr));
  if (!reference) {
    PyErr_Clear();
    return nullptr;
  }
  const auto row = caches.receivers.insert_or_assign(
      receiver, Receiver{std::move(reference), std::make_shared<CodeCache>(*this, code, receiver, is_root)});
  return &row.first->second;
}

std::vector<std::shared_ptr<CodeCache>> Owner::all_caches() const {
  std::vector<std::shared_ptr<CodeCache>> all;
  for (const auto& [code, caches] : caches_) {
    if (caches->common) all.push_back(caches->common);
    for (const auto& [object, receiver] : caches->receivers)
      if (receiver.cache) all.push_back(receiver.cache);
  }
  return all;
}

void Owner::count_entry_of_receiver(PyCodeObject* code) {
  const auto found = caches_.find(code);
  if (found != caches_.end()) ++found->second->entries_of_receivers;
}

std::shared_ptr<FrameYield> Owner::yield_of(const std::shared_ptr<OriginalCode>& original) {
  std::shared_ptr<FrameYield>& yield = yields_[original];
  if (!yield) yield = std::make_shared<FrameYield>();
  return yield;
}

bool Owner::is_new(const symbolic::BreakRecord& record) {
  std::string place = absl::StrCat(record.id, "|", record.what);
  std::vector<std::string> ways;  // to the place, the innermost frame first
  for (auto frame = record.stack.rbegin(); frame != record.stack.rend(); ++frame) {
    absl::StrAppend(&place, "|", frame->file, ":", frame->line, ":", frame->function);
    ways.push_back(place);
  }
  if (ways.empty()) ways.push_back(place);
  if (reported_.contains(ways.back())) return false;
  reported_.insert(ways.begin(), ways.end());
  return true;
}

void Owner::clear() {
  // Dropping entries may run Python code (destructors) that calls what was optimized: work on a copy.
  const std::vector<std::shared_ptr<CodeCache>> all = all_caches();
  for (auto& [code, caches] : caches_) caches->entries_of_receivers = 0;
  reported_.clear();
  for (auto& [original, yield] : yields_) *yield = {};
  for (const std::shared_ptr<CodeCache>& cache : all) cache->clear();
}

void Owner::forget(PyCodeObject* code) {
  if (code == last_code_) {
    last_code_ = nullptr;
    last_reference_ = PyRef();
    last_ = nullptr;
  }
  const auto known = caches_.extract(code);  // given up when the map is whole again
  if (!known) return;
  // The code of a function may be replaced while a call of it runs.
  CodeCache::give_up(std::move(known.mapped()->common));
  for (auto& [object, receiver] : known.mapped()->receivers) CodeCache::give_up(std::move(receiver.cache));
}

void reset_all_caches() {
  clear_all_pools();
  std::vector<std::weak_ptr<Owner>> owners;
  for (Owner* owner : all_owners()) owners.push_back(owner->weak_from_this());
  for (const std::weak_ptr<Owner>& weak : owners)
    if (OwnerPtr owner = weak.lock()) owner->clear();
}

}  // namespace cdynamo::frame_eval
