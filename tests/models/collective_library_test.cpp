#include "models/step/collective_library.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "device/fake_driver.h"
#include "kernels/register_all.h"
#include "models/error_text.h"
#include "models/step/device_ranks.h"
#include "temporary_folder.h"

namespace rocmforge::testing {
namespace {

using ::testing::HasSubstr;

constexpr std::array fake{ROCMFORGE_FAKE_NCCL};
constexpr std::array old{ROCMFORGE_FAKE_NCCL_OLD};
constexpr std::array absent{"libnccl-that-is-missing.so.2"};

/// Two fake GPUs, whose memory is the host's.
class CollectiveLibraryTest : public ::testing::Test {
 protected:
  CollectiveLibraryTest() {
    folder_.write("sm_90/ranks.cubin",
                  "\x7f"
                  "ELF code");
    for (const auto& log : logs_) {
      devices_.push_back(
          std::make_unique<Device>(std::make_unique<FakeDriver>(log, "sm_90"), KernelLibrary::from_folder(folder_.path())));
      addresses_.push_back(devices_.back().get());
    }
  }

  TemporaryFolder folder_;
  std::array<std::shared_ptr<FakeDriver::Log>, 2> logs_{std::make_shared<FakeDriver::Log>(),
                                                        std::make_shared<FakeDriver::Log>()};
  std::vector<std::unique_ptr<Device>> devices_;
  std::vector<Device*> addresses_;
};

TEST_F(CollectiveLibraryTest, SumsFloatsOfAllRanksAndFreesThem) {
  const Entry<int()> alive(RuntimeLibrary(fake), "fake_communicators");
  std::vector<float> part{1.0f, 2.0f, 4.0f};
  std::vector<float> out(4, -1.0f);
  {
    const CollectiveRanks ranks(addresses_, fake);
    EXPECT_EQ(alive(), 2);
    ranks.sum(1, part.data(), out.data(), 3, devices_[1]->stream());
  }
  EXPECT_EQ(out, (std::vector<float>{2.0f, 4.0f, 8.0f, -1.0f}));
  EXPECT_EQ(alive(), 0);
}

TEST_F(CollectiveLibraryTest, WhatTheVendorsHeadersNameIsLookedFor) {
  EXPECT_STREQ(CollectiveLibrary::names_of(DeviceKind::cuda)[0], "libnccl.so.2");
  EXPECT_STREQ(CollectiveLibrary::names_of(DeviceKind::hip)[0], "librccl.so.1");
  EXPECT_THAT(error_text([&] { CollectiveRanks(addresses_, absent); }), HasSubstr("libnccl-that-is-missing.so.2"));
  EXPECT_THAT(error_text([&] { CollectiveRanks(addresses_, old); }), HasSubstr("version 1304 is too old, 2 is needed"));
}

/// Small sums are launches of our own, large ones the library's, with the residual stream added by a kernel.
TEST_F(CollectiveLibraryTest, LargeSumsAreTheLibrarys) {
  KernelRegistry registry;
  register_all_kernels(registry);
  DeviceRanks ranks(2, registry, devices_[0]->info());
  ranks.open(addresses_, fake);
  const auto communicator = ranks.communicator(0);
  const auto& kernel = *registry.choose<AllReduce>({2}, devices_[0]->info()).kernel;
  ExecutionContext context{.stream = &devices_[0]->stream()};
  const auto sum = [&](std::int64_t count, bool add) {
    std::vector<float> part(static_cast<std::size_t>(count), 1.0f);
    std::vector<float> out(static_cast<std::size_t>(count), 5.0f);
    logs_[0]->kernels.clear();
    communicator->all_reduce({2}, kernel, {.part = part.data(), .count = count, .out = out.data(), .add = add}, context);
    EXPECT_EQ(ranks.is_large(count) && !add ? 2.0f : 5.0f, out.back());
    return logs_[0]->kernels;
  };
  constexpr auto large = static_cast<std::int64_t>(DeviceRanks::large_sum_bytes / sizeof(float));
  EXPECT_EQ(sum(large - 1, true), std::vector<std::string>(2, "rank_exchange"));  // more than one launch moves
  EXPECT_EQ(sum(4096, false), std::vector<std::string>{"rank_exchange"});
  EXPECT_EQ(sum(large, false), std::vector<std::string>{});
  EXPECT_EQ(sum(large, true), std::vector<std::string>{"all_reduce"});
}

/// Before the GPUs are opened, the plan counts the memory that they take then.
TEST_F(CollectiveLibraryTest, StepsAreComputedInHalvesWhereSumsAreLarge) {
  KernelRegistry registry;
  register_all_kernels(registry);
  const DeviceInfo& info = devices_[0]->info();
  DeviceRanks ranks(2, registry, info);
  EXPECT_EQ(ranks.halves_from(4096), 1024);
  EXPECT_EQ(ranks.halves_from(8192), 1024);
  EXPECT_EQ(ranks.halves_from(1024), 4096);
  constexpr std::int64_t elements = 1000;
  const std::size_t before = devices_[0]->allocated_bytes();
  ranks.open(addresses_, fake, elements);
  EXPECT_EQ(ranks.halves_from(4096), 1024);
  EXPECT_EQ(devices_[0]->allocated_bytes() - before,
            PeerSums::device_bytes(2, elements) + RankExchange::groups * sizeof(std::uint32_t));
  EXPECT_EQ(DeviceRanks::device_bytes(2, elements) - DeviceRanks::device_bytes(2, 0), PeerSums::device_bytes(2, elements));
  DeviceRanks without(2, registry, info);
  without.open(addresses_, fake);
  EXPECT_EQ(without.halves_from(4096), 0) << "no room for sums of halves";
}

}  // namespace
}  // namespace rocmforge::testing
