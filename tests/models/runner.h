#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "models/error_text.h"
#include "models/model.h"
#include "models/model_file.h"
#include "models/step/step_link.h"
#include "test_device.h"

namespace rocmforge::testing {

/// The GPU that ROCMFORGE_TEST_DEVICE names, opened once for the whole program; null when it names none. Check `problem`
/// when a test needs it.
test::TestDevice& gpu_under_test();

/// What models are run with. On the CPU "reference", and "cpu-ISA" for each instruction set this machine has; "gpu" when
/// ROCMFORGE_TEST_DEVICE names one.
const std::vector<std::string>& kernel_sets();
/// kernel_sets(), and on a GPU "gpu-ATTENTION" for each forced attention kernel. Not every model supports each of these.
const std::vector<std::string>& forced_kernel_sets();
[[nodiscard]] bool is_gpu(const std::string& kernel_set);
/// Why the set can't run here, or "".
std::string missing(const std::string& kernel_set);
/// The same for a model.
std::string missing(const std::string& kernel_set, const GgufFile& file);

/// How far logits may be from those of an F32 model computed in double: GPUs may round activations to 16 bits when a step
/// has many tokens.
double logit_tolerance(const std::string& kernel_set);

/// On the CPU a token's logits have the same bits however its sequence was split into steps and whatever else is in the
/// batch. A GPU has separate kernels for steps of few tokens, so there the logits are only close.
void expect_same_logits(const std::vector<float>& actual, const std::vector<float>& expected, const std::string& kernel_set,
                        const std::string& what = "");

/// A part of a sequence that one step computes.
struct Piece {
  std::vector<std::int32_t> tokens;
  std::int32_t first_position = 0;
  std::vector<std::int32_t> blocks;    ///< of the cache, from position 0 on
  std::vector<std::int32_t> span{};    ///< first token and count of those that see each other; or none
  std::vector<std::int32_t> places{};  ///< positions apart from the cells, [tokens, 3]; or none
  std::vector<AdapterUse> adapters{};  ///< of its sequence
};

/// A loaded model with memory whose every element is poisoned: a wrong read shows in the logits.
class Runner {
 public:
  static constexpr std::int32_t num_blocks = 24;
  static constexpr std::int32_t block_tokens = 16;
  static constexpr std::int32_t num_slots = 24;

  /// Options other than the KV type, which is f32, and the batch size are the defaults. `file` must outlive the runner. A
  /// model that the options split gets a host: a second CPU with memory of its own.
  Runner(const GgufFile& file, const std::string& kernel_set, int num_threads = 2);
  Runner(const GgufFile& file, const std::string& kernel_set, const ModelOptions& options, int num_threads = 2);
  /// On `device`, with all kernels.
  Runner(const GgufFile& file, Device& device, const ModelOptions& options);
  /// On devices that share each layer, options.ranks of them, or the layers (options.stage_ends), with rows on this route.
  Runner(const GgufFile& file, const std::vector<Device*>& devices, const ModelOptions& options,
         std::optional<StepLink::Route> route = {});

  /// One step; logits of every row, [tokens, vocab]. `most_rows`: BatchPlan::most_rows.
  std::vector<float> step(const std::vector<Piece>& pieces, std::int32_t most_rows = 0);
  /// The same in a plan without sequences so far.
  std::vector<float> step(const std::vector<Piece>& pieces, BatchPlan& plan);
  /// A part of a prompt of which no logits are wanted. Does not wait for the device.
  void advance(const Piece& piece);
  /// The whole sequence in one step.
  std::vector<float> whole(const std::vector<std::int32_t>& tokens);
  /// The whole sequence in one step of which only the logits of `rows`, ascending, are wanted: [rows, vocab].
  std::vector<float> rows(const std::vector<std::int32_t>& tokens, const std::vector<std::int32_t>& rows);
  /// One step that draws the most likely next token of each piece.
  std::vector<std::int32_t> draw(const std::vector<Piece>& pieces);
  /// The same without waiting for it.
  void start_draw(const std::vector<Piece>& pieces);

  /// A part of a sequence and the tokens behind each of its positions.
  struct Predicted {
    Piece piece;
    std::vector<std::int32_t> behind;
  };
  /// A step, then the first MTP block on its hidden states: the block's logits of every row, [tokens, vocab]. The block's
  /// tokens have positions `ahead` of those of their rows.
  std::vector<float> predict(const std::vector<Predicted>& parts, std::int32_t ahead = 0);

  [[nodiscard]] Model& model() { return *model_; }
  [[nodiscard]] SequenceMemory& memory() { return *memory_; }
  [[nodiscard]] Device& device() { return *device_; }

 private:
  /// Gives a piece that was just added to the plan its slots: it reads the state that its positions need, and writes the
  /// states after its end and after its last whole block.
  void add_state(BatchPlan& plan, const Piece& piece);
  std::int32_t free_slot(const BatchPlan& plan);
  /// Gives the piece its blocks in groups with a window, the same ids as in group 0. Blocks before the window are given up.
  void add_windows(BatchPlan& plan, const Piece& piece);
  void load(const GgufFile& file, const ModelOptions& options, std::optional<StepLink::Route> route = {});

  KernelRegistry registry_;
  std::unique_ptr<Device> own_device_;
  std::unique_ptr<Device> host_;
  Device* device_;
  std::vector<Device*> of_ranks_;
  ThreadPool pool_;
  std::unique_ptr<Model> model_;
  std::unique_ptr<SequenceMemory> memory_;

  /// A recurrent state that a step has written: the first block of its sequence, and the number of positions before the
  /// state.
  struct KnownState {
    std::int32_t first_block = -1;
    std::int32_t positions = 0;
    std::int64_t step = 0;  ///< the larger, the newer
  };
  std::vector<KnownState> states_;  ///< of each slot
  std::int64_t num_steps_ = 0;
};

ModelOptions f32_options();

/// ||out - reference|| / ||reference||
double relative_error(const std::vector<float>& out, const std::vector<float>& reference);

/// The error of loading the golden model `name` after `change`, or "no error".
template <class Change>
std::string refusal(const std::string& name, Change&& change) {
  ModelFile model = ModelFile::golden(name);
  change(model);
  const OpenModel open(model);
  return error_text([&] { Runner(open.file, "reference"); });
}

}  // namespace rocmforge::testing
