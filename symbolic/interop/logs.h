// Log topics, written through Python's `logging` as "cdynamo.<topic>". A topic that is off costs one load.
//
//   if (log_enabled(Topic::kRecompiles)) log(Topic::kRecompiles, text);
#pragma once

#include <string>

namespace cdynamo::symbolic {

#define CDYNAMO_TOPICS(X)                                                               \
  X(Recompiles, "recompiles", "why a function was compiled again")                      \
  X(GraphBreaks, "graph_breaks", "where a graph ended, why, and what to write instead") \
  X(Guards, "guards", "what was assumed of each compiled graph")                        \
  X(Bytecode, "bytecode", "the bytecode before and after")                              \
  X(Graph, "graph", "the captured graph")                                               \
  X(Aot, "aot", "the graph after functionalisation and decomposition")                  \
  X(Fusion, "fusion", "which operators were fused into which kernels")                  \
  X(OutputCode, "output_code", "the loops and the LLVM IR of each kernel")              \
  X(Perf, "perf", "where compile time went")

enum class Topic : int {
#define CDYNAMO_TOPIC(id, name, doc) k##id,
  CDYNAMO_TOPICS(CDYNAMO_TOPIC)
#undef CDYNAMO_TOPIC
      kCount
};

const char* topic_name(Topic topic);
bool log_enabled(Topic topic);
void set_log_enabled(Topic topic, bool enabled);
// Takes the GIL's holder for granted. Errors of a handler are printed as unraisable and forgotten.
void log(Topic topic, const std::string& message);
// On the logger "cdynamo": what the user should know without having asked.
void log_warning(const std::string& message);

}  // namespace cdynamo::symbolic
