#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "memory/sequence_memory.h"
#include "models/model.h"
#include "models/parts/block.h"
#include "models/plan/model_plan.h"
#include "models/plan/planner.h"
#include "models/step/rank.h"

namespace rocmforge {

/// An encoder of images or recordings: layers that see all of a sequence of states, in steps of their own, and memory for
/// the rows that replace embeddings in the text model. It is planned and loaded as a Model is, on the same device. What is
/// before and behind the layers is a derived class's.
class MediaEncoder {
 public:
  virtual ~MediaEncoder() = default;
  MediaEncoder(const MediaEncoder&) = delete;
  MediaEncoder& operator=(const MediaEncoder&) = delete;

  /// Loads the weights; `device` and `pool` must outlive the encoder. Rows are put into `row_memory`, that of another
  /// encoder whose rows are as wide; null: into memory of its own.
  void load(Device& device, ThreadPool& pool, float* row_memory = nullptr);

  /// As Model::plan(); times are those of a step of one image or piece.
  [[nodiscard]] const std::vector<PlannedOperation>& plan() const { return plan_.report.operations(); }
  /// Bytes as Model counts them, with memory for rows.
  [[nodiscard]] std::size_t packed_bytes() const { return plan_.weights.packed_bytes(on_gpu_); }
  [[nodiscard]] std::size_t workspace_bytes() const;

  /// Where rows are put, also those of another encoder. Only once the encoder is loaded.
  [[nodiscard]] float* row_memory() const { return rows_; }
  /// Rows in host memory, as they were encoded: waits. Valid until the next call.
  std::span<const float> read_rows(const GivenRows& rows);

 protected:
  struct Size {
    std::int32_t states = 0;         ///< the most of a step
    std::int32_t sequences = 1;      ///< that see themselves alone, likewise
    std::int32_t max_rows = 0;       ///< between two calls of begin_rows() without rows before
    std::int64_t row_width = 0;      ///< values of a row
    std::int32_t position_axes = 1;  ///< of a state
    bool places_rows = false;        ///< a step's arrays have the places of its rows
    bool overlap = true;             ///< as in ModelOptions
    bool small_weights = false;
  };

  /// `names` are the file's names for those that the parts of a block use.
  MediaEncoder(const GgufFile& file, WeightTable::FileNames names, const DeviceInfo& device, const Size& size);
  [[nodiscard]] Planner make_planner(const KernelRegistry& registry, const DeviceInfo& device, int num_threads) {
    return {plan_, registry, device, num_threads, options_};
  }
  void plan_blocks(Planner& planner, const ModelConfig& layers);
  /// Counts the encoder's weights for flops_of(), and passes over those of another one in its file.
  void count_weights(const GgufFile& file, const std::function<bool(std::string_view name)>& is_own);
  [[nodiscard]] ModelPlan& planned() { return plan_; }

  /// The floating-point operations of so many states that see each other, about.
  [[nodiscard]] double flops_of(std::int64_t states) const;

  /// `before`, or no rows at the beginning of the memory.
  [[nodiscard]] GivenRows begin_rows(const std::optional<GivenRows>& before) const;
  /// Where the next `count` rows go.
  [[nodiscard]] float* room_behind(const GivenRows& rows, std::int64_t count) const;

  /// The sequences of a step: begin_batch(), add_sequence() for each of them, finish_batch().
  void begin_batch();
  void add_sequence(std::int64_t states);
  void finish_batch();
  [[nodiscard]] BatchPlan& batch() { return batch_; }
  /// Runs a step of the batch. `compute` gets a step whose kernels read its arrays.
  void run_batch(const std::function<void(const StepArrays& arrays, Step& step)>& compute);
  void run_block(std::int32_t index, const StepArrays& arrays, Step& step);

  /// Waits until no step reads what the host has given. A derived class does so before its own memory is gone.
  void wait();
  [[nodiscard]] Device& device() { return rank_->device(); }
  [[nodiscard]] ThreadPool& pool() { return *pool_; }
  [[nodiscard]] bool is_loaded() const { return rank_.has_value(); }
  [[nodiscard]] std::int32_t max_states() const { return options_.max_batch_tokens; }
  [[nodiscard]] std::int32_t max_sequences() const { return options_.max_sequences; }
  [[nodiscard]] std::int32_t num_layers() const { return static_cast<std::int32_t>(blocks_.size()); }

 private:
  /// Memory for what the host gives before the first layer.
  [[nodiscard]] virtual std::size_t input_bytes() const = 0;
  virtual void load_inputs(Device& device) = 0;
  [[nodiscard]] std::size_t row_bytes() const;
  [[nodiscard]] SequenceMemory::Size memory_size() const;

  ModelOptions options_;
  std::int32_t max_rows_;
  std::int64_t row_width_;
  bool on_gpu_;
  std::int64_t hidden_ = 0;
  double parameters_ = 0.0;
  ModelPlan plan_;
  std::vector<std::unique_ptr<Block>> blocks_;

  ThreadPool* pool_ = nullptr;
  std::optional<Rank> rank_;
  std::optional<SequenceMemory> memory_;
  DeviceBuffer own_rows_;
  float* rows_ = nullptr;  ///< [max_rows, row_width]
  PinnedBuffer rows_on_host_;
  BatchPlan batch_;
  std::int32_t next_block_ = 0;  ///< of the memory that no sequence of the batch has yet
};

}  // namespace rocmforge
