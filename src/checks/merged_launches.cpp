#include "checks/merged_launches.h"

#include <fmt/format.h>

#include <cstdint>
#include <string>

#include "checks/oracle.h"
#include "checks/placed_layer.h"

namespace rocmforge {
namespace {

/// Launches may be merged as long as it lives; nothing on a processor.
class Merging {
 public:
  explicit Merging(Stream* stream) : stream_(stream) { allow(true); }
  ~Merging() { allow(false); }
  Merging(const Merging&) = delete;
  Merging& operator=(const Merging&) = delete;

 private:
  void allow(bool allowed) {
    if (stream_ != nullptr) {
      stream_->allow_merging(allowed);
    }
  }
  Stream* stream_;
};

/// "merged launches gave other bits than a launch for each product, WHEN"; empty when the state is the expected one.
std::string other_bits(PlacedLayer& tested, const LayerState& expected, std::string_view when) {
  return same_bits(tested.state(), expected)
             ? std::string()
             : fmt::format("merged launches gave other bits than a launch for each product, {}", when);
}

/// Work on the second stream that takes about as long as so many layers.
void start_load(CheckBench& bench, int repetitions) {
  constexpr int layers_of_a_load = 25;
  for (int layers = 0; layers < repetitions; layers += layers_of_a_load) {
    bench.load().start();
  }
}

/// Merged launches that start from `first` must leave `expected`. The problem, or the reason why there was nothing to check,
/// becomes part of `result`.
void compare_merged(CheckBench& bench, PlacedLayer& tested, const LayerState& first, const LayerState& expected,
                    int repetitions, CallResult& result) {
  const Merging merging(tested.stream());
  bench.on_phase(CheckPhase::call);
  tested.set(first);
  const std::int64_t before = tested.launches();
  tested.run(repetitions);
  result.problem = other_bits(tested, expected, "alone");
  if (!result.right() || tested.stream() == nullptr) {
    return;
  }
  if (tested.launches() - before == repetitions * tested.layer().launches()) {
    result.skipped = "the formats of these weights keep their products from being merged";
    return;
  }
  bench.on_phase(CheckPhase::call_beside_load);
  tested.set(first);
  start_load(bench, repetitions);
  tested.run(repetitions);
  result.problem = other_bits(tested, expected, "beside other work");
  bench.load().wait();
  if (!result.right()) {
    return;
  }
  tested.set(first);
  const Graph graph = tested.stream()->capture([&] { tested.run(repetitions); });
  bench.on_phase(CheckPhase::call_beside_load);
  start_load(bench, repetitions);
  tested.stream()->launch(graph);
  result.problem = other_bits(tested, expected, "replayed from a graph");
  bench.load().wait();
}

CallResult check_layer(CheckBench& bench, const LayerProducts& layer, const LayerKernels& oracle) {
  CallResult result;
  result.oracle = oracle.dense->name();
  bench.on_phase(CheckPhase::inputs);
  const LayerInputs inputs(layer);
  result.bytes = inputs.bytes;
  PlacedLayer tested(bench, layer, inputs, kernels_of(layer));
  {
    PlacedLayer plain(bench, layer, inputs, oracle);
    if (!compare_products(bench, layer, tested, plain, result)) {
      return result;
    }
  }
  const int repetitions = repetitions_of(bench.device().info());
  bench.on_phase(CheckPhase::call);
  tested.set(inputs.state);
  tested.run(repetitions);
  const LayerState expected = tested.state();
  compare_merged(bench, tested, inputs.state, expected, repetitions, result);
  if (result.right() && result.skipped.empty() && bench.times_calls) {
    bench.on_phase(CheckPhase::timing);
    result.seconds_apart = bench.seconds_of([&] { tested.run(1); });
    const Merging merging(tested.stream());
    result.seconds = bench.seconds_of([&] { tested.run(1); });
  }
  return result;
}

/// On one device; none where an operation has no oracle there.
LayerKernels oracles_of(const LayerProducts& layer, const KernelRegistry& registry, const DeviceInfo& device) {
  LayerKernels found{.dense = oracle_of<Matmul>(registry, layer[LayerProduct::attention_output][0], device)};
  if (layer.experts && found.dense != nullptr) {
    found.router = oracle_of<RouteRows>(registry, layer.experts->route, device);
    found.experts = oracle_of<ExpertMatmul>(registry, layer.experts->gate_up, device);
    if (found.router == nullptr || found.router->device() != found.dense->device() || found.experts == nullptr ||
        found.experts->device() != found.dense->device()) {
      return {};
    }
  }
  if (layer.norms && found.dense != nullptr) {
    found.norm = oracle_of<RmsNorm>(registry, layer.norms->spec, device);
    if (found.norm == nullptr || found.norm->device() != found.dense->device()) {
      return {};
    }
  }
  return found;
}

}  // namespace

std::vector<KernelCase> merged_launch_cases(const std::vector<LayerProducts>& layers, const KernelRegistry& registry,
                                            const DeviceInfo& device) {
  std::vector<KernelCase> cases;
  for (const LayerProducts& layer : layers) {
    check(layer.fits_together(), "products that don't follow each other");
    const LayerKernels oracle = oracles_of(layer, registry, device);
    if (oracle.dense != nullptr) {
      cases.push_back({.operation = std::string(merged_launches_operation),
                       .spec = layer.spec(),
                       .kernel = std::string(layer.kernel->name()),
                       .shape = fmt::format("layers of {}", layer.name),
                       .run = [layer, oracle](CheckBench& bench) { return check_layer(bench, layer, oracle); }});
    }
  }
  return cases;
}

}  // namespace rocmforge
