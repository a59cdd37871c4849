#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "ops/registry.h"

namespace rocmforge {

/// An operation that no model has, as docs/add-an-operation.md describes one: x = min(max(x, -limit), limit). A NaN stays.
struct ToyLimit {
  static constexpr std::string_view name = "toy_limit";

  struct Spec {
    std::int64_t width = 0;
    float limit = 0.0f;  ///< at least 0
  };

  struct Args {
    float* x = nullptr;  ///< [rows, width]
    std::int64_t rows = 0;
  };
};

std::string to_string(const ToyLimit::Spec& spec);
Support check_spec(const ToyLimit::Spec& spec);
void check_arguments(const ToyLimit::Spec& spec, const ToyLimit::Args& args);

std::unique_ptr<OpKernel<ToyLimit>> make_reference_toy_limit();
std::unique_ptr<OpKernel<ToyLimit>> make_cpu_toy_limit();

}  // namespace rocmforge
