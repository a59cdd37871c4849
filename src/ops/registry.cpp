#include "ops/registry.h"

#include "ops/kernel_registry.h"

namespace rocmforge {

const AvoidedKernel* find_avoided(const std::vector<AvoidedKernel>& avoided, std::string_view operation,
                                  std::string_view kernel) {
  const auto found = std::ranges::find_if(avoided, [&](const AvoidedKernel& one) {
    return (one.operation.empty() || one.operation == operation) && is_named(kernel, one.kernel);
  });
  return found != avoided.end() ? &*found : nullptr;
}

Error nobody_serves(std::string_view operation, const std::string& spec, const std::vector<Refusal>& refusals,
                    std::string_view unknown) {
  std::string message("no kernel for ");
  message.append(operation).append(" ").append(spec);
  if (!unknown.empty()) {
    message.append("; there is none named '").append(unknown).append("'");
  }
  for (const Refusal& refusal : refusals) {
    message.append("; ").append(refusal.kernel).append(": ").append(refusal.reason);
  }
  return Error(message);
}

KernelRegistry::KernelRegistry() = default;
KernelRegistry::~KernelRegistry() = default;

}  // namespace rocmforge
