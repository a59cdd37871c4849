#pragma once

#include <cstdint>
#include <map>
#include <memory>

#include "models/adapters/lora_adapter.h"

namespace rocmforge {

/// The adapters that one side of a model has in its memory, by their ids.
class Adapters {
 public:
  /// Throws what LoraAdapter's constructor throws. `id` is new.
  void load(std::int32_t id, std::shared_ptr<const LoraFile> file, const WeightTable& weights, const AdapterDevice& where);
  /// No step that uses the adapter runs any more. Ignores an unknown id.
  void unload(std::int32_t id) { adapters_.erase(id); }
  [[nodiscard]] bool has(std::int32_t id) const { return adapters_.contains(id); }

  /// Adds to the product with `weight` what the adapters of the step's rows add. This and the next function are the one
  /// place where adapters change a model.
  void add(const Step& step, const MatmulWeight& weight, const ProductRows& rows) const;
  /// The same of the tokens' embeddings, which are multiplied by `factor`.
  void add_to_embedding(const Step& step, float factor) const;

 private:
  std::map<std::int32_t, LoraAdapter> adapters_;
};

}  // namespace rocmforge
