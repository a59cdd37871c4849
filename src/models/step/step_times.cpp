#include <algorithm>
#include <chrono>
#include <optional>
#include <set>
#include <span>

#include "models/transformer.h"

namespace rocmforge {
namespace {

constexpr int repetitions = 15;

double median(std::vector<double>& values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

template <class Work>
double seconds_on_host(const Work& work) {
  std::vector<double> seconds;
  for (int i = 0; i <= repetitions; ++i) {
    const auto start = std::chrono::steady_clock::now();
    work();
    if (i > 0) {  // the first call warms up caches and threads
      seconds.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
    }
  }
  return median(seconds);
}

/// Replays the work from a graph, as decode steps do. Single launches would measure the host.
template <class Work>
double seconds_on_gpu(Device& device, const Work& work) {
  Stream& stream = device.stream();
  const Graph graph = stream.capture(work);
  Event start(device);
  Event end(device);
  std::vector<double> seconds;
  for (int i = 0; i <= repetitions; ++i) {
    stream.record(start);
    stream.launch(graph);
    stream.record(end);
    end.synchronize();
    if (i > 0) {
      seconds.push_back(Event::elapsed_seconds(start, end));
    }
  }
  return median(seconds);
}

}  // namespace

std::string_view operation_kind(std::string_view operation) {
  if (!operation.starts_with("blk.")) {
    return operation;
  }
  const std::size_t end = operation.find('.', 4);
  return end == std::string_view::npos ? operation : operation.substr(end + 1);
}

std::vector<OperationTime> Transformer::time_operations(const BatchPlan& batch, SequenceMemory& memory) {
  forward(batch, memory);  // checks the batch; loads kernels
  wait();
  const StepArrays arrays = rank_->arrays_of(batch, StepInputs::shape_of(batch));
  std::optional<StepArrays> host;
  if (host_rank_) {
    host = host_arrays(batch);
  }
  const auto seconds_of = [&](const auto& work) {
    if (rank_->on_gpu() && !host) {
      return seconds_on_gpu(rank_->device(), work);
    }
    return seconds_on_host([&] {  // a graph has no work of the host in it
      work();
      if (rank_->on_gpu()) {
        rank_->device().stream().synchronize();
      }
    });
  };
  const StepArrays* const host_part = host ? &*host : nullptr;
  std::vector<OperationTime> times;
  std::set<std::string_view> known;
  for (const PlannedOperation& operation : std::span(plan_.report.operations()).first(layer_operations_)) {
    const std::string_view kind = operation_kind(operation.operation);
    const bool never = operation.times == 0 && batch.num_logit_rows() == batch.num_tokens();
    if (never || operation.is_part(batch.num_tokens()) || !known.insert(kind).second) {
      continue;
    }
    const RunOperations of_kind = [kind](const Operations& operations, const Step& step) {
      for (const Operation& each : operations) {
        if (each.kind == kind) {
          each.run(step);
        }
      }
    };
    const auto work = [&] { compute(layers_pass(), arrays, host_part, nullptr, memory, of_kind); };
    times.push_back({std::string(kind), seconds_of(work)});
  }
  const auto all = [&] { compute(layers_pass(), arrays, host_part, nullptr, memory, run_all); };
  times.push_back({"", seconds_of(all)});
  return times;
}

}  // namespace rocmforge
