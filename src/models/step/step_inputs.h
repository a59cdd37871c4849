#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "device/device.h"
#include "models/step/adapter_rows.h"
#include "ops/batch_plan.h"

namespace rocmforge {

/// How tokens are drawn in a step.
enum class Draw { none, greedy, any };

/// A sequence with several rows, for the host.
struct PromptSequence {
  std::int32_t sequence = 0;  ///< index in the batch
  std::int32_t first_token = 0;
  std::int32_t q_len = 0;
  std::int32_t kv_len = 0;
};

/// The arrays of one step, for its kernels: in host memory on the CPU, in the device's on a GPU.
struct StepArrays {
  const std::int32_t* tokens = nullptr;      ///< [batch.num_tokens]
  RaggedBatch batch;                         ///< with the block tables of group 0: those of the others follow, each as large
  const std::int32_t* logit_rows = nullptr;  ///< [num_logit_rows]
  std::int32_t num_logit_rows = 0;
  bool any_single = false;                ///< a sequence has one row
  std::int32_t most_rows = 0;             ///< BatchPlan::most_rows
  std::vector<PromptSequence> prompts{};  ///< ascending
  Draw draw = Draw::none;
  const SampleTokens::Row* sample_rows = nullptr;  ///< [num_logit_rows] unless nothing is drawn
  const SampleTokens::Adjustment* adjustments = nullptr;
  const std::uint32_t* masks = nullptr;
  const std::int32_t* overwritten_rows = nullptr;  ///< [num_overwritten]
  const std::int32_t* given_rows = nullptr;        ///< likewise
  GivenRows given{};
  std::int32_t num_overwritten = 0;
  const std::int32_t* hidden_rows = nullptr;  ///< [num_hidden_rows]
  std::int32_t num_hidden_rows = 0;
  std::span<const std::int32_t> raw_rows{};  ///< in host memory
  AdapterRows adapters{};                    ///< for the host
};

/// The arrays of a batch plan, in place.
StepArrays host_arrays(const BatchPlan& plan);

/// Copies the arrays of each step to a GPU's memory at once. The same shape has the same addresses in every step.
class StepInputs {
 public:
  /// The limits of a step's arrays.
  struct Limits {
    std::int32_t tokens = 0;
    std::int32_t position_axes = 1;  ///< of a token
    bool spans = false;              ///< tokens may see each other
    bool given_rows = false;         ///< rows may replace embeddings
    std::int32_t sequences = 0;
    std::int32_t blocks = 0;  ///< of one sequence in one group of pages
    std::int32_t groups = 1;
    std::int32_t logit_rows = 0;
    bool states = false;
    std::int32_t pending = 2;  ///< steps whose arrays are written before the device has taken those of the first of them
  };
  /// The sizes that kernels get. A step of single rows may be padded to more sequences than its plan has, and to wider
  /// block tables.
  struct Shape {
    std::int32_t tokens = 0;
    std::int32_t position_axes = 1;
    bool spans = false;  ///< with visible_end
    std::int32_t sequences = 0;
    std::int32_t max_blocks = 0;
    std::int32_t groups = 1;  ///< of pages
    std::int32_t logit_rows = 0;
    std::int32_t max_q_len = 0;
    std::int32_t max_kv_len = 0;
    bool any_single = false;
    std::int32_t most_rows = 0;
    Draw draw = Draw::none;
    std::int32_t masks = 0;
    std::int32_t mask_words = 0;
    std::int32_t hidden_rows = 0;
    std::int32_t overwritten = 0;  ///< rows
    bool states = false;           ///< the model has recurrent state
  };
  static Shape shape_of(const BatchPlan& plan);

  /// Bytes of device memory for steps within the limits, with the usual number of adjustments and without masks.
  static std::size_t device_bytes(const Limits& limits);

  StepInputs(Device& device, const Limits& limits);

  /// Enqueues the copy on the compute stream: always, also where no array has changed. Kernels that start early read keys of
  /// earlier steps before their predecessor has ended; that is right because this copy waits for the step before, and the
  /// step's first kernel for the copy. Plan and shape must be within the limits; adjustments and masks may be any
  /// number: if they do not fit, all arrays move, and `moved` is set.
  StepArrays upload(const BatchPlan& plan, const Shape& shape, bool& moved);

 private:
  /// Offsets in bytes from the start.
  struct Layout {
    std::size_t sample_rows, tokens, positions, visible_end, sequence_of, query_offsets, kv_lengths, block_tables, states,
        logit_rows, hidden_rows, overwritten_rows, given_rows, masks, adjustments;
  };
  static Layout lay_out(const Shape& shape);
  void write(const BatchPlan& plan, const Shape& shape, const Layout& layout, std::byte* to) const;
  void make_room(std::size_t size_bytes);

  /// Host memory that a copy may still read. There are several, so that the next steps' arrays can be written meanwhile.
  struct Staging {
    PinnedBuffer memory;
    std::optional<Event> copied;  ///< set once it has been used
  };

  Device* device_;
  DeviceBuffer memory_;
  std::vector<Staging> staging_;  ///< Limits::pending
  std::size_t next_ = 0;
};

}  // namespace rocmforge
