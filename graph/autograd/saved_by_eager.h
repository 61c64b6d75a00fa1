// What eager's operators save of a forward graph, as far as the program can tell: it may write to an input or a result once the graph
// has run, and eager refuses a backward only where an operator of that history has saved it. What the program may write to without an
// error is neither kept as it is nor read again: of `(x > 0) * y` eager keeps the mask, and so do we.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "graph/autograd/partition.h"

namespace cdynamo::graph {

// By input: its content is another after the graph.
std::vector<bool> written_inputs(const Graph& forward);

// Sets of a graph's outputs, one for each of so many things.
class OutputSets {
 public:
  OutputSets(const Graph& graph, size_t sets)
      : words_((graph.outputs.size() + 63) / 64), bits_(sets * words_) {}

  void add(size_t set, size_t output) { bits_.at(set * words_ + output / 64) |= uint64_t{1} << output % 64; }
  void add_all(size_t set, const OutputSets& from, size_t other);
  bool includes(size_t set, const OutputSets& of, size_t other) const;

 private:
  size_t words_;
  std::vector<uint64_t> bits_;
};

class SavedByEager {
 public:
  SavedByEager(const Graph& forward, const std::vector<Needed>& needed);

  // May the backward compute this node again from what is kept of the operand? What the program can write to is read only for
  // histories in which eager has saved it too, and would raise.
  bool may_start_from(const Value* operand, const Node& node) const;
  // See Kept.
  bool is_copied(const Value* value) const { return is_copied_[value->id]; }

 private:
  void find_reach();
  void find_readers();
  void find_saved_results();
  void find_saved();
  void find_copied();
  void note_operands(Node& node, std::vector<bool>& visited);
  void add_histories(OutputSets& sets, const Value* value, const Needed& needed,
                     const std::function<bool(int)>& which = {}) const;

  const Graph& graph_;
  const std::vector<Needed>& needed_;
  std::vector<bool> written_;        // by input
  std::vector<bool> is_given_back_;  // by value id: the program gets it, or a view of it
  std::vector<bool> saves_result_;   // by value id
  std::vector<bool> is_copied_;      // by value id
  size_t num_calls_;
  // By value id, and by call: outputs in whose histories it is.
  OutputSets reach_, reach_of_calls_;
  // By value id: outputs in whose histories derivatives read what is computed from it, and those in which eager has saved it.
  OutputSets read_for_, saved_for_;
};

}  // namespace cdynamo::graph
