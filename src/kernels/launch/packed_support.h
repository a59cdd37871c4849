#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <string_view>

#include "kernels/check/arguments/arguments.h"
#include "ops/registry.h"
#include "tensor/dtype.h"

namespace rocmforge {

/// Whether kernels of repacked weights support a product: the spec is valid, the architecture is supported, the format has a
/// layout for `maker`, and neither side is longer than the kernels take.
template <class Spec>
Support check_packed(const Spec& spec, const Support& architecture, bool has_layout, std::string_view maker,
                     std::int64_t most_rows, std::int64_t most_columns) {
  if (Support possible = check_spec(spec); !possible.ok) {
    return possible;
  }
  if (!architecture.ok) {
    return architecture;
  }
  if (!has_layout) {
    return Support::no(fmt::format("format {} has no layout for {}", info(spec.weight).name, maker));
  }
  if (spec.n > most_rows || spec.k > most_columns) {
    return Support::no(fmt::format("more than {} rows or {} columns", most_rows, most_columns));
  }
  return Support::yes();
}

}  // namespace rocmforge
