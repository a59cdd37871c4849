#pragma once

#include <chrono>
#include <cstdint>
#include <string_view>

#include "server/server.h"

namespace rocmforge::app {

/// For a process that serves: makes SIGINT and SIGTERM wait for signal_came(), ignores SIGPIPE, and makes the allocator
/// return the freed memory of requests to the system. Call before any other thread begins.
void prepare_server_process();

/// Waits at most `time` for a signal that ends the program. Returns whether one arrived.
bool signal_came(std::chrono::nanoseconds time = std::chrono::milliseconds(100));

/// Waits for such a signal, and returns free memory to the system meanwhile. Then gives running requests so many seconds to
/// end, or until another signal. Returns what to log of them.
std::string_view serve_until_signal(Server& server, double drain_seconds);

/// Of a flag in seconds.
std::chrono::milliseconds milliseconds(double seconds);

}  // namespace rocmforge::app
