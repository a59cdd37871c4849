#include "memory/sequence_memory.h"

#include <fmt/format.h>

#include "base/error.h"

namespace rocmforge {

SequenceMemory::SequenceMemory(Device& device, const KvGroups& groups, const Size& size)
    : groups_(groups),
      num_blocks_(size.blocks),
      block_tokens_(size.block_tokens > 0 ? size.block_tokens : block_tokens_of(groups)),
      slot_bytes_(size.slot_bytes),
      slots_(size.slots) {
  check(!groups.empty() && groups.front().window == 0, "the first group of pages has no window");
  check(groups.size() == size.blocks.size(), "each group of pages has a number of blocks");
  pages_.reserve(groups.size());
  for (std::size_t index = 0; index < groups.size(); ++index) {
    check(index == 0 || groups[index].window > 0, "only the first group of pages has no window");
    for (const KvLayout& plane : groups[index].planes) {
      check(plane.block_tokens == block_tokens_, "blocks of all groups have as many positions");
    }
    pages_.emplace_back(device, groups[index].planes, size.blocks[index]);
  }
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

std::size_t SequenceMemory::page_bytes() const {
  std::size_t bytes = 0;
  for (const KvCache& pages : pages_) {
    bytes += pages.bytes();
  }
  return bytes;
}

StateView SequenceMemory::states() const { return {states_.data(), static_cast<std::int64_t>(slot_bytes_), slots_}; }

}  // namespace rocmforge
