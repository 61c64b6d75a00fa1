#include "frame_eval/cache/entry_pool.h"

#include <algorithm>
#include <map>
#include <unordered_set>
#include <utility>

#include "frame_eval/cache/owner.h"
#include "frame_eval/hook/code_slot.h"

namespace cdynamo::frame_eval {
namespace {

constexpr size_t kMostRetired = 8;

std::unordered_set<EntryPool*>& all_pools() {
  static auto* pools = new std::unordered_set<EntryPool*>();
  return *pools;
}

// What hangs in the code object's extra slot.
struct CodeExtra {
  using Key = std::pair<const Config*, PyTypeObject*>;
  explicit CodeExtra(PyCodeObject* of) : code(of) {}

  PyCodeObject* code;
  std::map<Key, std::weak_ptr<EntryPool>> pools;
  std::vector<std::shared_ptr<EntryPool>> kept;
  std::unordered_set<Owner*> owners;
  size_t next_sweep = 16;

  // Receivers' classes come and go.
  void sweep() {
    if (pools.size() < next_sweep) return;
    std::erase_if(pools, [](const auto& item) { return item.second.expired(); });
    next_sweep = std::max<size_t>(16, 2 * pools.size());
  }
};

void free_extra(void* pointer) {
  auto* extra = static_cast<CodeExtra*>(pointer);
  if (!extra) return;  // CPython asks for every code object that has any extra
  const std::unordered_set<Owner*> owners = std::exchange(extra->owners, {});
  for (Owner* owner : owners) owner->forget(extra->code);
  delete extra;
}

const CodeSlot& extra_slot() {
  static const CodeSlot slot(free_extra);
  return slot;
}

CodeExtra* find_extra(PyCodeObject* code) { return static_cast<CodeExtra*>(extra_slot().get(code)); }

CodeExtra& extra_of(PyCodeObject* code) {
  if (CodeExtra* extra = find_extra(code)) return *extra;
  auto extra = std::make_unique<CodeExtra>(code);
  if (!extra_slot().set(code, extra.get())) throw symbolic::PythonError{};
  return *extra.release();
}

std::shared_ptr<Entry> owned(const std::shared_ptr<Entry>& entry) { return entry; }
std::shared_ptr<Entry> owned(const std::weak_ptr<Entry>& entry) { return entry.lock(); }

// Those for calls of this form, the latest first; `known` has the latest last.
std::vector<std::shared_ptr<Entry>> latest_of(const auto& known, const ArgumentForm& form) {
  std::vector<std::shared_ptr<Entry>> found;
  for (auto at = known.rbegin(); at != known.rend(); ++at)
    if (std::shared_ptr<Entry> entry = owned(*at); entry && entry->form.is(form))
      found.push_back(std::move(entry));
  return found;
}

}  // namespace

EntryPool::EntryPool(ConfigPtr config, bool keeps_retired)
    : config_(std::move(config)), keeps_retired_(keeps_retired) {
  all_pools().insert(this);
}

EntryPool::~EntryPool() { all_pools().erase(this); }

void EntryPool::add(const std::shared_ptr<Entry>& entry) {
  std::erase_if(entries_, [](const auto& known) { return known.expired(); });
  entries_.push_back(entry);
}

void EntryPool::retire(std::shared_ptr<Entry> entry) {
  if (!keeps_retired_ || std::find(retired_.begin(), retired_.end(), entry) != retired_.end()) return;
  retired_.push_back(std::move(entry));
  if (retired_.size() <= kMostRetired) return;
  const std::shared_ptr<Entry> dropped = std::move(retired_.front());
  retired_.pop_front();
}

std::vector<std::shared_ptr<Entry>> EntryPool::entries(const ArgumentForm& form) const {
  return latest_of(entries_, form);
}

std::vector<std::shared_ptr<Entry>> EntryPool::retired(const ArgumentForm& form) const {
  return latest_of(retired_, form);
}

void EntryPool::clear() {
  entries_.clear();
  const std::deque<std::shared_ptr<Entry>> dropped = std::exchange(retired_, {});
}

std::shared_ptr<EntryPool> entry_pool(PyCodeObject* code, const ConfigPtr& config,
                                      PyTypeObject* receiver_type) {
  CodeExtra& extra = extra_of(code);
  std::weak_ptr<EntryPool>& known = extra.pools[{config.get(), receiver_type}];
  if (std::shared_ptr<EntryPool> pool = known.lock()) return pool;
  const bool keeps = config->shared && !receiver_type;
  auto pool = std::make_shared<EntryPool>(config, keeps);
  known = pool;
  if (keeps) extra.kept.push_back(pool);
  extra.sweep();
  return pool;
}

void note_owner(PyCodeObject* code, Owner* owner) { extra_of(code).owners.insert(owner); }

void drop_owner(PyCodeObject* code, Owner* owner) {
  if (CodeExtra* extra = find_extra(code)) extra->owners.erase(owner);
}

void clear_all_pools() {
  // Dropping entries may run Python code (destructors) that makes and frees pools: work on a copy.
  const std::vector<EntryPool*> pools(all_pools().begin(), all_pools().end());
  for (EntryPool* pool : pools)
    if (all_pools().contains(pool)) pool->clear();
}

}  // namespace cdynamo::frame_eval
