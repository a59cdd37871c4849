#pragma once

#include <exception>
#include <new>
#include <optional>
#include <string>

#include "base/error.h"
#include "engine/engine.h"
#include "engine/plan_model.h"
#include "models/step/rank_processes.h"

namespace rocmforge {

/// Thrown by the ranks behind the first when their job ends by an error, which rank 0 tells.
class RankEnded : public std::exception {
 public:
  [[nodiscard]] const char* what() const noexcept override { return "the ranks have ended"; }
};

/// Whether this process has the engine: it is the only one, or rank 0.
inline bool leads(const EngineOptions& options) {
  return options.model.processes == nullptr || options.model.processes->rank() == 0;
}

/// Tells all ranks this one's error, "" for none, and hears theirs. If there is any, rank 0 throws it as an Error, the
/// others throw RankEnded.
void agree(RankProcesses& processes, const std::string& error);

/// What body() returns, once it has returned on all ranks. `processes` may be null.
template <class Body>
auto agreed(RankProcesses* processes, const Body& body) {
  if (processes == nullptr) {
    return body();
  }
  std::string error;
  std::optional<decltype(body())> result;
  try {
    result.emplace(body());
  } catch (const Error& thrown) {
    error = thrown.what();
  } catch (const std::bad_alloc&) {
    error = "not enough memory";
  }
  agree(*processes, error);
  return std::move(*result);
}

/// Ends the ranks as agree() does where one of them has another version of the program, another file or other sizes.
void check_agreement(RankProcesses& processes, const PlannedModel& planned, const EngineOptions& options);

}  // namespace rocmforge
