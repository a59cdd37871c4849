#include "ops/registry.h"

#include "ops/kernel_registry.h"

namespace rocmforge {

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
