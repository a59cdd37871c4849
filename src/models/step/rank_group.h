#pragma once

#include <cstdint>
#include <exception>
#include <memory>

#include "models/step/communicator.h"

namespace rocmforge {

/// Where the ranks of a model meet that are threads of one process. A rank that can't go on says so with fail().
class RankGroup {
 public:
  virtual ~RankGroup() = default;
  [[nodiscard]] virtual std::int32_t count() const = 0;
  /// Forgets a failure. Not while a rank is in a step.
  virtual void begin_step() = 0;
  /// The other ranks wait for this one no longer.
  virtual void fail(std::exception_ptr failure) = 0;
  /// One of the ranks, which the group must outlive.
  virtual std::unique_ptr<Communicator> communicator(std::int32_t rank) = 0;
};

}  // namespace rocmforge
