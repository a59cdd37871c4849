#include "conformance/arena.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <new>

#include "sanitizers.h"
#include "test_device.h"

namespace rocmforge::test {
namespace {

constexpr std::align_val_t alignment{256};

/// Bytes of the guard on each side.
std::size_t guard_bytes() {
  static const std::size_t bytes = address_sanitizer || environment("ROCMFORGE_TEST_GUARDS") == "0" ? 0 : 256;
  return bytes;
}

bool all_set(std::span<const std::byte> bytes) {
  return std::all_of(bytes.begin(), bytes.end(), [](std::byte byte) { return byte == std::byte{0xff}; });
}

}  // namespace

Arena::~Arena() {
  for (const Array& array : arrays_) {
    if (array.buffer.data() == nullptr) {
      ::operator delete(array.memory, alignment);
    }
  }
}

void* Arena::add(std::span<const std::byte> data, Role role) {
  const std::size_t guard = guard_bytes();
  std::vector<std::byte> content(data.size() + 2 * guard, std::byte{0xff});
  std::copy(data.begin(), data.end(), content.begin() + static_cast<std::ptrdiff_t>(guard));
  Array array{nullptr, data.size(), {}, {}};
  if (place_->device->is_gpu()) {
    array.buffer = place_->device->allocate(std::max<std::size_t>(content.size(), 1), "a test");
    array.memory = array.buffer.data();
  } else {
    array.memory = static_cast<std::byte*>(::operator new(std::max<std::size_t>(content.size(), 1), alignment));
  }
  place_->device->upload(array.memory, content.data(), content.size());
  if (role != Role::output) {
    array.before.assign(data.begin(), data.end());
  }
  arrays_.push_back(std::move(array));
  return arrays_.back().memory + guard;
}

void* Arena::state(std::size_t size_bytes) {
  return size_bytes == 0 ? nullptr : add(std::vector<std::byte>(size_bytes), Role::state);
}

RaggedBatch Arena::batch(const BatchPlan& plan) {
  RaggedBatch batch = plan.view();
  batch.query_offsets = in(plan.query_offsets);
  batch.kv_lengths = in(plan.kv_lengths);
  batch.block_tables = in(plan.block_tables);
  batch.positions = in(plan.positions);
  batch.sequence_of = in(plan.sequence_of);
  batch.visible_end = plan.visible_end.empty() ? nullptr : in(plan.visible_end);
  batch.states = plan.states.empty() ? nullptr : in(plan.states);
  return batch;
}

void Arena::begin() {
  if (place_->device->is_gpu()) {
    counters_ = place_->device->driver().counters();
  }
}

void Arena::end() {
  if (place_->device->is_gpu()) {
    const DriverCounters used = place_->device->driver().counters() - counters_;
    EXPECT_EQ(used.synchronizations, 0) << "the kernel waited";
    EXPECT_EQ(used.copies_to_host, 0) << "the kernel copied to the host";
    EXPECT_EQ(used.copies_to_device, 0) << "the kernel copied from the host";
    EXPECT_EQ(used.allocations, 0) << "the kernel allocated";
    place_->device->stream().synchronize();
  }
  for (std::size_t i = 0; i < arrays_.size(); ++i) {
    check_array(arrays_[i], i);
  }
}

void Arena::check_array(const Array& array, std::size_t index) {
  const std::size_t guard = guard_bytes();
  if (array.before.empty() && guard == 0) {
    return;
  }
  const auto download = [&](std::size_t offset, std::size_t size_bytes) {
    std::vector<std::byte> bytes(size_bytes);
    place_->device->download(bytes.data(), array.memory + offset, size_bytes);
    return bytes;
  };
  if (array.before.empty()) {
    EXPECT_TRUE(all_set(download(0, guard))) << "wrote before array " << index;
    EXPECT_TRUE(all_set(download(guard + array.size_bytes, guard))) << "wrote past the end of array " << index;
    return;
  }
  const std::vector<std::byte> now = download(0, array.size_bytes + 2 * guard);
  const std::span<const std::byte> bytes(now);
  EXPECT_TRUE(all_set(bytes.first(guard))) << "wrote before input " << index;
  EXPECT_TRUE(all_set(bytes.last(guard))) << "wrote past the end of input " << index;
  EXPECT_TRUE(std::ranges::equal(bytes.subspan(guard, array.size_bytes), array.before)) << "changed input " << index;
}

}  // namespace rocmforge::test
