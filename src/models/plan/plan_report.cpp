#include "models/plan/plan_report.h"

#include <algorithm>
#include <utility>

#include "base/error.h"

namespace rocmforge {

void PlanReport::add(PlannedOperation operation) {
  operation.side = side_;
  if (decode_bytes_) {
    operation.times = 0;
  }
  const auto known = std::ranges::find_if(operations_, [&](const PlannedOperation& other) {
    return other.operation == operation.operation && other.spec == operation.spec && other.side == operation.side &&
           other.part_of == operation.part_of && other.part_tokens == operation.part_tokens;
  });
  if (known != operations_.end()) {
    known->times += operation.times;
  } else {
    operations_.push_back(std::move(operation));
  }
}

void PlanReport::make_part(std::string_view operation, std::string_view spec, std::string_view part_of,
                           std::int64_t tokens) {
  const auto planned = std::ranges::find_if(operations_, [&](const PlannedOperation& line) {
    return line.operation == operation && line.spec == spec && line.side == side_ && line.part_of.empty();
  });
  check(planned != operations_.end(), "an operation that becomes part of another is in the plan");
  PlannedOperation part = *planned;
  part.times = 1;
  part.part_of = part_of;
  part.part_tokens = tokens;
  part.activation_bytes = 0;
  if (!decode_bytes_ && --planned->times == 0) {
    operations_.erase(planned);
  }
  add(std::move(part));
}

}  // namespace rocmforge
