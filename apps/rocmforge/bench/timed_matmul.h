#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "checks/checked_calls.h"
#include "ops/kernel_registry.h"

namespace rocmforge::app {

/// A weight of random numbers as a file stores it, inputs for up to `max_tokens` tokens, and their products by the oracle.
class MatmulInputs {
 public:
  /// `device`, `context` and `registry` must outlive the inputs.
  MatmulInputs(Device& device, ExecutionContext& context, const KernelRegistry& registry, const Matmul::Spec& spec,
               std::int64_t max_tokens);

  [[nodiscard]] const Matmul::Spec& spec() const { return spec_; }
  [[nodiscard]] std::span<const std::byte> rows() const { return rows_; }
  /// [max_tokens, k] in the device's memory.
  [[nodiscard]] const float* x() const { return x_.as<const float>(); }
  /// The first `tokens` rows of products, [tokens, n].
  std::span<const float> expected(std::int64_t tokens);

 private:
  Device& device_;
  ExecutionContext& context_;
  const MatmulKernel& oracle_;
  Matmul::Spec spec_;
  std::vector<std::byte> rows_;
  DeviceBuffer x_;
  std::map<std::int64_t, std::vector<float>> expected_;
};

/// The weight in a kernel's layout, in enough copies that each call reads it from memory and not from a cache.
class WeightCopies {
 public:
  WeightCopies(Device& device, ExecutionContext& context, const MatmulKernel& kernel, const MatmulInputs& inputs);
  [[nodiscard]] int count() const { return static_cast<int>(copies_.size()); }
  [[nodiscard]] const std::byte* copy(int index) const { return copies_[static_cast<std::size_t>(index)].data(); }
  [[nodiscard]] std::size_t size_bytes() const { return size_bytes_; }

 private:
  std::size_t size_bytes_ = 0;
  std::vector<DeviceBuffer> copies_;
};

/// The calls of one kernel for `tokens` tokens, each with the next copy. Inputs and weights outlive them.
class TimedMatmul final : public CheckedCalls {
 public:
  TimedMatmul(Device& device, ExecutionContext& context, const MatmulKernel& kernel, MatmulInputs& inputs,
              const WeightCopies& weights, std::int64_t tokens);
  [[nodiscard]] int inputs() const override { return weights_.count(); }
  void run(int input) override;

 private:
  std::span<const float> expected(int /*input*/) override { return inputs_.expected(tokens_); }

  const MatmulKernel& kernel_;
  MatmulInputs& inputs_;
  const WeightCopies& weights_;
  std::int64_t tokens_;
  void* workspace_;
};

}  // namespace rocmforge::app
