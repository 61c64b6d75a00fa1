// Branches on values that are known only when the graph has run, in functions that have to be one graph all the
// same (cdynamo.grad). Capture follows the way that this call takes, and the graph gives the conditions as
// results: whoever called it sees whether it was the right way (python/cdynamo/_grad.py).
#pragma once

#include <string>
#include <vector>

#include "symbolic/capture/value.h"

namespace cdynamo::symbolic {

struct FollowedBranches {
  std::string path;                  // which way the first branches go, by "0" and "1"; "?": as in this call
  std::string taken;                 // which way those went that were met
  std::vector<ValuePtr> conditions;  // of those
  PyRef replay;                      // cdynamo._branches.Replay; null until a branch is beyond the path
};

// cdynamo._grad.follow(path): from here on branches are followed. Within a function that is followed already it
// has no effect.
ValuePtr follow_branches(Executor& ex, const CallArgs& args);
// cdynamo._grad.branches(): ([condition, ...], taken) of all branches that were met.
ValuePtr branches_met(Executor& ex, const CallArgs& args);

}  // namespace cdynamo::symbolic
