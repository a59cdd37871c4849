#include "checks/product_groups.h"

#include <fmt/format.h>

#include <string>

#include "checks/placed_layer.h"

namespace rocmforge {
namespace {

using SetGroups = std::function<void(Device& device, double a_unit)>;

/// The choice of a device as long as it lives, then `before` again.
class Chosen {
 public:
  Chosen(Device& device, const SetGroups& set, double a_unit, double before) : device_(device), set_(set), before_(before) {
    set_(device_, a_unit);
  }
  ~Chosen() { set_(device_, before_); }
  Chosen(const Chosen&) = delete;
  Chosen& operator=(const Chosen&) = delete;

 private:
  Device& device_;
  const SetGroups& set_;
  double before_;
};

CallResult check_choice(CheckBench& bench, const LayerProducts& layer, double first, double a_unit, const SetGroups& set) {
  CallResult result;
  result.oracle = fmt::format("{:g} a unit", first);
  bench.on_phase(CheckPhase::inputs);
  const LayerInputs inputs(layer);
  result.bytes = inputs.bytes;
  PlacedLayer tested(bench, layer, inputs, kernels_of(layer));
  bench.on_phase(CheckPhase::call);
  tested.run(2);
  const LayerState expected = tested.state();
  tested.set(inputs.state);
  const Chosen chosen(tested.device(), set, a_unit, first);
  tested.run(2);
  if (!same_bits(tested.state(), expected)) {
    result.problem = fmt::format("other bits than with {:g} work-groups a unit", first);
    return result;
  }
  result.elements = static_cast<std::int64_t>(expected.hidden.size() + expected.gate.size() + expected.qkv.size());
  bench.on_phase(CheckPhase::timing);
  result.seconds = bench.seconds_of([&] { tested.run(1); });
  return result;
}

}  // namespace

std::vector<KernelCase> product_group_cases(const LayerProducts& layer, std::span<const double> choices,
                                            const SetGroups& set) {
  std::vector<KernelCase> cases;
  for (const double a_unit : choices) {
    cases.push_back({.operation = std::string(product_groups_operation),
                     .spec = layer.spec(),
                     .kernel = std::string(layer.kernel->name()),
                     .shape = fmt::format("{:g} a unit, layers of {}", a_unit, layer.name),
                     .run = [layer, first = choices[0], a_unit, set](CheckBench& bench) {
                       return check_choice(bench, layer, first, a_unit, set);
                     }});
  }
  return cases;
}

}  // namespace rocmforge
