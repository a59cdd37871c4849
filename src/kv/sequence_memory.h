#pragma once

#include <cstddef>
#include <cstdint>

#include "device/device.h"
#include "kv/kv_cache.h"
#include "ops/state_slots.h"

namespace rocmforge {

/// What sequences need of a device's memory: pages for K and V of their positions, and slots of a fixed size for what layers
/// without pages remember of them.
class SequenceMemory {
 public:
  struct Size {
    std::int32_t page_layers = 0;  ///< layers that have pages
    std::int32_t blocks = 0;
    std::size_t slot_bytes = 0;
    std::int32_t slots = 0;
  };

  /// Throws Error with the sizes when the memory can't be had. `device` must outlive it.
  SequenceMemory(Device& device, const KvLayout& layout, const Size& size);

  [[nodiscard]] KvCache& pages() { return pages_; }
  [[nodiscard]] const KvCache& pages() const { return pages_; }
  [[nodiscard]] StateView states() const;
  [[nodiscard]] std::size_t state_bytes() const { return states_.size_bytes(); }

 private:
  KvCache pages_;
  std::size_t slot_bytes_;
  std::int32_t slots_;
  DeviceBuffer states_;
};

}  // namespace rocmforge
