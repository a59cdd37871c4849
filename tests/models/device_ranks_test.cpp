// What ranks exchange that are GPUs: every element, in memory that is poisoned before and behind, in rounds one after
// another. On a pair of GPUs that ROCMFORGE_TEST_DEVICE names, emulated or real.

#include "models/step/device_ranks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <exception>
#include <iterator>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "kernels/register_all.h"
#include "models/device_pair.h"

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

/// Of both ranks.
struct OnEach {
  Placed first;
  Placed second;
  const Placed& operator[](int rank) const { return rank == 0 ? first : second; }
};

class DeviceRanksTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (device_pair().devices.empty()) {
      GTEST_SKIP() << device_pair().problem;
    }
    register_all_kernels(registry_, &device(0));
    ranks_.emplace(2, registry_, device(0).info());
    ranks_->open(device_pair().addresses());
    for (std::int32_t rank = 0; rank < 2; ++rank) {
      communicators_.push_back(ranks_->communicator(rank));
    }
    all_reduce_ = registry_.choose<AllReduce>({2}, device(0).info()).kernel;
  }
  [[nodiscard]] static Device& device(int rank) { return *device_pair().devices[static_cast<std::size_t>(rank)]; }
  [[nodiscard]] static bool emulated() { return !device(0).info().vendor_runtime; }
  Communicator& of(int rank) { return *communicators_[static_cast<std::size_t>(rank)]; }

  void sum(int rank, const float* part, std::int64_t count, float* out, bool add) {
    ExecutionContext context{.stream = &device(rank).stream()};
    of(rank).all_reduce({2}, *all_reduce_, {.part = part, .count = count, .out = out, .add = add}, context);
  }
  /// values(rank) in the memory of each rank; before the ranks wait for each other, as allocations may wait for kernels.
  template <class Values>
  [[nodiscard]] static OnEach on_each(const Values& values) {
    return {Placed(device(0), values(0)), Placed(device(1), values(1))};
  }
  /// Calls body(rank) on a thread of each, and waits for the devices.
  template <class Body>
  void on_both(const Body& body) {
    threads_.run([&](int rank) {
      body(rank);
      device(rank).stream().synchronize();
    });
  }
  /// A sum of other numbers, on both ranks.
  void expect_sum(std::int64_t count, bool add, unsigned seed) {
    const Floats parts[2] = {normals(count, seed), normals(count, seed + 1)};
    Floats before = normals(count, seed + 2);
    before.resize(before.size() + guard, poison);
    Floats expected = before;
    for (std::size_t i = 0; i < parts[0].size(); ++i) {
      const float both = parts[0][i] + parts[1][i];
      expected[i] = add ? before[i] + both : both;
    }
    const auto placed_parts = on_each([&](int rank) { return parts[rank]; });
    const auto outs = on_each([&](int) { return before; });
    on_both([&](int rank) { sum(rank, placed_parts[rank].data(), count, outs[rank].data(), add); });
    for (int rank = 0; rank < 2; ++rank) {
      EXPECT_EQ(bits(outs[rank].read()), bits(expected)) << count << " elements on rank " << rank << (add ? ", added" : "");
    }
  }

  KernelRegistry registry_;
  std::optional<DeviceRanks> ranks_;
  std::vector<std::unique_ptr<Communicator>> communicators_;
  const OpKernel<AllReduce>* all_reduce_ = nullptr;
  ThreadPool threads_{2};
};

TEST_F(DeviceRanksTest, SumsHaveTheBitsOfTheOrderOfTheRanks) {
  unsigned seed = 1;
  for (const bool add : {false, true}) {
    for (const std::int64_t count : {1, 2, 7, 64, 1025, 2048, 4099}) {
      for (int time = 0; time < 2; ++time) {
        expect_sum(count, add, seed += 3);
      }
    }
  }
}

/// All work-groups, and more than one launch.
TEST_F(DeviceRanksTest, LargeSumsToo) {
  const std::int64_t launch = RankExchange::elements_of_launch;
  for (const std::int64_t count :
       emulated() ? std::vector<std::int64_t>{66001} : std::vector{launch - 1, launch, launch + 1}) {
    expect_sum(count, true, 77);
    expect_sum(count, false, 78);
  }
}

/// The library adds in an order of its own, but here there are two numbers, and a third that is added by us.
TEST_F(DeviceRanksTest, VeryLargeSumsOfTheLibraryAreTheSame) {
  constexpr std::int64_t count = (std::int64_t{16} << 20) + 5;
  if (!ranks_->is_large(count)) {
    GTEST_SKIP() << "neither NCCL nor RCCL";
  }
  expect_sum(count, false, 5);
  expect_sum(count, true, 6);
}

TEST_F(DeviceRanksTest, RowsAreGatheredWhereTheyAreWanted) {
  std::vector<std::vector<std::int64_t>> all{{5, 3}, {1, 0}, {0, 7}, {300, 1025}};
  if (!emulated()) {
    all.push_back({64128, 64128});
  }
  unsigned seed = 900;
  for (const auto& widths : all) {
    for (const std::int64_t rows : {1, 3, 17}) {
      const std::int64_t width = widths[0] + widths[1];
      const Floats parts[2] = {normals(rows * widths[0], ++seed), normals(rows * widths[1], ++seed)};
      const Floats before(static_cast<std::size_t>(rows * width + guard), poison);
      Floats expected = before;
      for (std::int64_t row = 0; row < rows; ++row) {
        std::copy_n(parts[0].begin() + row * widths[0], widths[0], expected.begin() + row * width);
        std::copy_n(parts[1].begin() + row * widths[1], widths[1], expected.begin() + row * width + widths[0]);
      }
      for (const Receivers receivers : {Receivers::first, Receivers::all, Receivers::first}) {
        const auto placed_parts = on_each([&](int rank) { return parts[rank]; });
        const auto outs = on_each([&](int) { return before; });
        const auto receives = [receivers](int rank) { return receivers == Receivers::all || rank == 0; };
        on_both([&](int rank) {
          of(rank).gather(placed_parts[rank].data(), rows, widths, receivers, receives(rank) ? outs[rank].data() : nullptr);
        });
        for (int rank = 0; rank < 2; ++rank) {
          EXPECT_EQ(bits(outs[rank].read()), bits(receives(rank) ? expected : before)) << rows << " rows on rank " << rank;
        }
      }
    }
  }
}

TEST_F(DeviceRanksTest, NumbersOfTheFirstRankAreToldToAll) {
  for (const std::int64_t count : {1, 64, 1500}) {
    Floats told = normals(count, 4);
    told[0] = std::bit_cast<float>(-2);  // any bits
    told.resize(told.size() + guard, poison);
    const Floats before(told.size(), poison);
    const auto data = on_each([&](int rank) { return rank == 0 ? told : before; });
    on_both([&](int rank) { of(rank).broadcast(data[rank].data(), static_cast<std::size_t>(count) * sizeof(float)); });
    EXPECT_EQ(bits(data[0].read()), bits(told));
    EXPECT_EQ(bits(data[1].read()), bits(told));
  }
}

/// Replays follow each other without a wait, as decode steps do: a rank that is ahead must not overwrite what the other one
/// still reads.
TEST_F(DeviceRanksTest, RecordedExchangesAreReplayed) {
  constexpr std::int64_t count = 1027;
  const int replays = emulated() ? 3 : 2000;
  const std::vector<std::int64_t> widths{40, 88};
  const auto parts = on_each([&](int rank) { return Floats(count, rank == 0 ? 1.0f : 0.25f); });
  const auto sums = on_each([&](int) { return Floats(count, 0.0f); });
  const auto rows = on_each([&](int) { return Floats(128, 0.0f); });
  const auto drawn = on_each([&](int rank) { return Floats(8, rank == 0 ? 3.0f : 0.0f); });
  Graph graphs[2];
  const auto exchange = [&](int rank) {
    sum(rank, parts[rank].data(), count, sums[rank].data(), true);
    sum(rank, sums[rank].data(), 100, rows[rank].data(), false);
    of(rank).gather(sums[rank].data(), 1, widths, Receivers::all, rows[rank].data());
    of(rank).broadcast(drawn[rank].data(), 8 * sizeof(float));
  };
  on_both(exchange);
  on_both([&](int rank) { graphs[rank] = device(rank).stream().capture([&] { exchange(rank); }); });
  on_both([&](int rank) {
    for (int i = 0; i < replays; ++i) {
      device(rank).stream().launch(graphs[rank]);
    }
  });
  const Floats expected(count, 1.25f * static_cast<float>(replays + 1));
  for (int rank = 0; rank < 2; ++rank) {
    EXPECT_EQ(sums[rank].read(), expected);
    EXPECT_EQ(rows[rank].read(), Floats(128, expected[0]));
    EXPECT_EQ(drawn[rank].read(), Floats(8, 3.0f));
  }
}

/// Rank 1 does not come: rank 0, whose kernel waits for it, ends, and the next step is computed.
TEST_F(DeviceRanksTest, OneThatFailsLetsTheOthersGo) {
  for (int attempt = 0; attempt < 2; ++attempt) {
    const Placed part(device(0), Floats(3000, 1.0f));
    const Placed out(device(0), Floats(3000, 1.0f));
    on_both([&](int rank) {
      if (rank == 1) {
        std::this_thread::sleep_for(std::chrono::milliseconds(100));
        ranks_->fail(std::make_exception_ptr(Error("this rank can't go on")));
        return;
      }
      sum(0, part.data(), 3000, out.data(), false);
    });
    ranks_->begin_step();
    expect_sum(3001, true, 50);
  }
}

}  // namespace
}  // namespace rocmforge::testing
