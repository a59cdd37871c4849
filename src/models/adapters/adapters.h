#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>

#include "models/adapters/lora_adapter.h"
#include "models/adapters/separate_experts.h"

namespace rocmforge {

/// The adapters that one side of a model has in its memory, by their ids.
class Adapters {
 public:
  /// Throws what LoraAdapter's constructor throws. `id` is new.
  void load(std::int32_t id, std::shared_ptr<const LoraFile> file, const WeightTable& weights, const AdapterDevice& where);
  /// No step that uses the adapter runs any more. Ignores an unknown id.
  void unload(std::int32_t id) { adapters_.erase(id); }
  [[nodiscard]] bool has(std::int32_t id) const { return adapters_.contains(id); }

  /// Adds to the product with `weight` what the adapters of the step's rows add. This and the next functions are the one
  /// place where adapters change a model.
  void add(const Step& step, const MatmulWeight& weight, const ProductRows& rows) const;
  /// The same of the tokens' embeddings, which are multiplied by `factor`.
  void add_to_embedding(const Step& step, float factor) const;
  /// The same of a product with a matrix of experts.
  void add_to_experts(const Step& step, const ExpertMatrix& matrix, const ExpertRows& rows) const;

  /// Whether an adapter of the step's rows has a pair for one of these matrices.
  [[nodiscard]] bool change(const Step& step, std::span<const ExpertMatrix* const> matrices) const;
  /// Where they change() {gate, up} or {up}: the products of x [tokens, k], what adapters add to them, and the activation,
  /// to `out` [tokens * used, n].
  void activate(const Step& step, std::span<const ExpertMatrix* const> matrices, const float* x, float* out) const;

 private:
  SeparateExperts separate_;
  std::map<std::int32_t, LoraAdapter> adapters_;
};

}  // namespace rocmforge
