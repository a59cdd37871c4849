#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "device/devices.h"
#include "memory/host_copies.h"
#include "memory/kv_cache.h"
#include "memory/kv_group.h"
#include "ops/state_slots.h"

namespace rocmforge {

/// The memory of sequences, on the device and where a model is split also on the host: pages for K and V of their positions,
/// in groups, and slots of a fixed size for the recurrent state of layers without pages.
class SequenceMemory {
 public:
  /// What a rank has that differs from the first one: the same groups with other planes, and other slots.
  struct Rank {
    KvGroups groups;
    std::size_t slot_bytes = 0;
    std::size_t host_slot_bytes = 0;
  };
  struct Size {
    std::vector<std::int32_t> blocks;  ///< of each group
    std::int32_t block_tokens = 0;     ///< 0: the largest of the planes' layouts
    std::size_t slot_bytes = 0;        ///< of a slot on the device
    std::size_t host_slot_bytes = 0;   ///< and on the host
    std::int32_t slots = 0;            ///< of each rank, also of one whose slots have no bytes
    std::int32_t ranks = 1;      ///< that each have memory of this size, on devices of their own where `devices` has these
    std::vector<Rank> others{};  ///< the ranks behind the first, where they differ from it; then `ranks` is not read
  };

  /// Throws Error with the sizes when the memory can't be allocated. `devices` must outlive it.
  SequenceMemory(const Devices& devices, const KvGroups& groups, const Size& size);

  /// The memory of one of the ranks that share the model; this one is of rank 0, and tells sizes of one rank.
  [[nodiscard]] SequenceMemory& of_rank(std::size_t rank) { return rank == 0 ? *this : *others_.at(rank - 1); }
  /// Copies a block in every plane of all ranks, as KvCache::copy_block.
  void copy_block(std::int32_t group, std::int32_t from, std::int32_t to);

  /// Kinds of copies in host memory: blocks of each group, and slots of state, the last kind, where there are any.
  [[nodiscard]] std::size_t num_kinds() const { return pages_.size() + (slots_ > 0 ? 1 : 0); }
  /// Bytes of a copy in all ranks, and on both sides.
  [[nodiscard]] std::size_t copy_bytes(std::size_t kind) const;
  /// Memory for copies of each kind, of up to so many bytes. It is allocated as it grows.
  void keep_on_host(std::span<const std::int64_t> max_bytes);
  /// Of each kind; empty before keep_on_host().
  [[nodiscard]] std::span<HostCopies> host_copies() { return host_copies_; }
  [[nodiscard]] std::span<const HostCopies> host_copies() const { return host_copies_; }
  /// Copies block or slot `from` of all ranks to block `to` of host memory, or back, as KvCache::save_block.
  void save(std::size_t kind, std::int32_t from, std::int32_t to);
  void load(std::size_t kind, std::int32_t from, std::int32_t to);
  /// Copies block or slot `from` of all ranks to other host memory, copy_bytes() of it.
  void save(std::size_t kind, std::int32_t from, std::byte* to);
  /// Waits for all copies.
  void wait();

  [[nodiscard]] std::int32_t num_groups() const { return static_cast<std::int32_t>(pages_.size()); }
  /// Group 0 has no window.
  [[nodiscard]] KvCache& pages(std::int32_t group = 0) { return pages_.at(static_cast<std::size_t>(group)); }
  [[nodiscard]] const KvCache& pages(std::int32_t group = 0) const { return pages_.at(static_cast<std::size_t>(group)); }
  [[nodiscard]] const KvGroups& groups() const { return groups_; }
  /// Blocks of each group.
  [[nodiscard]] const std::vector<std::int32_t>& num_blocks() const { return num_blocks_; }
  [[nodiscard]] std::int32_t block_tokens() const { return block_tokens_; }
  /// Bytes of the pages of all groups and ranks.
  [[nodiscard]] std::size_t page_bytes() const;
  [[nodiscard]] StateView states(Side side = Side::device) const;
  /// Bytes of all slots on the device.
  [[nodiscard]] std::size_t state_bytes() const { return states_[0].size_bytes(); }

 private:
  void add_others(const Devices& devices, const Size& size);
  void allocate_states(const Devices& devices, Side side);
  [[nodiscard]] std::size_t own_copy_bytes(std::size_t kind) const;
  void save_slot(std::int32_t from, std::byte* to);
  void load_slot(const std::byte* from, std::int32_t to);
  /// The address of a slot on a side.
  [[nodiscard]] std::byte* slot(Side side, std::int32_t index) const;

  Devices devices_;
  KvGroups groups_;
  std::vector<KvCache> pages_;
  std::vector<std::int32_t> num_blocks_;
  std::int32_t block_tokens_;
  std::size_t slot_bytes_[2];  ///< of each Side
  std::int32_t slots_;
  DeviceBuffer states_[2];
  std::vector<HostCopies> host_copies_;
  std::vector<std::unique_ptr<SequenceMemory>> others_;  ///< of the ranks behind the first
};

}  // namespace rocmforge
