#include "bench/kernel_bench.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include "base/json.h"
#include "bench/measure.h"
#include "flags.h"

namespace rocmforge::app {
namespace {

constexpr double shortest_round_seconds = 0.004;
constexpr int rounds = 9;

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

double median(std::vector<double> values) {
  std::ranges::nth_element(values, values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2));
  return values[values.size() / 2];
}

/// The number of calls of a round: a multiple of the input sets, and enough for a time far above the clock's resolution.
int calls_of_a_round(double seconds_of_one, int inputs) {
  const double wanted = std::clamp(shortest_round_seconds / std::max(seconds_of_one, 1e-7), 1.0, 400.0);
  return (static_cast<int>(wanted) + inputs) / inputs * inputs;
}

}  // namespace

KernelBench::KernelBench(const std::string& device, const std::string& kernel_folder, int threads)
    : device_(open_device(device, KernelLibrary::installed_or_from(kernel_folder))),
      pool_(std::make_unique<ThreadPool>(threads > 0 ? threads : available_processors())) {
  register_all_kernels(registry_, device_.get());
  context_.pool = pool_.get();
  if (device_->is_gpu()) {
    context_.stream = &device_->stream();
    ceilings_ = measure_gpu_ceilings(*device_, registry_);
  } else {
    ceilings_.read_bytes_per_second = read_bandwidth(pool_->num_threads());
  }
  ceiling_cache().store(device_->info(), ceilings_);
}

void KernelBench::leave_out(const std::vector<AvoidedKernel>& kernels) {
  for (const AvoidedKernel& kernel : kernels) {
    registry_.avoid(kernel);
  }
}

double KernelBench::median_seconds(const std::function<void(int)>& call, int inputs) {
  const auto timed = [](const auto& work) {
    const double start = now();
    work();
    return now() - start;
  };
  const auto all_inputs = [&](int calls) {
    for (int i = 0; i < calls; ++i) {
      call(i % inputs);
      if (device_->is_gpu()) {
        device_->stream().put_held();  // each call by itself
      }
    }
  };
  std::vector<double> seconds;
  if (!device_->is_gpu()) {
    const int calls = calls_of_a_round(timed([&] { all_inputs(1); }), inputs);
    for (int round = 0; round < rounds; ++round) {
      seconds.push_back(timed([&] { all_inputs(calls); }) / calls);
    }
    return median(seconds);
  }
  Stream& stream = device_->stream();
  all_inputs(inputs);  // loads modules, and lets vendor libraries choose their kernels
  stream.synchronize();
  const double once = timed([&] {
    all_inputs(inputs);
    stream.synchronize();
  });
  const int calls = calls_of_a_round(once / inputs, inputs);
  const Graph graph = stream.capture([&] { all_inputs(calls); });
  Event start(*device_);
  Event end(*device_);
  for (int round = 0; round <= rounds; ++round) {
    stream.record(start);
    stream.launch(graph);
    stream.record(end);
    end.synchronize();
    if (round > 0) {
      seconds.push_back(Event::elapsed_seconds(start, end) / calls);
    }
  }
  return median(seconds);
}

CheckedTime KernelBench::check_and_time(CheckedCalls& calls) {
  CheckedTime found{.difference = calls.check_each()};
  found.seconds = median_seconds([&calls](int input) { calls.run(input); }, calls.inputs());
  if (found.difference.right()) {
    const OutputDifference last = calls.check_last(calls.inputs() - 1);  // each round ends with the last set
    found.difference = last.right() && last.relative <= found.difference.relative ? found.difference : last;
  }
  return found;
}

std::string KernelBench::headline() const {
  const DeviceInfo& info = device_->info();
  std::string text =
      fmt::format("{} ({}): reads {:.1f} GB/s", info.name, info.architecture, ceilings_.read_bytes_per_second / 1e9);
  if (device_->is_gpu()) {
    text += fmt::format(", copies {:.1f} GB/s (read and written), f16 products {:.1f} TFLOP/s",
                        ceilings_.copy_bytes_per_second / 1e9, ceilings_.matrix_flops_per_second / 1e12);
  } else {
    text += fmt::format(" with {} threads", pool_->num_threads());
  }
  return text;
}

CeilingCache ceiling_cache() { return CeilingCache(ceilings_file()); }

void KernelBenchFlags::add_to(Command& command) {
  command.options.push_back(device_option(device));
  command.options.push_back(kernel_dir_option(kernel_folder));
  command.options.push_back({"--kernel", &kernel, "Measure this kernel alone (names: rocmforge devices)", "NAME"});
  command.options.push_back(without_option(without));
  command.options.push_back(threads_option(threads));
  command.options.push_back(json_option(json));
}

void Report::note_if_wrong(const OutputDifference& difference, const std::string& call) {
  if (!difference.right()) {
    wrong.push_back(fmt::format("{}: {}", call, describe(difference, "out")));
  }
}

int Report::print(const std::string& headline, bool json) const {
  if (json) {
    print_json({{"machine", headline}, {"right", wrong.empty()}, {"wrong", wrong}, {"rows", table.json()}});
  } else {
    fmt::print("{}\n", headline);
    table.print(stdout, true);
  }
  std::fflush(stdout);
  for (const std::string& line : wrong) {
    fmt::print(stderr, "rocmforge: WRONG: {}\n", line);
  }
  return wrong.empty() ? 0 : 1;
}

std::string percent_of(double value, double ceiling) {
  return ceiling > 0.0 ? fmt::format("{:.1f}", 100.0 * value / ceiling) : std::string();
}

std::string error_text(const OutputDifference& difference) {
  return fmt::format("{:.1e}{}", difference.relative, difference.right() ? "" : " WRONG");
}

}  // namespace rocmforge::app
