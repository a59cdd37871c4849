#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "memory/sequence_memory.h"
#include "models/config/model_config.h"
#include "models/plan/model_parts.h"
#include "models/plan/placement.h"
#include "models/step/communicator.h"
#include "ops/batch_plan.h"
#include "ops/kernel_registry.h"
#include "weights/gguf_file.h"

namespace rocmforge {

struct AssistantFile;
class ControlVectors;
struct EagleFile;
class LoraFile;
class RankProcesses;

struct ModelOptions {
  KvTypes kv_dtype = DType::f16;        ///< f32, f16, bf16 or is_kv_quant
  std::int32_t max_batch_tokens = 512;  ///< the workspace has room for this many
  std::int32_t max_logit_rows = 64;     ///< rows of logits in one step (perplexity asks for max_batch_tokens)
  std::int32_t max_sequences = 64;      ///< in one step
  std::int32_t context_length = 0;      ///< positions a sequence may have; 0: those the model was trained for
  bool graphs = true;                   ///< GPU: decode steps are recorded once and replayed
  bool given_rows = false;              ///< rows of steps may replace embeddings: BatchPlan::given
  std::int32_t most_rows = 1;           ///< steps of few rows a sequence have at most so many: BatchPlan::most_rows
  bool spans = false;                   ///< steps may have tokens that see each other: BatchPlan::add_span
  bool load_mtp = false;                ///< also load the blocks of multi-token prediction: see Model::forward_mtp
  bool overlap = true;                  ///< GPU: kernels may start before their predecessors have ended, if they support it
  bool merge_launches = false;          ///< AMD: products of one token that follow each other are one launch, on RDNA
  /// GPU: the most bytes of K and V that latent attention computes for prompts at once; larger ones are computed in passes.
  std::size_t expanded_bytes = std::size_t{256} << 20;
  bool small_weights =
      false;               ///< no layout of weights that takes more than 9/8 of the file's bytes, where there is a choice
  std::int32_t ranks = 1;  ///< that share each layer, see TensorParallel
  /// Prompts' steps of so many rows are computed in halves, so that their sums over the ranks cross the links beside
  /// products (StepHalves); 0: where it pays.
  std::int64_t halves_from = 0;
  RankProcesses* processes = nullptr;  ///< that share each layer, this one among them: see ProcessRank; outlives the model
  /// Each device has some of the layers (LayerPipeline): the ends of those of each, ascending, the last one the number of
  /// layers. Empty: one device, or one of several ranks, has all.
  std::vector<std::int32_t> stage_ends{};
  std::int32_t pending_steps = 2;        ///< GPU: steps that are begun before the first of them has ended
  Communicator* communicator = nullptr;  ///< with the other ranks, in the options of one of several; outlives the model
  std::shared_ptr<const ControlVectors> control{};   ///< added to outputs of layers; null: nothing is
  std::shared_ptr<const EagleFile> eagle{};          ///< its block is loaded in place of MTP blocks; null: none is
  std::shared_ptr<const AssistantFile> assistant{};  ///< likewise; not beside an EAGLE3 draft
  Placement placement{};                             ///< which parts the host computes beside a device
  CpuIsa host_isa = CpuIsa::avx512;                  ///< limits the host's instruction set then
  std::string matmul;                                ///< forced kernel names, "" = best
  std::string attention;
  std::function<void(double)> progress;  ///< called with 0..1 while weights are repacked or uploaded
};

/// A line of the plan: the kernel of an operation, why it was chosen, and the least bytes that it moves each time it runs in
/// a decode step of one token.
struct PlannedOperation {
  std::string operation;  ///< "blk.0.attn_qkv"
  std::string spec;
  std::string kernel;
  std::vector<Refusal> refusals;
  std::size_t weight_bytes = 0;
  std::size_t activation_bytes = 0;
  std::size_t kv_bytes_per_position = 0;
  int times = 1;  ///< in that step
  Side side = Side::device;
  /// An operation whose call includes this one in steps of up to `part_tokens` tokens (attention: in steps of single
  /// rows).
  std::string part_of{};
  std::int64_t part_tokens = 0;
  std::vector<KernelRegistry::AnyUse> uses{};  ///< the kernels with the work that they were chosen for

  [[nodiscard]] bool is_part(std::int64_t tokens) const { return !part_of.empty() && tokens <= part_tokens; }
};

/// The memory of one of the ranks of a model.
struct RankBytes {
  std::size_t weights = 0;  ///< those that a CPU reads from the file in place included
  std::size_t workspace = 0;
};

/// "attn_qkv" of "blk.7.attn_qkv": the common name of an operation in all layers.
std::string_view operation_kind(std::string_view operation);

/// All operations of one kind in a step.
struct OperationTime {
  std::string kind;
  double seconds = 0.0;
};

/// A model: first planned (kernels chosen, memory counted), then loaded. `forward` computes one step of any mix of
/// prefill and decode, from token ids to logits and drawn tokens, all on the model's device.
class Model {
 public:
  /// Allocates no memory for weights. `file` and `registry` must outlive the model; `num_threads` are those of the pool it
  /// will be loaded with. Throws Error naming the tensor or key that does not fit.
  static std::unique_ptr<Model> plan(const GgufFile& file, const KernelRegistry& registry, const DeviceInfo& device,
                                     int num_threads, const ModelOptions& options = {});
  /// Plans and loads; `devices` and `pool` must outlive the model.
  static std::unique_ptr<Model> load(const GgufFile& file, const KernelRegistry& registry, const Devices& devices,
                                     ThreadPool& pool, const ModelOptions& options = {});
  virtual ~Model() = default;

  /// How many ranks share each layer (ModelOptions::ranks), or the layers (ModelOptions::stage_ends). Each of them has pages
  /// and slots of state of its own.
  [[nodiscard]] virtual std::int32_t ranks() const { return 1; }
  /// The layers of each rank, where ranks share these; empty where each rank has a part of every layer.
  [[nodiscard]] virtual std::vector<std::int32_t> stage_ends() const { return {}; }
  /// What tells of itself what one of the ranks has: of ranks that share each layer the model, as they are alike.
  [[nodiscard]] virtual const Model& of_rank(std::size_t) const { return *this; }
  /// What each of several ranks has; empty for one.
  [[nodiscard]] virtual std::vector<RankBytes> rank_bytes() const { return {}; }

  /// Loads the weights to the planned device and, where the model is split, to the host; both must outlive the model, as
  /// `pool` must.
  virtual void load(const Devices& devices, ThreadPool& pool) = 0;

  [[nodiscard]] virtual const ModelConfig& config() const = 0;
  /// The groups of pages, in the layouts of the attention backends; the engine makes the cache from them.
  [[nodiscard]] virtual const KvGroups& kv_groups() const = 0;
  /// Bytes of a sequence's recurrent state, one slot of SequenceMemory; 0 without recurrent layers.
  [[nodiscard]] virtual std::size_t state_bytes() const { return 0; }
  /// The same of the layers that the host computes beside a device; `state_bytes` is then without these.
  [[nodiscard]] virtual std::size_t host_state_bytes() const { return 0; }
  [[nodiscard]] virtual const std::vector<PlannedOperation>& plan() const = 0;
  /// Bytes of copies of weights (CPU: repacked ones; GPU: all), of the workspace, and of the weights that one decode step
  /// reads.
  [[nodiscard]] virtual std::size_t packed_bytes() const = 0;
  [[nodiscard]] virtual std::size_t workspace_bytes() const = 0;
  [[nodiscard]] virtual std::size_t bytes_per_token() const = 0;
  /// Of all weights on the device, those that a CPU reads from the file in place included.
  [[nodiscard]] virtual std::size_t device_weight_bytes() const { return packed_bytes(); }
  /// device_weight_bytes() and workspace_bytes() of the host beside a device.
  [[nodiscard]] virtual std::size_t host_weight_bytes() const { return 0; }
  [[nodiscard]] virtual std::size_t host_workspace_bytes() const { return 0; }
  /// Whether the host computes a part of it beside a device.
  [[nodiscard]] virtual bool parts_on_host() const { return false; }
  /// The parts that a Placement places, as this plan needs them.
  [[nodiscard]] virtual const ModelParts& parts() const;

  /// Loads a LoRA adapter for steps that name it (BatchPlan::adapters), under an id that no other one has had. Throws Error
  /// naming the file, and the tensor where it does not belong to this model.
  virtual void load_adapter(std::int32_t id, std::shared_ptr<const LoraFile> file);
  /// Frees an adapter that no later step names: waits for the last step. Ignores an unknown id.
  virtual void unload_adapter(std::int32_t) {}

  /// Computes one step; K and V of its tokens are appended to the pages of `memory`, states are written to its slots. On a
  /// GPU the call returns before the step is done, and one more step may be started before this one's tokens are read: a
  /// token drawn_token(r) stands for the draw of row r in the step before. If that is -1, the row's logits are NaN, and -1
  /// is drawn.
  virtual void forward(const BatchPlan& batch, SequenceMemory& memory) = 0;
  /// Copies a block of the memory, as SequenceMemory::copy_block, before the next step.
  virtual void copy_block(SequenceMemory& memory, std::int32_t group, std::int32_t from, std::int32_t to) {
    memory.copy_block(group, from, to);
  }
  /// The number of loaded blocks of multi-token prediction (MTP), see ModelOptions::load_mtp, eagle and assistant.
  [[nodiscard]] virtual std::int32_t mtp_blocks() const { return 0; }
  /// One step of MTP block `block`, 0 the first: from the hidden states of the last step and the tokens after their
  /// positions to logits and draws of the next tokens. `batch` has a token for each hidden row of the last step, in
  /// their order and at their positions. The step appends the block's own K and V and changes no other memory. Its hidden
  /// rows are states that a block may continue. Overwrites the hidden states of the last step. Without sample rows it leaves
  /// what sampled() and previous_sampled() give as it is. An EAGLE3 draft needs a step of the model of which all rows are
  /// hidden rows; its logits are those of its own vocabulary, its draws the model's tokens. An assistant appends nothing:
  /// its tokens have the cells of the rows that they continue, and positions behind these.
  virtual void forward_mtp(std::int32_t block, const BatchPlan& batch, SequenceMemory& memory);
  /// The tokens drawn in the last step, one for each of its sample rows: waits for it. -1 where every token is forbidden.
  [[nodiscard]] virtual std::span<const std::int32_t> sampled() = 0;
  /// The tokens drawn in the step before the last one; the last one may still run. Both results are kept until another step
  /// is started.
  [[nodiscard]] virtual std::span<const std::int32_t> previous_sampled() = 0;
  /// [sample rows] of the last step: where the row tells it, the probability of its token, see SampleTokens. Empty where no
  /// row does. Waits for the step.
  [[nodiscard]] virtual std::span<const float> draw_probabilities() = 0;
  /// Whether `forward` returns before its step is done.
  [[nodiscard]] virtual bool runs_ahead() const = 0;
  /// Logits [logit rows, vocab] of the last step, with the adjustments and masks of its sample rows, in host memory until
  /// the next one: waits and on a GPU copies them.
  [[nodiscard]] virtual std::span<const float> logits() = 0;
  /// Logits [raw rows, vocab] of the last step as the model computed them, before adjustments and masks: waits.
  [[nodiscard]] virtual std::span<const float> raw_logits() = 0;
  /// Hidden states [hidden rows, ModelConfig::state_width()] of the last step after the final norm, of an encoder after its
  /// dense layers or its classifier, in host memory until the next one: waits.
  [[nodiscard]] virtual std::span<const float> hidden() = 0;
  /// Waits until the last step is done.
  virtual void wait() = 0;

  /// Times each kind of operation of a step, in the order of the plan: all its calls of the step one after another, each on
  /// its own layer's weights, without the others. Last, under the kind "", all operations in their order,
  /// without the copies and waits of a step. The memory and the step's results are undefined afterwards.
  [[nodiscard]] virtual std::vector<OperationTime> time_operations(const BatchPlan& batch, SequenceMemory& memory) = 0;
};

/// The size of a model's memory of sequences, on all of its ranks, with these numbers of blocks and slots.
SequenceMemory::Size memory_size(const Model& model, std::vector<std::int32_t> blocks, std::int32_t slots);

}  // namespace rocmforge
