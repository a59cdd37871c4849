#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "ops/batch_plan.h"

namespace rocmforge {

/// What rank 0 tells the other processes of a model to do.
struct StepMessage {
  enum class Kind : std::int32_t {
    end,      ///< there are no more steps
    forward,  ///< Model::forward
    mtp,      ///< Model::forward_mtp
    time,     ///< Model::time_operations
  };
  struct Copy {
    std::int32_t group = 0;
    std::int32_t from = 0;
    std::int32_t to = 0;
  };

  Kind kind = Kind::end;
  std::int32_t mtp_block = 0;
  std::vector<Copy> copies;  ///< of blocks, in their order, before the step
  BatchPlan batch;           ///< `given` points into given_rows
  std::vector<float> given_rows;

  /// Replaces `bytes` by the message.
  static void write(Kind kind, std::int32_t mtp_block, std::span<const Copy> copies, const BatchPlan& batch,
                    std::vector<std::byte>& bytes);
  /// Throws Error for bytes that write() has not written.
  void read(std::span<const std::byte> bytes);
};

}  // namespace rocmforge
