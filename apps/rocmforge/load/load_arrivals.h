#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <random>

#include "load/load_client.h"
#include "load/load_clock.h"
#include "load/load_lengths.h"

namespace rocmforge::app {

/// The offered load, independent of how fast the server is.
struct OfferedLoad {
  double rate = 0.0;              ///< requests a second, a Poisson process; 0: each client sends after its last answer
  std::int32_t requests = 0;      ///< in all; 0: any number
  double duration_seconds = 0.0;  ///< in which requests start; 0: any time
  Lengths prompts;
  Lengths outputs;
  double drop_share = 0.0;  ///< of the clients that disconnect in the middle of an answer
  std::uint64_t seed = 1;
};

/// Hands out requests to the clients: at once, or when they are due. Thread-safe.
class LoadArrivals {
 public:
  LoadArrivals(OfferedLoad offered, LoadClock clock);

  /// False when there are no more. With a rate it waits until the request is due.
  bool take(LoadRequest& request);
  /// Ends the requests, including those that are not due yet.
  void stop();
  /// How much of the run is over, 0 to 1.
  [[nodiscard]] double share();

 private:
  [[nodiscard]] bool is_over(double time) const;
  void draw(LoadRequest& request);

  OfferedLoad offered_;
  LoadClock clock_;
  std::mutex mutex_;  // guards the members below
  std::condition_variable stops_;
  std::mt19937_64 random_;
  double last_due_ = 0.0;
  std::int32_t drawn_ = 0;
  std::int32_t started_ = 0;
  bool stopped_ = false;
};

}  // namespace rocmforge::app
