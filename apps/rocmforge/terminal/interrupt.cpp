#include "terminal/interrupt.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <string>

#include "base/error.h"

namespace rocmforge::app {
namespace {

// A signal handler can use only global variables. The flag is an eventfd, so that poll() can wait for it together with the
// keyboard: if the handler only set a variable, it could run just before a read() that then never returns.
volatile std::sig_atomic_t interrupt_event = -1;

void on_interrupt(int) {
  const int saved = errno;
  const std::uint64_t one = 1;
  static_cast<void>(!write(interrupt_event, &one, sizeof(one)));
  errno = saved;
}

}  // namespace

InterruptScope::InterruptScope(Second second) {
  check(interrupt_event == -1, "one InterruptScope at a time");
  interrupt_event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (interrupt_event == -1) {
    throw Error(std::string("no event for Ctrl-C: ") + std::strerror(errno));
  }
  struct sigaction action = {};
  action.sa_handler = on_interrupt;
  sigemptyset(&action.sa_mask);
  action.sa_flags = SA_RESTART | (second == Second::ends ? static_cast<int>(SA_RESETHAND) : 0);
  sigaction(SIGINT, &action, &previous_);
}

InterruptScope::~InterruptScope() {
  sigaction(SIGINT, &previous_, nullptr);
  close(interrupt_event);
  interrupt_event = -1;
}

bool InterruptScope::take() {
  std::uint64_t count = 0;
  return interrupt_event != -1 && read(interrupt_event, &count, sizeof(count)) == sizeof(count);
}

bool InterruptScope::wait_readable(int file) {
  std::array<pollfd, 2> files = {pollfd{file, POLLIN, 0}, pollfd{interrupt_event, POLLIN, 0}};  // a file of -1 is ignored
  while (poll(files.data(), files.size(), -1) < 0 && errno == EINTR) {
  }
  return files[1].revents == 0;
}

}  // namespace rocmforge::app
