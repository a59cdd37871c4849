#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "device/device.h"
#include "device/launch_trace.h"
#include "models/step/communicator.h"
#include "models/step/step_inputs.h"
#include "ops/kv_layout.h"
#include "ops/registry.h"

namespace rocmforge {

class Adapters;

/// Activations of one step in the device's memory, laid out once for the largest batch. All parts of a block use `projected`
/// and `gathered`.
struct Buffers {
  float* hidden = nullptr;          ///< [tokens, hidden]: the residual stream
  float* sums = nullptr;            ///< [tokens, hidden]: the residual stream after a joined ResidualSum
  float* partial = nullptr;         ///< [tokens, hidden]: this rank's part of a RankSum
  float* normed = nullptr;          ///< [tokens, hidden]
  float* projected = nullptr;       ///< [tokens, inputs of a mixer], [tokens, 2 ffn], [tokens, experts] or [tokens, hidden]
  float* gathered = nullptr;        ///< [tokens, outputs of a mixer], [tokens, ffn] or [tokens, experts taken, ffn]
  float* per_layer = nullptr;       ///< [tokens, layers, elements]: of PerLayerEmbedding
  float* features = nullptr;        ///< of EagleBlock: [tokens, layers, hidden], then [tokens, 2, its own hidden]
  float* streams = nullptr;         ///< [tokens, streams, hidden]: the residual streams, where there are several
  std::int32_t* experts = nullptr;  ///< [tokens, experts taken]: ids
  float* expert_weights = nullptr;  ///< [tokens, experts taken]
  void* route_state = nullptr;      ///< of RouteRows
  void* slot_order = nullptr;       ///< of the experts' kernel, kept from one of its calls to the next
  float* own_logits = nullptr;      ///< [logit rows, rows of the head that this rank has], where ranks share it
  float* logits = nullptr;          ///< [logit rows, vocab]
  void* scratch = nullptr;          ///< of the kernel that runs
  std::int32_t* sampled = nullptr;  ///< [logit rows]
  float* probabilities = nullptr;   ///< [logit rows]: of the drawn tokens
  void* attention_states[2] = {};   ///< of the kernels for several rows and for single rows
};

/// What an operation of the device finds on the host that computes a part of the model.
struct HostStep {
  std::int64_t tokens = 0;  ///< of the step; the device may compute more rows as padding
  Buffers buffers;          ///< in memory that the device copies from and to without waiting
  ExecutionContext* context = nullptr;
  Event* sent = nullptr;               ///< GPU: for copies to `buffers`
  const Adapters* adapters = nullptr;  ///< those of the host's memory, for the rows of Step::adapter_runs; or null
};

/// A layer's view of one step.
struct Step {
  std::int64_t tokens = 0;
  RaggedBatch batch;
  bool any_single = false;     ///< a sequence has one row, or the step is of few rows
  bool any_several = false;    ///< a sequence has more, and the step is not of few rows
  std::int32_t most_rows = 0;  ///< BatchPlan::most_rows
  bool results = true;         ///< false in the last layer of a step that wants only K and V
  KvLayout layout;
  KvCacheView cache;  ///< this layer's, if it has pages
  StateView states;   ///< of all layers without pages, each with its offset in a slot
  Buffers buffers;
  const StepArrays* arrays = nullptr;  ///< the step's arrays
  ExecutionContext* context = nullptr;
  Communicator* communicator = nullptr;        ///< with the other ranks of the model, if there are any
  const HostStep* host = nullptr;              ///< beside a device, where the model is split
  std::optional<std::size_t> half{};           ///< of a step that is computed in two, which finishes its sums itself
  const Adapters* adapters = nullptr;          ///< null: no row of the step has an adapter
  std::span<const AdapterRun> adapter_runs{};  ///< of these rows

  /// Whether a product's call includes the operations around it, which a kernel fuses for up to `most_tokens`. An adapter
  /// needs the product's input and output as they are.
  [[nodiscard]] bool fuses(std::int64_t most_tokens) const { return adapters == nullptr && tokens <= most_tokens; }
};

/// An operation with its weights and kernels, ready for any step.
struct Operation {
  std::string kind;  ///< its name in the plan without the layer: "attn_qkv"
  std::function<void(const Step&)> run;
  /// Work of the host in a step of the device: recorded launches end before it. It runs in each step.
  bool on_host = false;
  /// Its last work is a sum over the ranks, which a half of a step only begins: Communicator::finish_sum comes before that
  /// half's next operation.
  bool sums = false;
};
using Operations = std::vector<Operation>;
using RunOperations = std::function<void(const Operations&, const Step&)>;

inline void run_one(const Operation& operation, const Step& step) {
  // On a GPU its kernels are noted.
  if (step.context->stream == nullptr && is_first_rank(step.communicator)) {
    launch_trace().note(operation.kind);
  }
  operation.run(step);
}

inline void run_all(const Operations& operations, const Step& step) {
  for (const Operation& operation : operations) {
    run_one(operation, step);
  }
}

}  // namespace rocmforge
