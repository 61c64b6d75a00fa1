#include "runtime/host/crash_note.h"

#include <signal.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstring>

namespace cdynamo::runtime {
namespace {

constexpr std::array kSignals = {SIGSEGV, SIGBUS, SIGFPE, SIGILL};
std::atomic<const char*> note = nullptr;
std::array<struct sigaction, kSignals.size()> handlers_before;

void write_text(const char* text) {
  if (write(STDERR_FILENO, text, std::strlen(text)) < 0) return;
}

// The instruction runs again, under the handler that was there before.
void handle(int signal) {
  if (const char* text = note.load()) {
    write_text("cdynamo: the process crashes in ");
    write_text(text);
    write_text("\n");
  }
  for (size_t i = 0; i < kSignals.size(); ++i)
    if (kSignals[i] == signal) sigaction(signal, &handlers_before[i], nullptr);
}

void install_handlers() {
  struct sigaction action{};
  action.sa_handler = handle;
  action.sa_flags = SA_ONSTACK;
  for (size_t i = 0; i < kSignals.size(); ++i) sigaction(kSignals[i], &action, &handlers_before[i]);
}

}  // namespace

CrashNote::CrashNote(const std::string& text) {
  static const bool installed = (install_handlers(), true);
  (void)installed;
  before_ = note.exchange(text.c_str());
}

CrashNote::~CrashNote() { note.store(before_); }

}  // namespace cdynamo::runtime
