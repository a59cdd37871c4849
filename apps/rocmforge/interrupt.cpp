#include "interrupt.h"

namespace rocmforge::app {
namespace {

// A signal handler can reach nothing but a variable of the whole program.
volatile std::sig_atomic_t interrupted = 0;

void on_interrupt(int) { interrupted = 1; }

}  // namespace

InterruptScope::InterruptScope(Second second) {
  interrupted = 0;
  struct sigaction action = {};
  action.sa_handler = on_interrupt;
  sigemptyset(&action.sa_mask);
  action.sa_flags = second == Second::ends ? static_cast<int>(SA_RESETHAND) : 0;
  sigaction(SIGINT, &action, &previous_);
}

InterruptScope::~InterruptScope() { sigaction(SIGINT, &previous_, nullptr); }

bool InterruptScope::pending() { return interrupted != 0; }

bool InterruptScope::take() {
  const bool was = interrupted != 0;
  interrupted = 0;
  return was;
}

}  // namespace rocmforge::app
