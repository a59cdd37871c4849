#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <string>

#include "gateway/model_pool.h"

namespace rocmforge {

/// Somebody who waits in ModelPool::acquire.
struct ModelPool::Request {
  bool granted = false;  ///< counted among the model's users
  bool failed = false;
  std::string problem{};
};

/// A model of a pool. Its process exists from the request that asks for it to its end:
/// started, tells what it needs, is told to load, tells that it has loaded, is told to end.
struct ModelPool::Model {
  ModelChoice choice;
  ModelState state = ModelState::unloaded;

  std::unique_ptr<ModelProcess> process{};  ///< used and replaced by the pool's thread alone
  std::uint64_t runs = 0;                   ///< processes so far
  bool has_told_needs = false;
  bool fits = true;  ///< into what was free when it planned itself
  bool was_told_to_load = false;
  bool is_leaving = false;  ///< takes no more requests and ends after its answers
  bool is_ending = false;   ///< was told to end
  ModelState after_end = ModelState::unloaded;
  Clock::time_point kill_time{};
  Clock::time_point start_time{};
  std::string last_error{};  ///< the last error line of the process

  std::int64_t bytes = 0;
  bool on_gpu = false;
  Json description{};
  bool has_failed = false;
  int exit_code = 0;
  std::string problem{};

  bool is_queued = false;
  std::list<Request*> waiting{};
  std::int32_t users = 0;
  KeepAlive keep_alive{};
  Clock::time_point last_use{};

  [[nodiscard]] bool takes_requests() const { return state == ModelState::loaded && !is_leaving && !is_ending; }
};

}  // namespace rocmforge
