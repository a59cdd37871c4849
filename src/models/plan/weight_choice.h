#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>

#include "ops/kernel_registry.h"
#include "tensor/dtype.h"

namespace rocmforge {

/// Whether the kernel's layout takes at most 9/8 of the bytes of the weights in the file.
template <class Kernel, class Spec>
bool keeps_size(const Kernel& kernel, const Spec& spec) {
  const std::size_t stored = row_bytes(spec.weight, spec.k) * static_cast<std::size_t>(spec.n);
  return kernel.packed_bytes(spec) <= stored + stored / 8;
}

/// The best kernel for the weights [n, k] of `spec`, as KernelRegistry::choose finds it. With `small_weights` a kernel with
/// keeps_size() is preferred to better kernels without; their refusals say so.
template <class Op>
Choice<Op> choose_for_weights(const KernelRegistry& registry, const typename Op::Spec& spec, const DeviceInfo& device,
                              std::string_view forced, bool small_weights) {
  Choice<Op> choice = registry.choose<Op>(spec, device, forced);
  if (!small_weights || keeps_size(*choice.kernel, spec)) {
    return choice;
  }
  Candidates<Op> found = registry.candidates<Op>(spec, device, forced);
  const auto small = std::ranges::find_if(found.able, [&](const auto* kernel) { return keeps_size(*kernel, spec); });
  if (small == found.able.end()) {
    return choice;
  }
  choice = {*small, std::move(found.refusals)};
  for (auto kernel = found.able.begin(); kernel != found.able.end(); ++kernel) {
    if (kernel != small) {
      choice.refusals.push_back(
          {std::string((*kernel)->name()), kernel < small ? "the model would not fit with its larger layout of these weights"
                                                          : std::string((*small)->name()) + " is preferred"});
    }
  }
  return choice;
}

}  // namespace rocmforge
