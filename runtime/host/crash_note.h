// What a process was doing when it crashed in a kernel: a line on stderr, before whatever else handles the signal.
#pragma once

#include <string>

namespace cdynamo::runtime {

// While one lives, a crash of the process says `text`, which outlives it. Of several at a time the last one is named.
class CrashNote {
 public:
  explicit CrashNote(const std::string& text);
  ~CrashNote();
  CrashNote(const CrashNote&) = delete;

 private:
  const char* before_;
};

}  // namespace cdynamo::runtime
