#include "memory/sequence_memory.h"

#include <fmt/format.h>

#include "base/error.h"

namespace rocmforge {

SequenceMemory::SequenceMemory(const Devices& devices, const KvGroups& groups, const Size& size)
    : devices_(devices.of_rank(0)),
      groups_(groups),
      num_blocks_(size.blocks),
      block_tokens_(size.block_tokens > 0 ? size.block_tokens : block_tokens_of(groups)),
      slot_bytes_{size.slot_bytes, size.host_slot_bytes},
      slots_(size.slots) {
  check(!groups.empty() && groups.front().window == 0, "the first group of pages has no window");
  check(groups.size() == size.blocks.size(), "each group of pages has a number of blocks");
  pages_.reserve(groups.size());
  for (std::size_t index = 0; index < groups.size(); ++index) {
    check(index == 0 || groups[index].window > 0, "only the first group of pages has no window");
    for (const KvLayout& plane : groups[index].planes) {
      check(plane.block_tokens == block_tokens_, "blocks of all groups have as many positions");
    }
    pages_.emplace_back(devices, groups[index], size.blocks[index]);
  }
  check(size.slots >= 0 && (size.slots > 0) == (size.slot_bytes + size.host_slot_bytes > 0),
        "slots have a size, and a size has slots");
  for (const Side side : {Side::device, Side::host}) {
    allocate_states(devices, side);
  }
  Size of_other = size;
  of_other.ranks = 1;
  for (std::int32_t rank = 1; rank < size.ranks; ++rank) {
    const Devices own = devices.of_rank(static_cast<std::size_t>(rank));
    others_.push_back(std::make_unique<SequenceMemory>(own, groups, of_other));
  }
}

void SequenceMemory::copy_block(std::int32_t group, std::int32_t from, std::int32_t to) {
  pages(group).copy_block(from, to);
  for (const auto& other : others_) {
    other->copy_block(group, from, to);
  }
}

void SequenceMemory::keep_on_host(std::int64_t max_bytes) {
  check(pages().num_planes() > 0, "copies of blocks have bytes");
  host_copies_.emplace(devices_.at(Side::device), pages().block_bytes() * (1 + others_.size()), max_bytes);
}

void SequenceMemory::save_block(std::int32_t from, std::int32_t to) { save_block(from, host_copies_.value().block(to)); }

void SequenceMemory::save_block(std::int32_t from, std::byte* to) {
  for (std::size_t rank = 0; rank <= others_.size(); ++rank) {
    of_rank(rank).pages().save_block(from, to + rank * pages().block_bytes());
  }
}

void SequenceMemory::wait() {
  if (Device& device = devices_.at(Side::device); device.is_gpu()) {
    device.stream().synchronize();
  }
  for (const auto& other : others_) {
    other->wait();
  }
}

void SequenceMemory::load_block(std::int32_t from, std::int32_t to) {
  const std::byte* copy = host_copies_.value().block(from);
  for (std::size_t rank = 0; rank <= others_.size(); ++rank) {
    of_rank(rank).pages().load_block(copy + rank * pages().block_bytes(), to);
  }
}

void SequenceMemory::allocate_states(const Devices& devices, Side side) {
  const std::size_t slot_bytes = slot_bytes_[static_cast<std::size_t>(side)];
  if (slots_ == 0 || slot_bytes == 0) {
    return;
  }
  const auto fail = [&](const char* reason) {
    throw Error(fmt::format("the recurrent state of sequences needs {} slots of {} bytes: {}", slots_, slot_bytes, reason));
  };
  std::size_t bytes = 0;
  if (__builtin_mul_overflow(slot_bytes, static_cast<std::size_t>(slots_), &bytes)) {
    fail("more than the address space");
  }
  try {
    states_[static_cast<std::size_t>(side)] = devices.at(side).allocate(bytes, "the recurrent state");
  } catch (const Error& error) {
    fail(error.what());
  }
}

std::size_t SequenceMemory::page_bytes() const {
  std::size_t bytes = 0;
  for (const KvCache& pages : pages_) {
    bytes += pages.bytes();
  }
  for (const auto& other : others_) {
    bytes += other->page_bytes();
  }
  return bytes;
}

StateView SequenceMemory::states(Side side) const {
  const auto index = static_cast<std::size_t>(side);
  return {states_[index].data(), static_cast<std::int64_t>(slot_bytes_[index]), slots_};
}

}  // namespace rocmforge
