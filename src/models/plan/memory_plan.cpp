#include "models/plan/memory_plan.h"

#include <algorithm>

namespace rocmforge {

std::int32_t MemoryPlan::add_group(std::int32_t window) {
  auto group = std::ranges::find(groups_, window, &KvGroup::window);
  if (group == groups_.end()) {
    groups_.push_back({.window = window, .planes = {}});
    group = groups_.end() - 1;
  }
  return static_cast<std::int32_t>(group - groups_.begin());
}

KvPlace MemoryPlan::add_plane(std::int32_t window, const KvLayout& layout, Side side) {
  const std::int32_t index = add_group(window);
  KvGroup& group = groups_[static_cast<std::size_t>(index)];
  group.planes.push_back(layout);
  group.sides.push_back(side);
  return {index, static_cast<std::int32_t>(group.planes.size()) - 1};
}

const KvLayout& MemoryPlan::plane(const KvPlace& place) const {
  return groups_.at(static_cast<std::size_t>(place.group)).planes.at(static_cast<std::size_t>(place.plane));
}

Side MemoryPlan::side(const KvPlace& place) const {
  return groups_.at(static_cast<std::size_t>(place.group)).side_of(static_cast<std::size_t>(place.plane));
}

std::int64_t MemoryPlan::add_state(std::size_t size_bytes, Side side) {
  constexpr std::size_t alignment = 256;  // the alignment that GPU kernels may expect of every buffer
  std::size_t& used = state_bytes_[static_cast<std::size_t>(side)];
  const std::size_t offset = used;
  used += (size_bytes + alignment - 1) / alignment * alignment;
  return static_cast<std::int64_t>(offset);
}

KvGroups MemoryPlan::groups() const {
  KvGroups groups = groups_;
  set_block_tokens(groups, block_tokens_of(groups));
  return groups;
}

}  // namespace rocmforge
