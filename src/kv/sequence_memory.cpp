#include "kv/sequence_memory.h"

#include <fmt/format.h>

#include "base/error.h"

namespace rocmforge {

SequenceMemory::SequenceMemory(Device& device, const KvLayout& layout, const Size& size)
    : pages_(device, layout, size.page_layers, size.blocks), slot_bytes_(size.slot_bytes), slots_(size.slots) {
  check(size.slots >= 0 && (size.slots > 0) == (size.slot_bytes > 0), "slots have a size, and a size has slots");
  if (slots_ == 0) {
    return;
  }
  const auto fail = [&](const char* reason) {
    throw Error(fmt::format("the recurrent state of sequences needs {} slots of {} bytes: {}", slots_, slot_bytes_, reason));
  };
  std::size_t bytes = 0;
  if (__builtin_mul_overflow(slot_bytes_, static_cast<std::size_t>(slots_), &bytes)) {
    fail("more than the address space");
  }
  try {
    states_ = device.allocate(bytes, "the recurrent state");
  } catch (const Error& error) {
    fail(error.what());
  }
}

StateView SequenceMemory::states() const { return {states_.data(), static_cast<std::int64_t>(slot_bytes_), slots_}; }

}  // namespace rocmforge
