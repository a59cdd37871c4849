// What ranks exchange that are GPUs: every element, in memory that is poisoned before and behind, in rounds one after
// another. On two, three and four GPUs of the kind that ROCMFORGE_TEST_DEVICE names, emulated or real.

#include "models/step/device_ranks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <exception>
#include <functional>
#include <iterator>
#include <memory>
#include <numeric>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "kernels/register_all.h"
#include "models/opened_devices.h"

namespace rocmforge::testing {
namespace {

using Floats = std::vector<float>;
using Receivers = Communicator::Receivers;

constexpr std::int64_t guard = 33;  ///< elements behind an output
const float poison = std::bit_cast<float>(0x7fc12345u);

Floats normals(std::int64_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0.0f, 3.0f);
  Floats values(static_cast<std::size_t>(count));
  std::generate(values.begin(), values.end(), [&] { return normal(random); });
  return values;
}

std::vector<std::uint32_t> bits(const Floats& values) {
  std::vector<std::uint32_t> all;
  std::transform(values.begin(), values.end(), std::back_inserter(all),
                 [](float v) { return std::bit_cast<std::uint32_t>(v); });
  return all;
}

/// Values in the memory of a device, which end where its allocation does.
class Placed {
 public:
  Placed(Device& device, const Floats& values)
      : device_(&device), count_(values.size()), buffer_(device.allocate(std::max<std::size_t>(bytes(), 4), "a test")) {
    write(values);
  }
  void write(const Floats& values) { device_->upload(buffer_.data(), values.data(), bytes()); }
  [[nodiscard]] Floats read() const {
    Floats values(count_);
    device_->download(values.data(), buffer_.data(), bytes());
    return values;
  }
  [[nodiscard]] float* data() const { return buffer_.as<float>(); }

 private:
  [[nodiscard]] std::size_t bytes() const { return count_ * sizeof(float); }
  Device* device_;
  std::size_t count_;
  DeviceBuffer buffer_;
};

class DeviceRanksTest : public ::testing::TestWithParam<std::int32_t> {
 protected:
  void SetUp() override {
    if (opened_devices().devices.empty()) {
      GTEST_SKIP() << opened_devices().problem;
    }
    if (std::ssize(opened_devices().devices) < count_) {
      GTEST_SKIP() << "not so many GPUs";
    }
    register_all_kernels(registry_, &device(0));
    ranks_.emplace(count_, registry_, device(0).info());
    std::vector<Device*> addresses;
    for (std::int32_t rank = 0; rank < count_; ++rank) {
      addresses.push_back(&device(rank));
    }
    ranks_->open(addresses, {}, half_elements());
    for (std::int32_t rank = 0; rank < count_; ++rank) {
      communicators_.push_back(ranks_->communicator(rank));
    }
    all_reduce_ = registry_.choose<AllReduce>({count_}, device(0).info()).kernel;
  }
  [[nodiscard]] static Device& device(int rank) { return *opened_devices().devices[rank]; }
  [[nodiscard]] static bool emulated() { return !device(0).info().vendor_runtime; }
  /// The most of a sum of half a step.
  [[nodiscard]] static std::int64_t half_elements() { return emulated() ? 66'001 : (std::int64_t{4} << 20) + 77; }
  Communicator& of(int rank) { return *communicators_[static_cast<std::size_t>(rank)]; }

  void sum(int rank, const float* part, std::int64_t count, float* out, bool add) {
    ExecutionContext context{.stream = &device(rank).stream()};
    of(rank).all_reduce({count_}, *all_reduce_, {.part = part, .count = count, .out = out, .add = add}, context);
  }
  /// values(rank) in the memory of each rank; before the ranks wait for each other, as allocations may wait for kernels.
  template <class Values>
  [[nodiscard]] std::vector<Placed> on_each(const Values& values) const {
    std::vector<Placed> placed;
    for (int rank = 0; rank < count_; ++rank) {
      placed.emplace_back(device(rank), values(rank));
    }
    return placed;
  }
  /// Calls body(rank) on a thread of each, and waits for the devices.
  template <class Body>
  void on_all(const Body& body) {
    threads_.run([&](int rank) {
      body(rank);
      device(rank).stream().synchronize();
    });
  }
  /// A sum of other numbers, on all ranks.
  void expect_sum(std::int64_t count, bool add, unsigned seed) {
    std::vector<Floats> parts;
    Floats sums;
    for (int rank = 0; rank < count_; ++rank) {
      parts.push_back(normals(count, seed + static_cast<unsigned>(rank)));
      if (rank == 0) {
        sums = parts[0];
      } else {
        std::ranges::transform(sums, parts.back(), sums.begin(), std::plus<>());
      }
    }
    Floats before = normals(count, seed + 100);
    before.resize(before.size() + guard, poison);
    Floats expected = before;
    for (std::size_t i = 0; i < sums.size(); ++i) {
      expected[i] = add ? before[i] + sums[i] : sums[i];
    }
    const auto placed_parts = on_each([&](int rank) { return parts[rank]; });
    const auto outs = on_each([&](int) { return before; });
    on_all([&](int rank) { sum(rank, placed_parts[rank].data(), count, outs[rank].data(), add); });
    for (int rank = 0; rank < count_; ++rank) {
      EXPECT_EQ(bits(outs[rank].read()), bits(expected)) << count << " elements on rank " << rank << (add ? ", added" : "");
    }
  }

  const std::int32_t count_ = GetParam();
  KernelRegistry registry_;
  std::optional<DeviceRanks> ranks_;
  std::vector<std::unique_ptr<Communicator>> communicators_;
  const OpKernel<AllReduce>* all_reduce_ = nullptr;
  ThreadPool threads_{count_};
};

TEST_P(DeviceRanksTest, SumsHaveTheBitsOfTheOrderOfTheRanks) {
  unsigned seed = 1;
  for (const bool add : {false, true}) {
    for (const std::int64_t count : {1, 2, 7, 64, 1025, 2048, 4099}) {
      for (int time = 0; time < 2; ++time) {
        expect_sum(count, add, seed += 3);
      }
    }
  }
}

/// All work-groups, more than one launch, and sums of which each rank adds a slice.
TEST_P(DeviceRanksTest, LargeSumsToo) {
  const std::int64_t launch = RankExchange::elements_of_launch;
  std::vector<std::int64_t> counts{launch - 1, launch, launch + 1, launch / 2 * count_ - 1, launch / 2 * count_ + 1};
  if (emulated()) {
    counts = {66001, 100'003};
  }
  unsigned seed = 77;
  for (const std::int64_t count : counts) {
    expect_sum(count, true, seed++);
    expect_sum(count, false, seed++);
  }
}

/// The library adds in an order of its own, but here there are two numbers, and a third that is added by us.
TEST_P(DeviceRanksTest, VeryLargeSumsOfTheLibraryAreTheSame) {
  constexpr std::int64_t count = (std::int64_t{16} << 20) + 5;
  if (!ranks_->is_large(count)) {
    GTEST_SKIP() << "neither NCCL nor RCCL";
  }
  expect_sum(count, false, 5);
  expect_sum(count, true, 6);
}

/// Two sums are under way at a time; a product would run between begin and finish. The parts change from round to round, in
/// the same memory.
TEST_P(DeviceRanksTest, SumsOfHalvesHaveTheBitsOfTheOrderOfTheRanks) {
  ASSERT_NE(ranks_->half_sums(), nullptr);
  const std::int64_t counts[2] = {half_elements(), half_elements() / 2 + 1};
  const int rounds = emulated() ? 2 : 20;
  std::vector<Floats> parts;  ///< of each rank, for both halves
  std::vector<Floats> before;
  Floats sums;
  for (int rank = 0; rank < count_; ++rank) {
    parts.push_back(normals(counts[0], 40 + static_cast<unsigned>(rank)));
    if (rank == 0) {
      sums = parts[0];
    } else {
      std::ranges::transform(sums, parts.back(), sums.begin(), std::plus<>());
    }
  }
  for (const std::int64_t count : counts) {
    before.push_back(normals(count, static_cast<unsigned>(count)));
    before.back().resize(before.back().size() + guard, poison);
  }
  const auto one = on_each([&](int rank) { return parts[rank]; });
  const auto two = on_each([&](int rank) { return parts[rank]; });
  const auto added = on_each([&](int) { return before[0]; });
  const auto written = on_each([&](int) { return before[1]; });
  on_all([&](int rank) {
    ExecutionContext context{.stream = &device(rank).stream()};
    const auto begin = [&](std::size_t half) {
      of(rank).begin_sum(half, {.spec = {count_},
                                .kernel = all_reduce_,
                                .sum = {.part = (half == 0 ? one : two)[rank].data(),
                                        .count = counts[half],
                                        .out = (half == 0 ? added : written)[rank].data(),
                                        .add = half == 0}});
    };
    begin(0);
    for (int round = 0; round < rounds; ++round) {
      begin(1);
      of(rank).finish_sum(0, context);
      if (round + 1 < rounds) {
        begin(0);
      }
      of(rank).finish_sum(1, context);
    }
  });
  for (int round = 0; round < rounds; ++round) {
    std::transform(sums.begin(), sums.end(), before[0].begin(), before[0].begin(),
                   [](float sum, float x) { return x + sum; });
  }
  std::copy_n(sums.begin(), counts[1], before[1].begin());
  for (int rank = 0; rank < count_; ++rank) {
    EXPECT_EQ(bits(added[rank].read()), bits(before[0])) << "rank " << rank;
    EXPECT_EQ(bits(written[rank].read()), bits(before[1])) << "rank " << rank;
  }
}

TEST_P(DeviceRanksTest, RowsAreGatheredWhereTheyAreWanted) {
  std::vector<std::vector<std::int64_t>> all{{5, 3, 2, 1}, {1, 0, 0, 3}, {0, 7, 1, 0}, {300, 1025, 40, 700}};
  if (!emulated()) {
    all.push_back({64128, 64128, 64128, 64128});
  }
  unsigned seed = 900;
  for (auto& widths : all) {
    widths.resize(static_cast<std::size_t>(count_));
    for (const std::int64_t rows : {1, 3, 17}) {
      const std::int64_t width = std::accumulate(widths.begin(), widths.end(), std::int64_t{0});
      const Floats before(static_cast<std::size_t>(rows * width + guard), poison);
      Floats expected = before;
      std::vector<Floats> parts;
      std::int64_t column = 0;
      for (int rank = 0; rank < count_; column += widths[rank++]) {
        parts.push_back(normals(rows * widths[rank], ++seed));
        for (std::int64_t row = 0; row < rows; ++row) {
          std::copy_n(parts[rank].begin() + row * widths[rank], widths[rank], expected.begin() + row * width + column);
        }
      }
      for (const Receivers receivers : {Receivers::first, Receivers::all, Receivers::first}) {
        const auto placed_parts = on_each([&](int rank) { return parts[rank]; });
        const auto outs = on_each([&](int) { return before; });
        const auto receives = [receivers](int rank) { return receivers == Receivers::all || rank == 0; };
        on_all([&](int rank) {
          of(rank).gather(placed_parts[rank].data(), rows, widths, receivers, receives(rank) ? outs[rank].data() : nullptr);
        });
        for (int rank = 0; rank < count_; ++rank) {
          EXPECT_EQ(bits(outs[rank].read()), bits(receives(rank) ? expected : before)) << rows << " rows on rank " << rank;
        }
      }
    }
  }
}

TEST_P(DeviceRanksTest, NumbersOfTheFirstRankAreToldToAll) {
  for (const std::int64_t count : {1, 64, 1500}) {
    Floats told = normals(count, 4);
    told[0] = std::bit_cast<float>(-2);  // any bits
    told.resize(told.size() + guard, poison);
    const Floats before(told.size(), poison);
    const auto data = on_each([&](int rank) { return rank == 0 ? told : before; });
    on_all([&](int rank) { of(rank).broadcast(data[rank].data(), static_cast<std::size_t>(count) * sizeof(float)); });
    for (const Placed& each : data) {
      EXPECT_EQ(bits(each.read()), bits(told));
    }
  }
}

/// Replays follow each other without a wait, as decode steps do: a rank that is ahead must not overwrite what another one
/// still reads. The second sum is one by slices where there are more than two ranks.
TEST_P(DeviceRanksTest, RecordedExchangesAreReplayed) {
  constexpr std::int64_t count = 100'003;
  constexpr std::int64_t few = 1027;
  const int replays = emulated() ? 2 : 2000;
  const std::vector<std::int64_t> widths{40, 88, 0, 8};
  const std::vector<std::int64_t> own_widths(widths.begin(), widths.begin() + count_);
  const std::int64_t width = std::accumulate(own_widths.begin(), own_widths.end(), std::int64_t{0});
  const auto parts = on_each([&](int rank) { return Floats(count, rank == 0 ? 1.0f : 0.25f); });
  const auto sums = on_each([&](int) { return Floats(count, 0.0f); });
  const auto few_sums = on_each([&](int) { return Floats(few, 0.0f); });
  const auto rows = on_each([&](int) { return Floats(static_cast<std::size_t>(width), 0.0f); });
  const auto drawn = on_each([&](int rank) { return Floats(8, rank == 0 ? 3.0f : 0.0f); });
  std::vector<Graph> graphs(static_cast<std::size_t>(count_));
  const auto exchange = [&](int rank) {
    sum(rank, parts[rank].data(), few, few_sums[rank].data(), true);
    sum(rank, parts[rank].data(), count, sums[rank].data(), true);
    of(rank).gather(sums[rank].data(), 1, own_widths, Receivers::all, rows[rank].data());
    of(rank).broadcast(drawn[rank].data(), 8 * sizeof(float));
  };
  on_all(exchange);
  on_all([&](int rank) { graphs[rank] = device(rank).stream().capture([&] { exchange(rank); }); });
  on_all([&](int rank) {
    for (int i = 0; i < replays; ++i) {
      device(rank).stream().launch(graphs[rank]);
    }
  });
  const float expected = (1.0f + 0.25f * static_cast<float>(count_ - 1)) * static_cast<float>(replays + 1);
  for (int rank = 0; rank < count_; ++rank) {
    EXPECT_EQ(few_sums[rank].read(), Floats(few, expected));
    EXPECT_EQ(sums[rank].read(), Floats(count, expected));
    EXPECT_EQ(rows[rank].read(), Floats(static_cast<std::size_t>(width), expected));
    EXPECT_EQ(drawn[rank].read(), Floats(8, 3.0f));
  }
}

/// Rank 1 does not come: the others, whose kernels wait for it, end, and the next step is computed.
TEST_P(DeviceRanksTest, OneThatFailsLetsTheOthersGo) {
  for (const std::int64_t count : {3000, 90'000}) {
    const auto parts = on_each([&](int) { return Floats(static_cast<std::size_t>(count), 1.0f); });
    const auto outs = on_each([&](int) { return Floats(static_cast<std::size_t>(count), 1.0f); });
    on_all([&](int rank) {
      if (rank == 1) {
        std::this_thread::sleep_for(std::chrono::milliseconds(100));
        ranks_->fail(std::make_exception_ptr(Error("this rank can't go on")));
        return;
      }
      sum(rank, parts[rank].data(), count, outs[rank].data(), false);
    });
    ranks_->begin_step();
    expect_sum(3001, true, 50);
  }
}

INSTANTIATE_TEST_SUITE_P(Ranks, DeviceRanksTest, ::testing::Values(2, 3, 4));

}  // namespace
}  // namespace rocmforge::testing
