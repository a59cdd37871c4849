#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "checks/cases.h"
#include "checks/layer_products.h"
#include "checks/placed_experts.h"

namespace rocmforge {

/// What the products of a layer read and write. Attention's output reads the first of the rows that Q, K and V wrote, so
/// that the next layer depends on every call of this one.
struct LayerState {
  std::vector<float> hidden, gate, qkv;
};
bool same_bits(const LayerState& a, const LayerState& b);

/// Random weights and a first state of a layer, in host memory.
struct LayerInputs {
  explicit LayerInputs(const LayerProducts& layer);

  std::vector<std::vector<std::byte>> weights;  ///< as files have them, call by call
  std::optional<ExpertInputs> experts;
  std::vector<float> norm;
  LayerState state;
  double bytes = 0;  ///< of all weights
};

/// What computes a layer's products, on one device. `norm`, `router`, `experts`: null where the layer has none.
struct LayerKernels {
  const MatmulKernel* dense = nullptr;
  const OpKernel<RmsNorm>* norm = nullptr;
  const RouteRowsKernel* router = nullptr;
  const ExpertMatmulKernel* experts = nullptr;
};
LayerKernels kernels_of(const LayerProducts& layer);

/// A layer in the memory of the device of its kernels.
class PlacedLayer {
 public:
  /// `bench`, `layer` and the kernels must outlive it.
  PlacedLayer(CheckBench& bench, const LayerProducts& layer, const LayerInputs& inputs, const LayerKernels& kernels);

  void set(const LayerState& state);
  LayerState state();
  void call(LayerProduct product);
  /// All products in turn, so many times.
  void run(int repetitions);

  [[nodiscard]] const LayerProducts& layer() const { return *layer_; }
  [[nodiscard]] Device& device() const { return *device_; }
  [[nodiscard]] Stream* stream() const { return context_->stream; }  ///< null on a processor
  [[nodiscard]] std::int64_t launches() const;                       ///< of the device so far; 0 on a processor

 private:
  DeviceBuffer place_weight(const Matmul::Spec& spec, const std::vector<std::byte>& rows, ExecutionContext& host);
  void write(const DeviceBuffer& to, const std::vector<float>& values);
  std::vector<float> read(const DeviceBuffer& from);
  /// `adds`: to what is in `to`; otherwise `to` is written. `normed`: the product's input is normalised.
  void call(LayerProduct product, const DeviceBuffer& from, const DeviceBuffer& to, bool normed, bool adds);
  /// A product that is added to the residual stream, behind a norm where the layer has one.
  void call_and_add(LayerProduct product, const DeviceBuffer& from);

  const LayerProducts* layer_;
  const MatmulKernel* kernel_;
  const OpKernel<RmsNorm>* norm_kernel_;
  Device* device_;
  ExecutionContext* context_;
  DeviceBuffer norm_, hidden_, gate_, qkv_, projected_, workspace_;
  std::vector<DeviceBuffer> weights_;
  std::optional<PlacedExperts> experts_;
};

/// Compares each product of `tested` with the oracle's, on the inputs that `tested` has. False at the first that is wrong,
/// with the problem in `result`.
bool compare_products(CheckBench& bench, const LayerProducts& layer, PlacedLayer& tested, PlacedLayer& oracle,
                      CallResult& result);

/// How often a layer runs where bits are compared: on a real device often enough that its work-groups meet in many orders.
int repetitions_of(const DeviceInfo& device);

}  // namespace rocmforge
