#include "memory/kv_cache.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <fstream>
#include <limits>
#include <optional>

#include "base/error.h"
#include "device/fake_driver.h"
#include "memory/sequence_memory.h"
#include "temporary_folder.h"

namespace rocmforge {
namespace {

KvLayout small_layout(DType dtype) { return {.dtype = dtype, .block_tokens = 16, .kv_heads = 2, .head_dim = 8}; }

std::vector<KvLayout> planes(const KvLayout& layout, std::size_t count) { return std::vector<KvLayout>(count, layout); }

TEST(KvCache, LayersAreDisjointZeroedAndAligned) {
  for (const auto& [dtype, element_bytes] :
       {std::pair{DType::f32, 4u}, std::pair{DType::f16, 2u}, std::pair{DType::bf16, 2u}}) {
    const KvLayout layout = small_layout(dtype);
    Device device;
    KvCache cache(device, planes(layout, 3), 5);
    const std::size_t layer_bytes = 5u * 2 * 2 * 16 * 8 * element_bytes;
    ASSERT_EQ(cache.bytes(), 3 * layer_bytes);
    for (int index = 0; index < 3; ++index) {
      const KvCacheView view = cache.plane(index);
      EXPECT_EQ(view.num_blocks, 5);
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(view.data) % 64, 0u);
      const auto* bytes = static_cast<const unsigned char*>(view.data);
      for (std::size_t i = 0; i < layer_bytes; ++i) {
        ASSERT_EQ(bytes[i], 0) << "layer " << index << " overlaps one written before";
      }
      std::memset(view.data, index + 1, layer_bytes);
    }
    EXPECT_THROW((void)cache.plane(3), LogicError);
    EXPECT_THROW((void)cache.plane(-1), LogicError);
  }
}

TEST(KvCache, ALatentPlaneIsStoredOnce) {
  const KvLayout plane{.dtype = DType::f16, .block_tokens = 64, .kv_heads = 1, .head_dim = 576, .value_dim = 512};
  EXPECT_EQ(plane.block_bytes(), 64u * 576 * 2);
  EXPECT_EQ(plane.head_at(true, 0), plane.head_at(false, 0));
  KvLayout separate = plane;
  separate.value_dim = 0;
  EXPECT_EQ(separate.block_bytes(), 2 * plane.block_bytes());
  EXPECT_NE(separate, plane);
  KvLayout quants = plane;
  quants.dtype = DType::q8_0;
  EXPECT_EQ(quants.block_bytes(), 64u * (576 + 2 * 576 / 32));
  Device device;
  EXPECT_EQ(KvCache(device, planes(plane, 3), 5).bytes(), 3 * 5 * plane.block_bytes());
}

TEST(KvCache, CopyBlockCopiesThatBlockInEveryLayerAndNoOther) {
  const KvLayout layout = small_layout(DType::f32);
  Device device;
  KvCache cache(device, planes(layout, 2), 4);
  const auto block_elems = static_cast<std::size_t>(layout.block_elems());
  const auto value = [](std::size_t layer, std::size_t block, std::size_t i) {
    return static_cast<float>(layer * 1'000'000 + block * 10'000 + i);
  };
  for (std::size_t layer = 0; layer < 2; ++layer) {
    auto* data = static_cast<float*>(cache.plane(static_cast<int>(layer)).data);
    for (std::size_t i = 0; i < 4 * block_elems; ++i) {
      data[i] = value(layer, i / block_elems, i % block_elems);
    }
  }
  cache.copy_block(1, 3);
  cache.copy_block(2, 2);
  for (std::size_t layer = 0; layer < 2; ++layer) {
    const auto* data = static_cast<const float*>(cache.plane(static_cast<int>(layer)).data);
    for (std::size_t i = 0; i < 4 * block_elems; ++i) {
      const std::size_t block = i / block_elems;
      ASSERT_EQ(data[i], value(layer, block == 3 ? 1 : block, i % block_elems));
    }
  }
  EXPECT_THROW(cache.copy_block(0, 4), LogicError);
  EXPECT_THROW(cache.copy_block(-1, 0), LogicError);
}

class KvCacheOnGpu : public testing::Test {
 protected:
  KvCacheOnGpu() {
    folder_.write("gfx1100/any.hsaco",
                  "\x7f"
                  "ELF code");
    device_.emplace(std::make_unique<FakeDriver>(log_), KernelLibrary::from_folder(folder_.path()));
  }

  TemporaryFolder folder_;
  std::shared_ptr<FakeDriver::Log> log_ = std::make_shared<FakeDriver::Log>();
  std::optional<Device> device_;
};

TEST_F(KvCacheOnGpu, CopiesBlocksInTheOrderOfItsStream) {
  Device& device = *device_;
  {
    KvCache cache(device, planes(small_layout(DType::f16), 3), 4);
    const std::size_t block_bytes = cache.planes().front().block_bytes();
    std::vector<unsigned char> values(cache.bytes());
    for (std::size_t i = 0; i < values.size(); ++i) {
      values[i] = static_cast<unsigned char>(i / block_bytes);
    }
    device.upload(cache.plane(0).data, values.data(), values.size());
    const DriverCounters before = device.driver().counters();
    cache.copy_block(1, 3);
    const DriverCounters copied = device.driver().counters() - before;
    EXPECT_EQ(copied.copies_on_device, 3);
    EXPECT_EQ(copied.copies_to_host + copied.copies_to_device + copied.synchronizations, 0);
    std::vector<unsigned char> after(values.size());
    device.download(after.data(), cache.plane(0).data, after.size());
    for (std::size_t i = 0; i < values.size(); ++i) {
      const std::size_t block = i / block_bytes;
      ASSERT_EQ(after[i], block % 4 == 3 ? block - 2 : block);
    }
  }
  EXPECT_TRUE(log_->memory.empty());
}

TEST_F(KvCacheOnGpu, BlocksGoToPinnedHostMemoryAndBackWithoutWaiting) {
  Device& device = *device_;
  {
    const KvLayout layout = small_layout(DType::f16);
    SequenceMemory memory(device, {{0, planes(layout, 3)}}, {.blocks = {4}, .ranks = 2});
    const std::size_t block_bytes = layout.block_bytes();
    const auto limit = static_cast<std::int64_t>(2 * 3 * block_bytes * 5 + 1);
    memory.keep_on_host({&limit, 1});
    HostCopies& copies = memory.host_copies().front();
    EXPECT_EQ(copies.max_blocks(), 5);
    EXPECT_EQ(copies.bytes(), 0u) << "nothing is allocated before it is needed";
    EXPECT_EQ(copies.grow(), 5);
    for (std::size_t rank = 0; rank < 2; ++rank) {
      const KvCache& pages = memory.of_rank(rank).pages();
      std::vector<unsigned char> values(pages.bytes());
      for (std::size_t i = 0; i < values.size(); ++i) {
        values[i] = static_cast<unsigned char>(100 * rank + i / block_bytes);
      }
      device.upload(pages.plane(0).data, values.data(), values.size());
    }
    const DriverCounters before = device.driver().counters();
    memory.save(0, 1, 4);
    memory.copy_block(0, 2, 1);
    memory.load(0, 4, 3);
    const DriverCounters copied = device.driver().counters() - before;
    EXPECT_EQ(copied.copies_to_host, 2 * 3);
    EXPECT_EQ(copied.copies_to_device, 2 * 3);
    EXPECT_EQ(copied.synchronizations, 0);
    for (std::size_t rank = 0; rank < 2; ++rank) {
      const KvCache& pages = memory.of_rank(rank).pages();
      std::vector<unsigned char> after(pages.bytes());
      device.download(after.data(), pages.plane(0).data, after.size());
      for (std::size_t i = 0; i < after.size(); ++i) {
        const std::size_t block = i / block_bytes;
        const std::size_t from = block % 4 == 1 ? block + 1 : block % 4 == 3 ? block - 2 : block;
        ASSERT_EQ(after[i], 100 * rank + from);
      }
    }
    EXPECT_THROW(memory.save(0, 4, 0), LogicError);
    EXPECT_THROW(memory.load(0, 5, 0), LogicError);
  }
  EXPECT_TRUE(log_->memory.empty());
}

TEST(HostCopies, GrowInPiecesUpToTheirLimit) {
  Device device;
  constexpr std::size_t third = HostCopies::piece_bytes / 3 + 1;
  HostCopies copies(device, third, static_cast<std::int64_t>(7 * third + third / 2));
  EXPECT_EQ(copies.max_blocks(), 7);
  EXPECT_EQ(copies.grow(), 3);
  EXPECT_EQ(copies.grow(), 6);
  EXPECT_EQ(copies.grow(), 7);
  EXPECT_EQ(copies.grow(), 7);
  EXPECT_EQ(copies.bytes(), copies.max_bytes());
  *copies.block(0) = std::byte{1};
  EXPECT_EQ(copies.block(1) - copies.block(0), static_cast<std::ptrdiff_t>(third));
  EXPECT_THROW(static_cast<void>(copies.block(7)), LogicError);
  EXPECT_EQ(HostCopies(device, 100, 99).grow(), 0);
}

TEST_F(KvCacheOnGpu, WithoutRoomIsAnErrorWithBothNumbers) {
  log_->free_bytes = 100;
  try {
    KvCache cache(*device_, planes(small_layout(DType::f16), 3), 4);
    FAIL() << "allocated";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), testing::AllOf(testing::HasSubstr("KV cache for 64 tokens"), testing::HasSubstr("3 layers"),
                                             testing::HasSubstr("GiB are free on Fake GPU")));
  }
}

TEST(KvCache, ImpossibleSizeIsAnErrorWithTheNumbers) {
  const KvLayout layout{.dtype = DType::f16, .block_tokens = 32, .kv_heads = 128, .head_dim = 256};
  try {
    Device device;
    KvCache cache(device, planes(layout, 200), std::numeric_limits<std::int32_t>::max());
    FAIL() << "petabytes were allocated";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), testing::AllOf(testing::HasSubstr("68719476704 tokens"), testing::HasSubstr("GiB"),
                                             testing::HasSubstr("200 layers")));
  }
}

std::size_t resident_bytes() {
  std::ifstream statm("/proc/self/statm");
  std::size_t total_pages = 0;
  std::size_t resident_pages = 0;
  statm >> total_pages >> resident_pages;
  return resident_pages * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
}

TEST(KvCache, TouchesMemoryOnlyWhenUsed) {
  const KvLayout layout{.dtype = DType::f16, .block_tokens = 32, .kv_heads = 8, .head_dim = 128};
  const std::size_t before = resident_bytes();
  Device device;
  KvCache cache(device, planes(layout, 4), 1024);
  ASSERT_EQ(cache.bytes(), std::size_t{512} << 20);
  static_cast<char*>(cache.plane(3).data)[0] = 1;
  EXPECT_LT(resident_bytes(), before + (std::size_t{16} << 20));
}

TEST(KvCache, RefusesTypesItCannotHold) {
  Device device;
  EXPECT_THROW(KvCache(device, planes(small_layout(DType::q4_k), 1), 1), LogicError);
  EXPECT_THROW(KvCache(device, planes(small_layout(DType::f16), 1), 0), LogicError);
}

TEST(SequenceMemory, AModelWithoutAttentionHasBlocksWithoutBytes) {
  Device device;
  const SequenceMemory memory(device, {{}}, {.blocks = {7}, .slot_bytes = 512, .slots = 3});
  EXPECT_EQ(memory.pages().num_blocks(), 7);
  EXPECT_EQ(memory.pages().bytes(), 0u);
  EXPECT_EQ(memory.state_bytes(), 1536u);
  const StateView states = memory.states();
  EXPECT_EQ(states.num_slots, 3);
  EXPECT_EQ(states.at(256).data - states.data, 256);
  EXPECT_EQ(states.at(256).slot_stride, 512);
}

TEST(SequenceMemory, GroupsHaveBlocksAndLayoutsOfTheirOwn) {
  Device device;
  const KvLayout wide{.dtype = DType::f16, .block_tokens = 16, .kv_heads = 1, .head_dim = 32};
  const KvGroups groups{{0, {wide}}, {100, {small_layout(DType::f32), wide}}};
  SequenceMemory memory(device, groups, {.blocks = {9, 4}});
  EXPECT_EQ(memory.num_groups(), 2);
  EXPECT_EQ(memory.block_tokens(), 16);
  EXPECT_EQ(memory.num_blocks(), (std::vector<std::int32_t>{9, 4}));
  EXPECT_EQ(memory.pages(0).bytes(), 9 * wide.block_bytes());
  const std::size_t narrow_bytes = small_layout(DType::f32).block_bytes();
  EXPECT_EQ(memory.pages(1).bytes(), 4 * (narrow_bytes + wide.block_bytes()));
  EXPECT_EQ(memory.page_bytes(), memory.pages(0).bytes() + memory.pages(1).bytes());
  EXPECT_EQ(static_cast<std::byte*>(memory.pages(1).plane(1).data) - static_cast<std::byte*>(memory.pages(1).plane(0).data),
            static_cast<std::ptrdiff_t>(4 * narrow_bytes));
  KvCache& pages = memory.pages(1);
  std::memset(pages.plane(0).data, 1, 4 * narrow_bytes);
  std::memset(pages.plane(1).data, 2, 4 * wide.block_bytes());
  std::memset(static_cast<std::byte*>(pages.plane(1).data) + 3 * wide.block_bytes(), 3, wide.block_bytes());
  pages.copy_block(3, 0);
  const auto* bytes = static_cast<const unsigned char*>(pages.plane(1).data);
  EXPECT_EQ(bytes[0], 3);
  EXPECT_EQ(bytes[wide.block_bytes() - 1], 3);
  EXPECT_EQ(bytes[wide.block_bytes()], 2);
}

TEST(SequenceMemory, RefusesGroupsThatDoNotBelongTogether) {
  Device device;
  const KvLayout other{.dtype = DType::f16, .block_tokens = 32, .kv_heads = 2, .head_dim = 8};
  EXPECT_THROW(SequenceMemory(device, {}, {}), LogicError);
  EXPECT_THROW(SequenceMemory(device, {{7, {other}}}, {.blocks = {1}}), LogicError);
  EXPECT_THROW(SequenceMemory(device, {{0, {other}}, {0, {other}}}, {.blocks = {1, 1}}), LogicError);
  EXPECT_THROW(SequenceMemory(device, {{0, {other}}, {7, {other}}}, {.blocks = {1}}), LogicError);
  EXPECT_THROW(SequenceMemory(device, {{0, {other}}, {7, {small_layout(DType::f16)}}}, {.blocks = {1, 1}}), LogicError);
}

TEST(SequenceMemory, AModelWithoutStateHasNoSlots) {
  Device device;
  const SequenceMemory memory(device, {{0, planes(small_layout(DType::f16), 1)}}, {.blocks = {1}});
  EXPECT_EQ(memory.states().num_slots, 0);
  EXPECT_EQ(memory.state_bytes(), 0u);
  EXPECT_THROW(SequenceMemory(device, {{}}, {.blocks = {1}, .slot_bytes = 8}), LogicError);
  EXPECT_THROW(SequenceMemory(device, {{}}, {.blocks = {1}, .slot_bytes = std::size_t{1} << 62, .slots = 8}), Error);
}

}  // namespace
}  // namespace rocmforge
