#include "plan_table.h"

#include <fmt/format.h>

#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <tuple>
#include <vector>

#include "text.h"

namespace rocmforge::app {
namespace {

/// Operations of several layers that have everything in common.
struct PlanGroup {
  std::string operation;  ///< "blk.*.attn_qkv"
  const PlannedOperation* first = nullptr;
  int count = 0;
  std::size_t weight_bytes = 0;
};

std::string without_layer(const std::string& operation) {
  if (!operation.starts_with("blk.")) {
    return operation;
  }
  const std::size_t end = operation.find('.', 4);
  return end == std::string::npos ? operation : "blk.*" + operation.substr(end);
}

std::vector<PlanGroup> group(const std::vector<PlannedOperation>& plan) {
  std::vector<PlanGroup> groups;
  std::map<std::tuple<std::string, std::string, std::string>, std::size_t> index;
  for (const PlannedOperation& operation : plan) {
    const std::string name = without_layer(operation.operation);
    const auto [found, added] = index.try_emplace({name, operation.spec, operation.kernel}, groups.size());
    if (added) {
      groups.push_back({name, &operation});
    }
    PlanGroup& here = groups[found->second];
    ++here.count;
    here.weight_bytes += operation.weight_bytes;
  }
  return groups;
}

}  // namespace

void print_plan(const Model& model) {
  fmt::print("\nplan\n");
  Table table({"operation", ">times", "kernel", ">weights", "what"});
  const std::vector<PlanGroup> groups = group(model.plan());
  for (const PlanGroup& line : groups) {
    table.add({line.operation, fmt::format("{}", line.count), line.first->kernel,
               line.weight_bytes > 0 ? human_bytes(line.weight_bytes) : "", line.first->spec});
  }
  table.print(stdout);
  fmt::print("\nnot chosen, and why\n");
  for (const PlanGroup& line : groups) {
    std::vector<std::string> reasons;
    for (const Refusal& refusal : line.first->refusals) {
      reasons.push_back(fmt::format("{} ({})", refusal.kernel, refusal.reason));
    }
    fmt::print("  {}: {}\n", line.operation, fmt::join(reasons, ", "));
  }
  fmt::print("\nweights read per token {}, repacked copies {}, workspace {}\n", human_bytes(model.bytes_per_token()),
             human_bytes(model.packed_bytes()), human_bytes(model.workspace_bytes()));
}

nlohmann::ordered_json plan_json(const Model& model) {
  auto operations = nlohmann::ordered_json::array();
  for (const PlannedOperation& operation : model.plan()) {
    auto refusals = nlohmann::ordered_json::array();
    for (const Refusal& refusal : operation.refusals) {
      refusals.push_back({{"kernel", refusal.kernel}, {"reason", refusal.reason}});
    }
    operations.push_back({{"operation", operation.operation},
                          {"spec", operation.spec},
                          {"kernel", operation.kernel},
                          {"weight_bytes", operation.weight_bytes},
                          {"refusals", refusals}});
  }
  return {{"operations", operations},
          {"weights_read_per_token_bytes", model.bytes_per_token()},
          {"repacked_bytes", model.packed_bytes()},
          {"workspace_bytes", model.workspace_bytes()}};
}

}  // namespace rocmforge::app
