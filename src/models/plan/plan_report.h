#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "models/model.h"

namespace rocmforge {

/// What a plan tells of itself: a line for each operation, and the bytes of weights that one decode step of one token reads.
class PlanReport {
 public:
  /// Operations and bytes that are added from here on are of this side.
  void use(Side side) { side_ = side; }
  /// Layers with the same operation share a line.
  void add(PlannedOperation operation);
  void add_weight_bytes(std::size_t size_bytes) { bytes_per_token_ += size_bytes; }
  /// Moves one run of `operation` with this spec, which is in the report, to a line of its own: in steps of up to `tokens`
  /// tokens it is part of the call of `part_of`.
  void make_part(std::string_view operation, std::string_view spec, std::string_view part_of, std::int64_t tokens);
  /// Everything added from here on is not part of decode steps: only its memory counts.
  void leave_decode_steps() { decode_bytes_ = bytes_per_token_; }

  [[nodiscard]] const std::vector<PlannedOperation>& operations() const { return operations_; }
  [[nodiscard]] std::size_t bytes_per_token() const { return decode_bytes_.value_or(bytes_per_token_); }

 private:
  Side side_ = Side::device;
  std::vector<PlannedOperation> operations_;
  std::size_t bytes_per_token_ = 0;
  std::optional<std::size_t> decode_bytes_;  ///< bytes of a decode step, set once all its operations are planned
};

}  // namespace rocmforge
