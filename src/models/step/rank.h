#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "memory/sequence_memory.h"
#include "models/adapters/adapters.h"
#include "models/model.h"
#include "models/parts/operation.h"
#include "models/plan/model_plan.h"
#include "models/step/step_draws.h"
#include "models/step/step_graphs.h"
#include "models/step/step_inputs.h"

namespace rocmforge {

/// What one device has of a model that is loaded, and its steps: the weights, the buffers and arrays of a step, the draws,
/// and on a GPU the graphs of decode steps. A model runs on one rank; one that is split over a device and the host has a
/// second one, and TensorParallel one for each part that it is shared in.
class Rank {
 public:
  using Progress = std::function<void(double)>;
  /// Loads the weights of one side of `plan`. All arguments must outlive the rank. The buffers of the host beside a GPU lie
  /// in memory pinned by it.
  Rank(ModelPlan& plan, const ModelOptions& options, const Devices& devices, Side side, ThreadPool& pool,
       const Progress& progress);
  /// Waits until the device no longer uses the rank's memory.
  ~Rank();
  Rank(const Rank&) = delete;
  Rank& operator=(const Rank&) = delete;

  /// Bytes of the device's memory beside weights.
  static std::size_t workspace_bytes(const ModelPlan& plan, const ModelOptions& options, bool on_gpu);

  /// Runs a step: `compute` passes its operations, for arrays in the device's memory, to the function it gets. With
  /// `recorded` decode steps are replayed as graphs; `cut`: with operations of the host between them. `memory` are the pages
  /// and states that `compute` uses.
  enum class Recorded { no, whole, cut };
  using Compute = std::function<void(const StepArrays&, const RunOperations&)>;
  void run(const BatchPlan& batch, const SequenceMemory& memory, Recorded recorded, const Compute& compute);
  /// Keeps the tokens that the step of `batch` has drawn.
  void keep_draws(const BatchPlan& batch) {
    const bool tells = std::ranges::any_of(batch.sample_rows, tells_probability);
    draws_.add(buffers_.sampled, tells ? buffers_.probabilities : nullptr,
               static_cast<std::int32_t>(batch.sample_rows.size()));
  }
  /// The arrays of a batch in the device's memory, until the next step.
  StepArrays arrays_of(const BatchPlan& batch, const StepInputs::Shape& shape);
  /// The same for a half of a step, in memory of its own: ModelPlan::halves_from.
  StepArrays arrays_of_half(std::size_t half, const BatchPlan& batch);
  /// Waits until the last step is done.
  void wait();
  /// Copies `bytes` of the device's memory to `to`, in the order of the step; on a GPU without a wait.
  void copy_to_host(std::byte* to, const void* from, std::size_t bytes);
  /// `count` floats of the device's memory in host memory, which may be `to`: waits.
  std::span<const float> read_back(const float* from, std::size_t count, PinnedBuffer& to);

  /// Notes where the copies to the host stand.
  [[nodiscard]] Event* sent() { return sent_ ? &*sent_ : nullptr; }
  [[nodiscard]] Device& device() { return *device_; }
  [[nodiscard]] bool on_gpu() const { return device_->is_gpu(); }
  [[nodiscard]] const Buffers& buffers() const { return buffers_; }
  [[nodiscard]] ExecutionContext& context() { return context_; }
  [[nodiscard]] Communicator* communicator() const { return options_->communicator; }
  [[nodiscard]] const Adapters& adapters() const { return adapters_; }
  [[nodiscard]] Adapters& adapters() { return adapters_; }
  [[nodiscard]] StepDraws& draws() { return draws_; }
  [[nodiscard]] const StepDraws& draws() const { return draws_; }

 private:
  static StepInputs::Limits input_limits(const ModelPlan& plan, const ModelOptions& options);
  static StepInputs::Limits half_limits(const ModelPlan& plan, const ModelOptions& options);
  void run_on_gpu(const BatchPlan& batch, const SequenceMemory& memory, Recorded recorded, const Compute& compute);
  /// Addresses of the memory that the graphs use: pages of each group, and states.
  struct GraphsMemory {
    std::vector<const void*> pages;
    std::vector<std::int32_t> num_blocks;
    std::int32_t block_tokens = 0;
    const void* states = nullptr;
    friend bool operator==(const GraphsMemory&, const GraphsMemory&) = default;
  };
  static GraphsMemory graphs_memory(const SequenceMemory& memory);

  const ModelOptions* options_;
  Device* device_;
  ExecutionContext context_;
  DeviceBuffer workspace_;
  PinnedBuffer pinned_workspace_;
  Buffers buffers_;
  StepDraws draws_;
  Adapters adapters_;
  // GPU only.
  std::optional<StepInputs> inputs_;
  std::array<std::optional<StepInputs>, 2> half_inputs_;
  std::optional<StepGraphs> graphs_;
  std::optional<Event> sent_;
  GraphsMemory graphs_memory_;
  bool pending_ = false;  ///< the last step may still run
};

}  // namespace rocmforge
