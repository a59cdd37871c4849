#include "memory/sequence_memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

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
  check(size.slots > 0 || size.slot_bytes + size.host_slot_bytes == 0, "what has a size has slots");
  for (const Side side : {Side::device, Side::host}) {
    allocate_states(devices, side);
  }
  add_others(devices, size);
}

void SequenceMemory::add_others(const Devices& devices, const Size& size) {
  const auto alike = static_cast<std::size_t>(std::max(size.ranks, 1) - 1);
  const std::vector<Rank> others =
      size.others.empty() ? std::vector<Rank>(alike, Rank{groups_, size.slot_bytes, size.host_slot_bytes}) : size.others;
  for (const Rank& other : others) {
    const Size own{.blocks = size.blocks,
                   .block_tokens = block_tokens_,
                   .slot_bytes = other.slot_bytes,
                   .host_slot_bytes = other.host_slot_bytes,
                   .slots = size.slots};
    others_.push_back(std::make_unique<SequenceMemory>(devices.of_rank(others_.size() + 1), other.groups, own));
  }
}

void SequenceMemory::copy_block(std::int32_t group, std::int32_t from, std::int32_t to) {
  pages(group).copy_block(from, to);
  for (const auto& other : others_) {
    other->copy_block(group, from, to);
  }
}

std::size_t SequenceMemory::own_copy_bytes(std::size_t kind) const {
  return kind < pages_.size() ? pages_[kind].block_bytes() : slot_bytes_[0] + slot_bytes_[1];
}

std::size_t SequenceMemory::copy_bytes(std::size_t kind) const {
  std::size_t bytes = own_copy_bytes(kind);
  for (const auto& other : others_) {
    bytes += other->own_copy_bytes(kind);
  }
  return bytes;
}

void SequenceMemory::keep_on_host(std::span<const std::int64_t> max_bytes) {
  check(max_bytes.size() == num_kinds() && host_copies_.empty(), "each kind of copies has a limit");
  for (std::size_t kind = 0; kind < num_kinds(); ++kind) {
    // Blocks of a group without planes are counted, too.
    host_copies_.emplace_back(devices_.at(Side::device), std::max<std::size_t>(copy_bytes(kind), 1), max_bytes[kind]);
  }
}

void SequenceMemory::save(std::size_t kind, std::int32_t from, std::int32_t to) {
  save(kind, from, host_copies_.at(kind).block(to));
}

void SequenceMemory::save(std::size_t kind, std::int32_t from, std::byte* to) {
  for (std::size_t rank = 0; rank <= others_.size(); ++rank) {
    SequenceMemory& memory = of_rank(rank);
    kind < pages_.size() ? memory.pages_[kind].save_block(from, to) : memory.save_slot(from, to);
    to += memory.own_copy_bytes(kind);
  }
}

void SequenceMemory::load(std::size_t kind, std::int32_t from, std::int32_t to) {
  const std::byte* copy = host_copies_.at(kind).block(from);
  for (std::size_t rank = 0; rank <= others_.size(); ++rank) {
    SequenceMemory& memory = of_rank(rank);
    kind < pages_.size() ? memory.pages_[kind].load_block(copy, to) : memory.load_slot(copy, to);
    copy += memory.own_copy_bytes(kind);
  }
}

std::byte* SequenceMemory::slot(Side side, std::int32_t index) const {
  check(index >= 0 && index < slots_, "there is no such slot of state");
  const auto s = static_cast<std::size_t>(side);
  return states_[s].data() + slot_bytes_[s] * static_cast<std::size_t>(index);
}

void SequenceMemory::save_slot(std::int32_t from, std::byte* to) {
  for (const Side side : {Side::device, Side::host}) {
    if (const std::size_t bytes = slot_bytes_[static_cast<std::size_t>(side)]; bytes > 0) {
      Device& device = devices_.at(side);
      device.is_gpu() ? device.stream().copy_to_host(to, slot(side, from), bytes)
                      : static_cast<void>(std::memcpy(to, slot(side, from), bytes));
      to += bytes;
    }
  }
}

void SequenceMemory::load_slot(const std::byte* from, std::int32_t to) {
  for (const Side side : {Side::device, Side::host}) {
    if (const std::size_t bytes = slot_bytes_[static_cast<std::size_t>(side)]; bytes > 0) {
      Device& device = devices_.at(side);
      device.is_gpu() ? device.stream().copy_to_device(slot(side, to), from, bytes)
                      : static_cast<void>(std::memcpy(slot(side, to), from, bytes));
      from += bytes;
    }
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
