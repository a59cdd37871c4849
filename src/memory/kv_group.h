#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "device/devices.h"
#include "ops/kv_layout.h"

namespace rocmforge {

/// Layers that share a block table, because they have the same window. A plane is the part of a block that one layer
/// stores, or that several layers share.
struct KvGroup {
  std::int32_t window = 0;  ///< a block wholly behind the window of the next position is freed; 0: no window
  std::vector<KvLayout> planes;
  std::vector<Side> sides{};  ///< of each plane; empty: all on the device

  [[nodiscard]] Side side_of(std::size_t plane) const { return sides.empty() ? Side::device : sides[plane]; }

  friend bool operator==(const KvGroup&, const KvGroup&) = default;
};

/// The groups of a model. The first has no window, holds a block for every `block_tokens` positions of a sequence, and may
/// have no planes; each of the others has a window of its own. Blocks of all groups have the same number of positions.
using KvGroups = std::vector<KvGroup>;

/// The place of a layer's K and V.
struct KvPlace {
  std::int32_t group = 0;
  std::int32_t plane = 0;  ///< of the group

  friend bool operator==(const KvPlace&, const KvPlace&) = default;
};

/// Gives all planes blocks of that many positions.
inline void set_block_tokens(KvGroups& groups, std::int32_t block_tokens) {
  for (KvGroup& group : groups) {
    for (KvLayout& plane : group.planes) {
      plane.block_tokens = block_tokens;
    }
  }
}

/// The largest block_tokens of any plane's layout; the default when there is no plane.
inline std::int32_t block_tokens_of(const KvGroups& groups) {
  std::int32_t most = 0;
  for (const KvGroup& group : groups) {
    for (const KvLayout& plane : group.planes) {
      most = std::max(most, plane.block_tokens);
    }
  }
  return most > 0 ? most : KvLayout{}.block_tokens;
}

/// Whether `a` and `b` have the same groups and planes. Block sizes are not compared.
inline bool same_planes(const KvGroups& a, const KvGroups& b) {
  const auto same_plane = [](const KvLayout& left, KvLayout right) {
    right.block_tokens = left.block_tokens;
    return left == right;
  };
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [&](const KvGroup& left, const KvGroup& right) {
    return left.window == right.window && left.sides == right.sides &&
           std::equal(left.planes.begin(), left.planes.end(), right.planes.begin(), right.planes.end(), same_plane);
  });
}

/// Bytes of one block of a group in the memory of one side.
inline std::size_t block_bytes_of(const KvGroup& group, Side side) {
  std::size_t bytes = 0;
  for (std::size_t plane = 0; plane < group.planes.size(); ++plane) {
    bytes += group.side_of(plane) == side ? group.planes[plane].block_bytes() : 0;
  }
  return bytes;
}

/// Bytes of one block of a group, in all memories.
inline std::size_t block_bytes_of(const KvGroup& group) {
  std::size_t bytes = 0;
  for (const KvLayout& plane : group.planes) {
    bytes += plane.block_bytes();
  }
  return bytes;
}

}  // namespace rocmforge
