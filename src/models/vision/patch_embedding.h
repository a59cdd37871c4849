#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/thread_pool.h"
#include "device/device.h"
#include "models/parts/operation.h"
#include "models/plan/planner.h"
#include "models/vision/image_patches.h"
#include "models/vision/vision_config.h"

namespace rocmforge {

/// The rows that an encoder's first layer reads, in Buffers::hidden: the product of each patch's pixels with the weights of
/// the convolution, those of all frames summed, the learned position and the norm, as far as the encoder has these. Behind
/// the patches is the state that no patch has (VisionConfig::class_position). Not moved.
class PatchEmbedding {
 public:
  /// For steps of up to so many patches and states that no patch has.
  PatchEmbedding(Planner& planner, const VisionConfig& config, std::int64_t patches);
  PatchEmbedding(const PatchEmbedding&) = delete;
  PatchEmbedding& operator=(const PatchEmbedding&) = delete;

  /// Bytes of memory for pixels and positions: of a GPU, and pinned ones of the host.
  [[nodiscard]] std::size_t input_bytes() const;
  void load(Device& device);

  /// An image's part of a step: [columns x rows] patches.
  struct Part {
    std::span<const float> pixels;  ///< of image_patches.h
    std::int32_t columns = 0;
    std::int32_t rows = 0;
    std::span<const PatchPlace> squares;  ///< of squares_of()
  };
  /// Gives the device the pixels and positions of a step; on a GPU the copies are on its stream. No earlier step may still
  /// run.
  void upload(std::span<const Part> parts, Device& device, ThreadPool& pool);
  [[nodiscard]] const Operations& operations() const { return operations_; }

 private:
  void plan_class_state(Planner& planner);
  void plan_positions(Planner& planner);
  void plan_patch_norms(Planner& planner);
  void append_product(const Linear& linear, bool accumulate);
  [[nodiscard]] std::int64_t position_values() const { return table_.empty() ? 0 : config_.encoder.hidden; }
  /// Positions [columns x rows, hidden] in the order of the patches.
  void add_positions(const Part& part, float* out, ThreadPool& pool) const;
  /// PositionScale::corners.
  void position_between(const Part& part, PatchPlace place, float* out) const;
  /// PositionScale::centres and means.
  void position_around_centre(const Part& part, PatchPlace place, float* out) const;
  /// The column's and the row's.
  void position_of_axes(PatchPlace place, float* out) const;

  VisionConfig config_;
  std::int64_t patches_;
  std::vector<float> table_;  ///< [side, side, hidden], or [2, axis_positions, hidden]; empty without learned positions
  const WeightVector* class_state_ = nullptr;  ///< null: there is none
  Resolved<OverwriteRows> put_class_state_;
  std::vector<std::int32_t> class_rows_;  ///< its row of the tensor, 0, and that of a step, the last
  const IntegerVector* class_row_ids_ = nullptr;
  std::optional<Norm> pixel_norm_;    ///< VisionConfig::patch_norms
  std::optional<Norm> product_norm_;  ///< likewise
  std::vector<Linear> frames_;
  Resolved<ResidualAdd> add_;
  std::optional<Norm> norm_;
  Operations operations_;
  PinnedBuffer staged_;  ///< pixels of all patches, then positions; read in place by a CPU
  DeviceBuffer memory_;  ///< GPU: the same
  const float* pixels_ = nullptr;
  const float* positions_ = nullptr;
};

}  // namespace rocmforge
