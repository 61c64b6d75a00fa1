// Broadcasting of sizes, and what goes with it: dims, error texts.
#pragma once

#include <span>

#include "graph/op.h"

namespace cdynamo::graph {

// The common sizes. Sizes that are symbols are compared with guards. Throws UserError in the framework's
// words.
std::vector<Sym> broadcast_sizes(const Graph& graph, const std::vector<Sym>& a, const std::vector<Sym>& b);

// -rank..rank-1 to 0..rank-1; a 0-dim tensor has dim 0 where `allow_zero_dim`. Throws UserError (IndexError).
int64_t wrap_dim(int64_t dim, int64_t rank, bool allow_zero_dim = true);
// Wraps, sorts and refuses duplicates; an empty list means all where `empty_is_all`.
std::vector<int64_t> wrap_dims(std::vector<int64_t> dims, int64_t rank, bool empty_is_all = true);

std::string sizes_text(const std::vector<Sym>& sizes);  // "[2, 3]"

[[noreturn]] void runtime_error(std::string message);
[[noreturn]] void value_error(std::string message);
[[noreturn]] void type_error(std::string message);
[[noreturn]] void index_error(std::string message);

}  // namespace cdynamo::graph
