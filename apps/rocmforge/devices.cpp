#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/thread_pool.h"
#include "command.h"
#include "kernels/register_all.h"
#include "measure.h"
#include "progress.h"
#include "text.h"

namespace rocmforge::app {
namespace {

template <class Op>
void list_kernels(const KernelRegistry& registry, nlohmann::ordered_json& out) {
  auto names = nlohmann::ordered_json::array();
  for (const auto& kernel : registry.all<Op>()) {
    names.push_back({{"name", kernel->name()}, {"device", name(kernel->device())}, {"priority", kernel->priority()}});
  }
  std::stable_sort(names.begin(), names.end(), [](const auto& a, const auto& b) { return a["priority"] > b["priority"]; });
  out[std::string(Op::name)] = names;
}

nlohmann::ordered_json list_all_kernels() {
  KernelRegistry registry;
  register_all_kernels(registry);
  nlohmann::ordered_json out;
  list_kernels<EmbeddingRows>(registry, out);
  list_kernels<RmsNorm>(registry, out);
  list_kernels<Matmul>(registry, out);
  list_kernels<RopeAppend>(registry, out);
  list_kernels<Attention>(registry, out);
  list_kernels<GatedActivation>(registry, out);
  return out;
}

int devices(bool json) {
  const DeviceInfo cpu = cpu_device_info();
  double bandwidth = 0.0;
  {
    const Progress progress("measuring the memory");
    bandwidth = read_bandwidth(available_processors());
  }
  const auto kernels = list_all_kernels();
  if (json) {
    print_json({{"devices",
                 {{{"kind", name(cpu.kind)},
                   {"name", cpu.name},
                   {"architecture", cpu.architecture},
                   {"instruction_set", name(cpu.cpu_isa)},
                   {"processors", available_processors()},
                   {"memory_bytes", cpu.memory_bytes},
                   {"read_bytes_per_second", bandwidth}}}},
                {"gpu_kernels", false},
                {"kernels", kernels}});
    return 0;
  }
  fmt::print("cpu     {}\n", cpu.name);
  fmt::print("        instruction set {}\n", name(cpu.cpu_isa));
  fmt::print("        {} processors, {} of memory, read at {:.1f} GB/s by all of them\n", available_processors(),
             human_bytes(static_cast<std::uint64_t>(cpu.memory_bytes)), bandwidth / 1e9);
  fmt::print("gpu     none: this build has no GPU kernels\n\nkernels by operation, highest priority wins where it can\n");
  Table table({"operation", "kernel", "device", ">priority"});
  for (const auto& [operation, entries] : kernels.items()) {
    for (const auto& entry : entries) {
      table.add({operation, entry["name"], entry["device"], fmt::format("{}", entry["priority"].get<int>())});
    }
  }
  table.print(stdout);
  return 0;
}

}  // namespace

void add_devices(CLI::App& program, Action& action) {
  auto json = std::make_shared<bool>(false);
  CLI::App* command = program.add_subcommand("devices", "The processors, their memory speed, and the kernels there are");
  command->footer("Examples:\n  rocmforge devices\n  rocmforge devices --json");
  command->add_flag("--json", *json, "JSON");
  command->callback([json, &action] { action = [json] { return devices(*json); }; });
}

}  // namespace rocmforge::app
