#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "models/config/model_config.h"

namespace rocmforge {

/// A file of a control vector, as llama.cpp's cvector-generator and repeng write it: GGUF with tensors direction.L, F32
/// [hidden], for layers L from 1 on.
struct ControlVectorFile {
  std::string path{};
  float scale = 1.0f;
};

/// Layers whose output is changed; the first layer of a model is 0, which no file has a direction for.
struct ControlLayers {
  std::int32_t first = 1;
  std::int32_t last = 0;  ///< 0: the model's last one
};

/// What control vectors add to a model's residual stream: the sum of their directions, each times its scale, behind each
/// layer.
class ControlVectors {
 public:
  /// Throws Error naming the file: for one that is no control vector, one of another width or with layers that the model
  /// lacks, and for numbers that are not finite; and for layers that are none of the model's.
  /// A step has at most `most_rows` rows.
  ControlVectors(std::span<const ControlVectorFile> files, const ControlLayers& layers, const ModelConfig& config,
                 std::int32_t most_rows);
  ControlVectors(const ControlVectors&) = delete;
  ControlVectors& operator=(const ControlVectors&) = delete;

  /// [hidden] that is added to the output of a layer; empty: nothing is.
  [[nodiscard]] std::span<const float> behind(int layer) const;
  /// 0, 1, 2, ... and as many zeros, for the operation that adds one row to all: as many as a step may have rows.
  [[nodiscard]] std::span<const std::int32_t> rows() const { return rows_; }
  [[nodiscard]] std::span<const std::int32_t> zeros() const { return zeros_; }
  /// 64 hex digits that differ where anything that is added does.
  [[nodiscard]] std::string fingerprint() const;

 private:
  void add(const ControlVectorFile& vector, const ControlLayers& layers, const ModelConfig& config);

  std::vector<std::vector<float>> directions_;  ///< of each layer, [hidden] or empty
  std::vector<std::int32_t> rows_;
  std::vector<std::int32_t> zeros_;
};

}  // namespace rocmforge
