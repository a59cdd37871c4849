// Sums by copies between GPUs: PeerSums itself, on streams and events that run one piece of work at a time, in random orders
// of those that they allow. A wait that is missing shows as wrong numbers.

#include "models/step/peer_sums.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/thread_pool.h"
#include "models/step/thread_communicator.h"
#include "temporary_folder.h"

namespace rocmforge::testing {
namespace {

/// The streams and events of all GPUs. What is put on streams waits there until run().
class Machine {
 public:
  void put(void* stream, std::function<void()> work) {
    const std::scoped_lock lock(mutex_);
    streams_[stream].push_back({.work = std::move(work)});
  }
  void record(void* event, void* stream) {
    const std::scoped_lock lock(mutex_);
    const int time = ++recorded_[event];
    streams_[stream].push_back({.work = [this, event, time] { reached_[event] = time; }});
  }
  /// For what is recorded by now, as runtimes do.
  void wait(void* stream, void* event) {
    const std::scoped_lock lock(mutex_);
    streams_[stream].push_back({.event = event, .time = recorded_[event]});
  }
  /// Returns whether all has ended.
  bool run(std::mt19937& random) {
    while (true) {
      std::vector<std::deque<Work>*> ready;
      bool any = false;
      for (auto& [stream, works] : streams_) {
        any = any || !works.empty();
        if (!works.empty() && reached_[works.front().event] >= works.front().time) {
          ready.push_back(&works);
        }
      }
      if (ready.empty()) {
        return !any;
      }
      std::deque<Work>& stream = *ready[random() % ready.size()];
      const Work work = std::move(stream.front());
      stream.pop_front();
      if (work.work) {
        work.work();
      }
    }
  }
  void* handle() { return reinterpret_cast<void*>(++last_handle_); }

 private:
  struct Work {
    std::function<void()> work{};
    void* event = nullptr;  ///< to be waited for
    int time = 0;
  };
  std::mutex mutex_;
  std::map<void*, std::deque<Work>> streams_;
  std::map<void*, int> recorded_;
  std::map<void*, int> reached_;
  std::uintptr_t last_handle_ = 0;
};

/// A GPU of the machine, whose memory is the host's.
class MachineDriver final : public Driver {
 public:
  explicit MachineDriver(Machine& machine) : machine_(&machine) {
    info_.kind = DeviceKind::hip;
    info_.name = "GPU of a machine";
    info_.architecture = "gfx1100";
  }
  [[nodiscard]] Machine& machine() const { return *machine_; }
  [[nodiscard]] const DeviceInfo& info() const override { return info_; }
  [[nodiscard]] std::string runtime() const override { return "machine"; }
  [[nodiscard]] Memory memory() override { return {std::int64_t{1} << 30, std::int64_t{1} << 30}; }
  void free(void* address) noexcept override { std::free(address); }
  void* allocate_pinned(std::size_t size_bytes) override { return std::malloc(size_bytes); }
  void free_pinned(void* address) noexcept override { std::free(address); }
  StreamHandle create_stream() override { return {machine_->handle()}; }
  void destroy_stream(StreamHandle) noexcept override {}
  EventHandle create_event() override { return {machine_->handle()}; }
  void destroy_event(EventHandle) noexcept override {}
  void record(EventHandle event, StreamHandle stream) override { machine_->record(event.value, stream.value); }
  bool finished(EventHandle) override { return false; }
  void wait(StreamHandle stream, EventHandle event) override { machine_->wait(stream.value, event.value); }
  double elapsed_seconds(EventHandle, EventHandle) override { return 0.0; }
  void begin_capture(StreamHandle) override {}
  GraphHandle end_capture(StreamHandle) override { return {}; }
  void destroy_graph(GraphHandle) noexcept override {}
  ModuleHandle load_module(std::span<const std::byte>, std::string_view) override { return {this}; }
  void unload_module(ModuleHandle) noexcept override {}
  FunctionHandle find_function(ModuleHandle, const std::string&) override { return {}; }
  FunctionInfo function_info(FunctionHandle) override { return {}; }

 private:
  void* do_allocate(std::size_t size_bytes) override { return std::aligned_alloc(256, (size_bytes + 255) / 256 * 256); }
  void do_copy_to_device(void*, const void*, std::size_t, StreamHandle) override {}
  void do_copy_to_host(void*, const void*, std::size_t, StreamHandle) override {}
  /// Others run between its two parts.
  void do_copy_on_device(void* to, const void* from, std::size_t size_bytes, StreamHandle stream) override {
    const std::size_t half = size_bytes / 2;
    machine_->put(stream.value, [=] { std::memcpy(to, from, half); });
    machine_->put(stream.value, [=] {
      std::memcpy(static_cast<std::byte*>(to) + half, static_cast<const std::byte*>(from) + half, size_bytes - half);
    });
  }
  void do_fill(void* to, std::uint8_t value, std::size_t size_bytes, StreamHandle) override {
    std::memset(to, value, size_bytes);
  }
  void do_synchronize(StreamHandle) override {}
  void do_synchronize(EventHandle) override {}
  void do_launch(GraphHandle, StreamHandle) override {}
  void do_launch(FunctionHandle, std::string_view, const LaunchShape&, std::span<const std::byte>, StreamHandle) override {}

  Machine* machine_;
  DeviceInfo info_;
};

void put(Stream& stream, std::function<void()> work) {
  dynamic_cast<MachineDriver&>(stream.device().driver()).machine().put(stream.handle().value, std::move(work));
}

class QueuedSum final : public OpKernel<AllReduce> {
 public:
  [[nodiscard]] std::string_view name() const override { return "queued"; }
  [[nodiscard]] DeviceKind device() const override { return DeviceKind::hip; }
  [[nodiscard]] KernelPriority priority() const override { return {}; }
  [[nodiscard]] Support supports(const AllReduce::Spec&, const DeviceInfo&) const override { return Support::yes(); }
  void run(const AllReduce::Spec& spec, const AllReduce::Args& args, ExecutionContext& context) const override {
    put(*context.stream, [spec, args] {
      for (std::int64_t i = 0; i < args.count; ++i) {
        args.out[i] = args.parts[0][i];
        for (std::size_t rank = 1; rank < static_cast<std::size_t>(spec.ranks); ++rank) {
          args.out[i] += args.parts[rank][i];
        }
      }
    });
  }
};

/// Rounds of sums of two halves on so many GPUs.
class Rounds {
 public:
  static constexpr int rounds = 4;
  static constexpr std::int64_t most = 350;

  explicit Rounds(std::int32_t ranks) : ranks_(ranks) {
    folder_.write("gfx1100/any.hsaco",
                  "\x7f"
                  "ELF code");
    std::vector<Device*> addresses;
    for (std::int32_t rank = 0; rank < ranks; ++rank) {
      devices_.push_back(
          std::make_unique<Device>(std::make_unique<MachineDriver>(machine_), KernelLibrary::from_folder(folder_.path())));
      addresses.push_back(devices_.back().get());
    }
    sums_ = std::make_unique<PeerSums>(addresses, most);
    parts_.resize(addresses.size());
    outs_.resize(addresses.size());
  }

  /// What one rank puts on its streams: as a step, the parts of both halves in turn, each in the same memory every time.
  void put_on_streams(std::int32_t rank, const PeerSums::Meet& meet) {
    const auto r = static_cast<std::size_t>(rank);
    for (int round = 0; round <= rounds; ++round) {
      for (std::size_t half = 0; half < 2; ++half) {
        Stream& stream = devices_[r]->stream();
        if (round > 0) {
          const float* const sum = sums_->finish(rank, half, meet);
          std::vector<float>& out = outs_[r][static_cast<std::size_t>(round - 1) * 2 + half];
          out.resize(static_cast<std::size_t>(count(round - 1, half)));
          put(stream, [sum, &out] { std::copy_n(sum, out.size(), out.begin()); });
        }
        if (round < rounds) {
          std::vector<float>& part = parts_[r][half];
          part.resize(static_cast<std::size_t>(most));
          put(stream, [rank, round, half, &part] {
            for (std::size_t i = 0; i < part.size(); ++i) {
              part[i] = value(rank, round, half, i);
            }
          });
          sums_->begin(rank, half, part.data(), count(round, half), kernel_, meet);
        }
      }
    }
  }
  bool run(std::mt19937& random) { return machine_.run(random); }
  [[nodiscard]] bool right() const {
    for (int round = 0; round < rounds; ++round) {
      for (std::size_t half = 0; half < 2; ++half) {
        for (const auto& of_rank : outs_) {
          const std::vector<float>& out = of_rank[static_cast<std::size_t>(round) * 2 + half];
          for (std::size_t i = 0; i < out.size(); ++i) {
            float sum = value(0, round, half, i);
            for (std::int32_t rank = 1; rank < ranks_; ++rank) {
              sum += value(rank, round, half, i);
            }
            if (out[i] != sum) {
              return false;
            }
          }
        }
      }
    }
    return true;
  }

 private:
  /// Also sums that leave the last ranks without a slice.
  static std::int64_t count(int round, std::size_t half) { return round == 1 ? 70 : half == 0 ? most : 257; }
  static float value(std::int32_t rank, int round, std::size_t half, std::size_t i) {
    return static_cast<float>(1 + rank) / 3.0f + static_cast<float>(round * 2000) + static_cast<float>(half * 1000) +
           static_cast<float>(i);
  }

  std::int32_t ranks_;
  Machine machine_;
  TemporaryFolder folder_;
  QueuedSum kernel_;
  std::vector<std::unique_ptr<Device>> devices_;
  std::unique_ptr<PeerSums> sums_;
  std::vector<std::array<std::vector<float>, 2>> parts_;
  std::vector<std::array<std::vector<float>, std::size_t{2} * rounds>> outs_;
};

TEST(PeerSums, AreRightInAnyOrderThatStreamsAndEventsAllow) {
  for (const std::int32_t count : {2, 3, 4}) {
    ThreadPool threads(count);
    for (unsigned seed = 0; seed < 12; ++seed) {
      Rounds rounds(count);
      ThreadRanks ranks(count);
      threads.run([&](int rank) { rounds.put_on_streams(rank, [&] { ranks.enter(rank, nullptr); }); });
      std::mt19937 random(seed);
      ASSERT_TRUE(rounds.run(random)) << "streams wait for each other: " << count << " ranks, seed " << seed;
      ASSERT_TRUE(rounds.right()) << count << " ranks, seed " << seed;
    }
  }
}

/// What the ranks' threads meet for: an event that is not recorded yet is not waited for. This also shows that the orders
/// above find a wait that is missing.
TEST(PeerSums, AreWrongWhereARankDoesNotWaitForTheOthersEvents) {
  int wrong = 0;
  for (unsigned seed = 0; seed < 20; ++seed) {
    Rounds rounds(2);
    for (std::int32_t rank = 0; rank < 2; ++rank) {
      rounds.put_on_streams(rank, [] {});
    }
    std::mt19937 random(seed);
    EXPECT_TRUE(rounds.run(random));
    wrong += rounds.right() ? 0 : 1;
  }
  EXPECT_GT(wrong, 10);
}

}  // namespace
}  // namespace rocmforge::testing
