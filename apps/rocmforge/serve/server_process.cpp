#include "serve/server_process.h"

#include <fmt/format.h>
#include <pthread.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif

#include <csignal>
#include <ctime>

namespace rocmforge::app {
namespace {

sigset_t end_signals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGTERM);
  return signals;
}

/// By default the allocator keeps freed blocks of up to 32 MiB in many heaps, so that resident memory exceeds the limit of
/// requests. Only one thread at a time can use a heap: with two heaps, the network thread would wait for the threads that
/// read requests.
void limit_heaps() {
#ifdef __GLIBC__
  constexpr int mapped_bytes = 128 << 10, most_heaps = 8;
  mallopt(M_MMAP_THRESHOLD, mapped_bytes);
  mallopt(M_ARENA_MAX, most_heaps);
#endif
}

/// Returns free pages between used ones to the system.
void return_freed_memory() {
#ifdef __GLIBC__
  malloc_trim(0);
#endif
}

}  // namespace

void prepare_server_process() {
  limit_heaps();
  const sigset_t signals = end_signals();
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  std::signal(SIGPIPE, SIG_IGN);
}

bool signal_came(std::chrono::nanoseconds time) {
  const sigset_t signals = end_signals();
  const auto seconds = std::chrono::floor<std::chrono::seconds>(time);
  const timespec wait = {.tv_sec = seconds.count(), .tv_nsec = (time - seconds).count()};
  return sigtimedwait(&signals, nullptr, &wait) > 0;
}

std::string_view serve_until_signal(Server& server, double drain_seconds) {
  while (!signal_came(std::chrono::seconds(1))) {
    return_freed_memory();
  }
  server.log().event(
      fmt::format("shutting down: running requests have {} s to end; another signal ends them at once", drain_seconds));
  const bool all_ended = server.drain(milliseconds(drain_seconds), [] { return signal_came(std::chrono::nanoseconds(0)); });
  return all_ended ? "all requests have ended" : "requests were cancelled";
}

std::chrono::milliseconds milliseconds(double seconds) {
  return std::chrono::milliseconds(static_cast<std::int64_t>(seconds * 1000.0));
}

}  // namespace rocmforge::app
