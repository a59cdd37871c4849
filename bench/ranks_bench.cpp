#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/split.h"
#include "base/thread_pool.h"
#include "kernels/register_all.h"
#include "models/step/device_ranks.h"

namespace rocmforge::bench {
namespace {

struct Options {
  std::string devices = "cuda:0,cuda:1";
  std::string kernel_dir;
  std::int64_t most_bytes = std::int64_t{64} << 20;
  int repeats = 15;
};

constexpr std::int64_t least_bytes = 8 << 10;
constexpr int sums_of_graph = 20;  ///< the time of one is that of the graph by this

/// Sums over GPUs, in recorded graphs as decode steps have them: the slowest rank's median.
class Bench {
 public:
  explicit Bench(const Options& options) : options_(options) {
    const KernelLibrary kernels = KernelLibrary::installed_or_from(options.kernel_dir);
    prepare_for_peers();
    for (const std::string_view name : split(options.devices, ',')) {
      devices_.push_back(open_device(name, kernels));
      addresses_.push_back(devices_.back().get());
    }
    register_all_kernels(registry_, addresses_.front());
    const auto count = static_cast<std::int32_t>(devices_.size());
    ranks_.emplace(count, registry_, devices_.front()->info());
    ranks_->open(addresses_);
    threads_ = std::make_unique<ThreadPool>(count);
    for (Device* const device : addresses_) {
      const auto bytes = static_cast<std::size_t>(options.most_bytes);
      parts_.push_back(device->allocate(bytes, "parts"));
      outs_.push_back(device->allocate(bytes, "sums"));
    }
  }

  void run() {
    fmt::print("{}\n{:>12}  {:>10}  {:>10}\n", options_.devices, "bytes", "own us", "library us");
    for (std::int64_t bytes = least_bytes; bytes <= options_.most_bytes; bytes *= 2) {
      const std::int64_t count = bytes / static_cast<std::int64_t>(sizeof(float));
      const double own = microseconds([&](std::int32_t rank) {
        RankExchange::Args args{.part = part(rank), .out = out(rank), .add = true};
        std::fill_n(args.widths.begin(), devices_.size(), count);
        ranks_->exchange(rank, args);
      });
      const std::string library =
          !ranks_->is_large(std::int64_t{1} << 40)
              ? "-"
              : fmt::format("{:.1f}", microseconds([&](std::int32_t rank) {
                              ranks_->library().sum(rank, part(rank), out(rank), count, ranks_->device(rank).stream());
                            }));
      fmt::print("{:>12}  {:>10.1f}  {:>10}\n", bytes, own, library);
    }
  }

 private:
  [[nodiscard]] float* part(std::int32_t rank) const { return parts_[static_cast<std::size_t>(rank)].as<float>(); }
  [[nodiscard]] float* out(std::int32_t rank) const { return outs_[static_cast<std::size_t>(rank)].as<float>(); }

  template <class Call>
  double microseconds(const Call& call) {
    std::vector<double> medians(devices_.size());
    threads_->run([&](int rank) {
      Stream& stream = ranks_->device(rank).stream();
      call(rank);
      const Graph graph = stream.capture([&] {
        for (int i = 0; i < sums_of_graph; ++i) {
          call(rank);
        }
      });
      Event begin(ranks_->device(rank));
      Event end(ranks_->device(rank));
      std::vector<double> seconds;
      for (int i = 0; i < options_.repeats; ++i) {
        stream.launch(graph);  // the ranks meet here
        stream.record(begin);
        stream.launch(graph);
        stream.record(end);
        stream.synchronize();
        seconds.push_back(Event::elapsed_seconds(begin, end));
      }
      std::ranges::nth_element(seconds, seconds.begin() + options_.repeats / 2);
      medians[static_cast<std::size_t>(rank)] = seconds[static_cast<std::size_t>(options_.repeats / 2)];
    });
    return *std::ranges::max_element(medians) / sums_of_graph * 1e6;
  }

  Options options_;
  KernelRegistry registry_;
  std::vector<std::unique_ptr<Device>> devices_;
  std::vector<Device*> addresses_;
  std::optional<DeviceRanks> ranks_;
  std::unique_ptr<ThreadPool> threads_;
  std::vector<DeviceBuffer> parts_;
  std::vector<DeviceBuffer> outs_;
};

}  // namespace
}  // namespace rocmforge::bench

int main(int argc, char** argv) {
  CLI::App app{"Times sums over the GPUs of ranks: RankExchange beside NCCL or RCCL"};
  rocmforge::bench::Options options;
  app.add_option("--device", options.devices, "GPUs, separated by commas");
  app.add_option("--kernel-dir", options.kernel_dir, "GPU code objects");
  app.add_option("--most-bytes", options.most_bytes, "The largest sum")
      ->check(CLI::Range(std::int64_t{8192}, std::int64_t{1} << 30));
  CLI11_PARSE(app, argc, argv);
  try {
    rocmforge::bench::Bench(options).run();
  } catch (const std::exception& error) {
    fmt::print(stderr, "bench_ranks: {}\n", error.what());
    return 1;
  }
  return 0;
}
