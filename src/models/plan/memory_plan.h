#pragma once

#include <cstddef>
#include <cstdint>

#include "memory/kv_group.h"

namespace rocmforge {

/// The window by which the cache of a layer frees blocks: one that is longer than the context is none.
constexpr std::int32_t cache_window(std::int32_t window, std::int64_t context) { return window < context ? window : 0; }

/// The memory of a sequence that the layers of a model ask for: planes in groups of pages, and bytes in a slot of state.
class MemoryPlan {
 public:
  /// The index of the group of this window, which is added where there is none.
  std::int32_t add_group(std::int32_t window);
  /// A plane in the group of this window, in the memory of `side`; 0: no window.
  KvPlace add_plane(std::int32_t window, const KvLayout& layout, Side side = Side::device);
  [[nodiscard]] const KvLayout& plane(const KvPlace& place) const;
  [[nodiscard]] Side side(const KvPlace& place) const;
  /// Reserves `size_bytes` in each slot of state of `side`; returns the offset, for StateView::at.
  std::int64_t add_state(std::size_t size_bytes, Side side = Side::device);

  /// The pages of all layers, in blocks of one size.
  [[nodiscard]] KvGroups groups() const;
  [[nodiscard]] std::size_t state_bytes(Side side = Side::device) const {  ///< of one slot
    return state_bytes_[static_cast<std::size_t>(side)];
  }

 private:
  KvGroups groups_ = KvGroups(1);
  std::size_t state_bytes_[2] = {};  ///< of each Side
};

}  // namespace rocmforge
