#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "device/device.h"
#include "engine/adapters.h"
#include "engine/logprobs.h"
#include "engine/sampler.h"
#include "memory/sequence_memory.h"
#include "models/adapters/control_vectors.h"
#include "models/model.h"
#include "schedule/scheduler.h"
#include "tokenizer/tokenizer.h"

namespace rocmforge {

/// The largest default context where memory does not decide it (EngineOptions::fitting_contexts), and the least where it
/// does, of models that have as long ones.
constexpr std::int32_t default_context_limit = 8192;

/// The default limit of an image's tokens. Small print is read with fewer pixels badly, and objects are found inexactly.
constexpr std::int32_t default_image_tokens = 1024;

/// Whether products of one token that follow each other are one launch, on devices that have such kernels. automatic: where
/// the saved check of the device, its driver and its code objects found that this is right and pays.
enum class MergeLaunches { automatic, on, off };

/// How several devices share a model (EngineOptions::device): each has some of the layers (LayerPipeline), or all have a
/// part of every layer (TensorParallel). automatic: what takes the least time of what fits.
enum class DeviceSplit { automatic, layer, tensor };

/// Which parts of a model the host computes beside a GPU. What is left empty is chosen: nothing where the model fits into
/// the GPU's memory, else what takes the least time.
struct PlacementOptions {
  std::optional<std::int32_t> gpu_layers{};             ///< the last layers, which the GPU computes
  std::optional<std::int32_t> cpu_experts{};            ///< the first layers, whose routed experts the CPU computes
  std::vector<std::string> overrides{};                 ///< "REGEX=DEVICE", see add_overrides
  std::int64_t margin_bytes = std::int64_t{512} << 20;  ///< of the GPU's memory, left free by a model that is split
  std::int64_t gpu_memory_bytes = 0;                    ///< the most that is used of it; 0: what is free
  /// The time for which a step stops where rows cross from one side to the other: the GPU waits, threads start.
  double crossing_seconds = 30e-6;
  /// A CPU is split like a GPU, as if it had memory of its own: for tests.
  bool host_beside_cpu = false;

  [[nodiscard]] bool any() const { return gpu_layers || cpu_experts || !overrides.empty(); }
};

/// Whether the blocks of multi-token prediction (MTP) of a model's file draft. automatic: where the file has blocks that are
/// supported, no draft model is given and there is memory for them.
enum class MtpUse { automatic, on, off };

/// Speculative decoding: tokens that may follow are computed with the last one, and kept where they are what is drawn.
struct DraftOptions {
  std::int32_t most = 8;   ///< drafted for one sequence in a step
  std::int32_t least = 1;  ///< shorter drafts are not used
  /// Drafts are what followed the last tokens of the sequence where they stood before, in any sequence: so many tokens, or
  /// twice as many where these are known. 0: no drafts.
  std::int32_t ngram = 0;
  /// A file of a smaller model with the same vocabulary, or an EAGLE3 draft or an assistant of the model, which drafts where
  /// nothing is found; "": none.
  std::string model{};
  /// automatic is decided when the model is planned.
  MtpUse mtp = MtpUse::automatic;
  /// Whether fewer tokens are drafted where fewer are accepted or where a step takes longer with them, and none where they
  /// do not pay. Else always as many as are found.
  bool adapts = true;

  [[nodiscard]] bool are_on() const { return (ngram > 0 || !model.empty() || mtp == MtpUse::on) && most > 0; }
};

struct EngineOptions {
  std::int32_t context_length = 0;  ///< 0: the model's, at most default_context_limit, or what fits
  /// Without a context_length: it is the longest of which so many fit in free memory, up to the model's. 0: it is not chosen
  /// so, nor with a draft model or several processes.
  std::int32_t fitting_contexts = 0;
  std::int32_t max_batch_tokens = 512;
  std::int32_t max_sequences = 8;
  std::int32_t max_prefill_tokens = 0;  ///< of prompts in a step with decodes; 0: what the decodes leave
  /// The most time that prompts may add to a step in which other sequences decode, estimated from the speed of the last
  /// prompts; 0: no limit. Affects only the size of prompt chunks, never a result.
  double max_prefill_seconds = 0.0;
  std::int32_t max_waiting = -1;  ///< requests beyond max_sequences; -1: any number
  std::int64_t kv_tokens = 0;     ///< positions the cache holds in all; 0: one full context, or fitting_contexts
  std::int32_t threads = 0;       ///< 0: all processors that the process may use
  bool prefix_cache = true;
  /// The most host memory for known prefixes whose blocks are freed, from where they are copied back; 0: none, -1: a quarter
  /// of what the model leaves free.
  std::int64_t cache_ram_bytes = 0;
  /// A folder for prompts' blocks, which later processes find; "": none. Needs host memory, through which they come back.
  std::string cache_disk{};
  std::int64_t cache_disk_bytes = std::int64_t{16} << 30;  ///< the most of all files there
  /// Whether conversations are named by slots (Engine::slots), as many as max_sequences. Needs host memory for prompts.
  bool slots = false;
  DraftOptions drafts{};                   ///< its `mtp` decides ModelOptions::load_mtp, whose own value is not read
  std::vector<AdapterOptions> adapters{};  ///< loaded with the model
  std::vector<ControlVectorFile> control_vectors{};  ///< added to the outputs of layers, for all requests
  ControlLayers control_layers{};
  /// The file of the model's encoders of images and recordings (mmproj); "": it reads text alone. A step then has at least
  /// the tokens of the largest image or piece, beside one of each other sequence.
  std::string mmproj{};
  /// It was found beside the model. One that is not this model's, or can't be computed, is passed over with a warning.
  bool mmproj_is_found = false;
  std::int32_t image_tokens = 0;  ///< the most of an image whose size may be chosen; 0: default_image_tokens
  ModelOptions model{};
  std::string device = "auto";  ///< see open_device; several, with commas between them
  DeviceSplit split = DeviceSplit::automatic;
  /// The layers of each of several devices, as proportions (stages_in_proportion). Empty: by the memory that is free.
  std::vector<double> tensor_split{};
  /// The program is one of several processes that share the model: who loads it joins them (ModelOptions::processes).
  bool as_process = false;
  PlacementOptions placement{};
  std::filesystem::path ceilings_file{};  ///< of CeilingCache: bandwidths for the choice of a placement; empty: usual ones
  std::string kernel_dir{};               ///< folder or archive of code objects for GPUs; "": the embedded ones
  std::string isa{};                      ///< limits the CPU instruction set; "": the best
  std::vector<AvoidedKernel> without{};   ///< kernels that are not chosen
  bool safe = false;  ///< no kernels above KernelPriority::portable; none is recorded or runs beside another
  /// Decides ModelOptions::merge_launches, whose own value is not read.
  MergeLaunches merge_launches = MergeLaunches::automatic;
  /// Where the results of earlier checks are (check_records.h): kernels that were wrong on this device are not chosen.
  /// Empty: they are not read. `version` is the program's.
  std::filesystem::path checks_folder{};
  std::string version{};
  /// The time that a step may take, where steps are watched (Engine::watch_steps); 0: any time. Empty: step_time_bound().
  std::optional<double> step_seconds{};
};

/// Times and counts of a finished request.
struct RequestStats {
  std::int32_t prompt_tokens = 0;
  std::int32_t cached_tokens = 0;  ///< of the prompt, not computed for this request
  std::int32_t host_tokens = 0;    ///< of these, copied back from host memory
  std::int32_t disk_tokens = 0;    ///< of these, read from files for this request
  std::int32_t generated_tokens = 0;
  double queue_seconds = 0.0;        ///< submission to the first step it is part of
  double prompt_seconds = 0.0;       ///< submission to first token, or to the prompt's end if no token is drawn
  double decode_seconds = 0.0;       ///< first token to last
  std::int32_t drafted_tokens = 0;   ///< computed as drafts
  std::int32_t accepted_tokens = 0;  ///< of these, drawn
};

/// What a step produced for one request.
struct StepOutput {
  RequestId id = 0;
  std::vector<std::int32_t> tokens{};  ///< drawn
  std::string text{};  ///< complete characters only, stop strings held back; the reason with FinishReason::error
  FinishReason finish = FinishReason::none;
  bool by_token = false;                    ///< the last token ended it: an end token, or one of Request::stop_tokens
  std::string stop{};                       ///< the stop string that ended it, "" for another end
  std::optional<RequestStats> stats{};      ///< with the last output
  bool shifted = false;                     ///< the context was full and older tokens were dropped
  RequestError error = RequestError::none;  ///< why the request was refused, or could not go on
  std::vector<TokenLogprobs> logprobs{};    ///< of each drawn token, when asked for
  std::vector<float> logits{};              ///< [tokens, vocab] from which they were drawn, when asked for
  /// Of all prompt tokens but the first, when asked for; given once, when the prompt is computed.
  std::vector<TokenLogprobs> prompt_logprobs{};
  std::vector<float> embedding{};  ///< [hidden], pooled but not normalised
};

/// A request that has not finished.
struct SequenceStatus {
  RequestId id = 0;
  SequencePhase phase = SequencePhase::waiting;
  std::int32_t priority = 0;
  std::int32_t prompt_tokens = 0;
  std::int32_t cached_tokens = 0;    ///< of the prompt, not computed for this request
  std::int32_t computed_tokens = 0;  ///< positions in the KV cache
  std::int32_t generated_tokens = 0;
  std::int32_t kv_blocks = 0;
  double age_seconds = 0.0;  ///< since submission
};

/// The current state of an engine. All values are counters: the time to read them does not depend on the size of the cache
/// or the queue.
struct EngineStatus {
  std::int32_t waiting = 0;  ///< requests without pages
  std::int32_t running = 0;
  std::int32_t kv_blocks = 0;  ///< all blocks of the cache, without those of groups with a window
  std::int32_t free_blocks = 0;
  std::int32_t prefix_blocks = 0;     ///< blocks in the prefix cache
  std::int32_t evictable_blocks = 0;  ///< of these, the ones that can be freed
  std::int32_t window_blocks = 0;     ///< all blocks of groups with a window; 0: the model has none
  std::int32_t free_window_blocks = 0;
  std::int32_t evictable_window_blocks = 0;  ///< in the prefix cache, can be freed
  std::int32_t state_slots = 0;              ///< all slots of recurrent state; 0: the model has none
  std::int32_t free_slots = 0;
  std::int32_t kept_states = 0;       ///< states in the prefix cache
  std::int32_t evictable_states = 0;  ///< of these, the ones that can be freed
  std::int32_t host_blocks = 0;       ///< blocks of the prefix cache with a copy in host memory
  std::int64_t host_bytes = 0;        ///< of these copies
  std::int64_t max_host_bytes = 0;    ///< the most that there may be; 0: none are kept
  std::int64_t disk_bytes = 0;        ///< of prompts in files
  std::int64_t max_disk_bytes = 0;    ///< likewise
  std::int32_t step_tokens = 0;       ///< computed in the last step
  std::int32_t step_sequences = 0;    ///< part of the last step
  // Totals since the engine was made.
  std::int64_t preemptions = 0;
  std::int64_t steps = 0;
  std::int64_t prefix_queries = 0;  ///< prompt tokens looked up in the prefix cache
  std::int64_t prefix_hits = 0;     ///< prompt tokens found there
  std::int64_t host_hits = 0;       ///< of these, in host memory
  std::int64_t disk_loads = 0;      ///< prompt tokens read from files into host memory
  std::int64_t drafts = 0;          ///< of at least one token, each for one sequence in one step
  std::int64_t drafted_tokens = 0;
  std::int64_t accepted_tokens = 0;
};

struct EngineParts;
class EngineSlots;
class AudioModel;
class VisionModel;

/// Runs a model for several requests at once. Not thread-safe: one thread owns it.
class Engine {
 public:
  ~Engine();

  /// Accepts a request; later steps return its output. A request that can never run is returned by the next step with
  /// FinishReason::error, the reason as text and its kind in StepOutput::error.
  RequestId submit(Request request);
  /// `count` answers to one prompt, which is computed once. Then each answer has its own copy of the last, partly filled
  /// block and shares the others. With a seed, answer i has the random stream of seed + i. Log probabilities of the prompt
  /// come with the first answer only. Either all answers are accepted or none: then it throws std::bad_alloc.
  std::vector<RequestId> submit(Request request, int count);
  /// Whether the request was accepted and has not finished.
  [[nodiscard]] bool is_open(RequestId id) const;
  /// Frees the request's pages at once; the next step reports FinishReason::cancelled. Ignores ids that have finished.
  /// Never fails for want of memory.
  void cancel(RequestId id);
  /// Whether `step` has something to compute or to deliver.
  [[nodiscard]] bool has_work() const;

  /// Computes one step for all sequences with work and returns its outputs, valid until the next call of step() or submit().
  /// Does not throw for a bad request or missing memory: the answer concerned ends with FinishReason::error.
  std::vector<StepOutput>& step();

  /// The adapters that requests may name, in the order of loading.
  [[nodiscard]] const std::vector<LoadedAdapter>& adapters() const;
  /// Loads an adapter for later requests; returns its id. Throws Error naming the file.
  std::int32_t load_adapter(const AdapterOptions& options);
  /// No later request may use it; its memory is freed when no open request does. False for an unknown id.
  bool unload_adapter(std::int32_t id);
  /// For later requests that name no adapters; those that are not in `scales` get 0. False for an unknown id.
  bool set_adapter_scales(std::span<const AdapterScale> scales);

  /// From now on a step that does not end in its time is reported: `on_timeout` is called once, by another thread, while the
  /// step still runs. The engine can't be used any more then.
  void watch_steps(std::function<void(const std::string& line)> on_timeout);

  [[nodiscard]] EngineStatus status() const;
  /// The requests that have not finished: running ones first, each in the order in which they run.
  [[nodiscard]] std::vector<SequenceStatus> sequences() const;

  /// The slots that name conversations; null without EngineOptions::slots, or where host memory has no room for prompts.
  [[nodiscard]] EngineSlots* slots();

  /// The image encoder, null for a model that sees no images. Requests get images by add_input() (engine/images.h).
  [[nodiscard]] const VisionModel* vision() const;
  /// The audio encoder, null for a model that hears no recordings.
  [[nodiscard]] const AudioModel* audio() const;
  [[nodiscard]] const Model& model() const;
  [[nodiscard]] Model& model();
  [[nodiscard]] SequenceMemory& memory();
  [[nodiscard]] Device& device();
  [[nodiscard]] const DeviceInfo& device_info() const;
  [[nodiscard]] std::shared_ptr<const Tokenizer> tokenizer() const;  ///< null for a file without one
  /// What whoever mixes clients' salts puts into Request::cache_salt: of the folder EngineOptions::cache_disk, so that later
  /// engines find prompts in its files; else this engine's own (engine/salt_secret.h).
  [[nodiscard]] const std::string& salt_secret() const;
  [[nodiscard]] std::int32_t context_length() const;     ///< positions that one sequence may hold; never more than the cache
  [[nodiscard]] const SamplingParams& sampling() const;  ///< defaults of requests
  [[nodiscard]] const GgufFile& file() const;
  [[nodiscard]] std::int64_t num_parameters() const;    ///< elements of all tensors in the file; 0 without one
  [[nodiscard]] std::uint64_t file_bytes() const;       ///< all shards; 0 without a file
  [[nodiscard]] std::int32_t max_batch_tokens() const;  ///< computed in one step
  [[nodiscard]] int threads() const;

 private:
  friend std::unique_ptr<Engine> make_engine(EngineParts parts, const EngineOptions& options);
  struct State;
  explicit Engine(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

/// Positions that a sequence may hold under these options.
std::int32_t context_length(const EngineOptions& options, const ModelConfig& config);
/// Tokens of the largest step: for an encoder, which computes a text in one step, at least those of the longest text.
std::int32_t step_tokens(const EngineOptions& options, const ModelConfig& config);

/// Rows of logits in one step: one for each sequence, and where tokens are drafted room for two drafts of each.
std::int32_t max_logit_rows(const EngineOptions& options);

/// Opens the file and the device, chooses kernels, prepares weights and cache. Throws Error; if memory does not suffice, the
/// message has the numbers. A file without a tokenizer can be loaded: requests and outputs then have token ids and no text.
std::unique_ptr<Engine> load_model(const std::string& path, const EngineOptions& options = {});
/// The same on an open device; `options.device` is not read.
std::unique_ptr<Engine> load_model(const std::string& path, const EngineOptions& options, std::unique_ptr<Device> device);

/// Where processes share the model (ModelOptions::processes), the part of those behind rank 0, which calls load_model():
/// loads this rank's part and computes its steps until the engine of rank 0 is gone. Throws RankEnded where another rank's
/// error ends them all.
void follow_model(const std::string& path, const EngineOptions& options);

}  // namespace rocmforge
