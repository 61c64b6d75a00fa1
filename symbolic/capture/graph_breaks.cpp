#include <cstring>

#include "symbolic/capture/value.h"
#include "symbolic/interop/stack_limit.h"

namespace cdynamo::symbolic {

namespace {
struct Row {
  const char *id, *what, *why, *instead;
};
constexpr Row kRows[] = {
#define CDYNAMO_BREAK(id, what, why, instead) {#id, what, why, instead},
#include "symbolic/capture/graph_breaks.def"
#undef CDYNAMO_BREAK
};
}  // namespace

BreakRecord break_record(const char* id, const std::string& detail) {
  BreakRecord record;
  record.id = id;
  for (const Row& row : kRows) {
    if (std::strcmp(row.id, id) != 0) continue;
    record.what = detail.empty() ? row.what : std::string(row.what) + " " + detail;
    record.why = row.why;
    record.instead = row.instead;
    return record;
  }
  record.what = detail;
  record.why = "it is not captured";
  record.instead = "move it out of the compiled function";
  return record;
}

void check_stack() {
  if (stack_is_low()) break_graph("CD0007", "");
}

void break_graph(const char* id, std::string detail) { throw GraphBreak{break_record(id, detail)}; }

}  // namespace cdynamo::symbolic
