// Size expressions as i64 values of LLVM IR, each computed once at the end of a function's entry block.
#pragma once

#include <llvm/IR/IRBuilder.h>

#include <functional>
#include <utility>
#include <vector>

#include "graph/graph.h"

namespace cdynamo::lowering::emit {

class SizeEmitter {
 public:
  // `symbol` gives the value of a size symbol; it is asked with the insertion point in `entry`, which ends in a terminator.
  SizeEmitter(llvm::IRBuilder<>& ir, std::function<llvm::Value*(int symbol)> symbol)
      : ir_(ir), symbol_(std::move(symbol)) {}
  void set_entry(llvm::BasicBlock* entry) { entry_ = entry; }
  llvm::Value* operator()(const graph::Sym& sym);

 private:
  llvm::IRBuilder<>& ir_;
  std::function<llvm::Value*(int)> symbol_;
  llvm::BasicBlock* entry_ = nullptr;
  std::vector<std::pair<const graph::SymNode*, llvm::Value*>> known_;
};

}  // namespace cdynamo::lowering::emit
