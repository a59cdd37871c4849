#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/draft_order.h"
#include "engine/images.h"
#include "engine/model_runner.h"
#include "memory/sequence_memory.h"
#include "models/model.h"
#include "ops/batch_plan.h"
#include "schedule/scheduler.h"

namespace rocmforge {

/// Drafts by the model's first block of multi-token prediction, or a draft of another file in its place
/// (Model::forward_mtp): from what the last
/// token computed and the token drawn there it predicts the next one, from its own state and that one the token after, and
/// so on; always the likeliest. Its K and V must follow those of the model, so it also computes every row of every step,
/// prompts included. Where it could not (no memory for a pass), later drafts are worse, and nothing else changes. What
/// follows a shared prefix differs from sequence to sequence: K and V behind a prefix's last token are those of the first
/// one. Adapters do not change the block, and it sees the placeholders of images.
///
/// A draft that reads the model's K and V in place of its own (an assistant) computes rows only where it drafts, all of a
/// draft's tokens at the cell and the position of the first.
class MtpDrafts {
 public:
  /// Both must outlive it. `has_keys`: K and V of its own.
  MtpDrafts(Model& model, SequenceMemory& memory, bool has_keys);

  /// The step of `plan`, which has computed `chunks`, has been read, and they are not committed yet: the next propose()
  /// continues from it. `plan` wanted the hidden states of all its rows.
  void take_step(const BatchPlan& plan, std::span<const ScheduledChunk> chunks, std::span<const ChunkResult> results);
  /// The step of `plan` may still run, and the step after it is started next. Each chunk draws one token and has no other
  /// rows of logits. Computes K and V alone. After an exception the rows of the step are left out.
  void follow(const BatchPlan& plan, std::span<const ScheduledChunk> chunks);

  /// Computes the rows of the last step, and drafts for the orders. A sequence that was not part of the step gets no drafts.
  void propose(std::span<DraftOrder> orders, Scheduler& scheduler);

 private:
  /// The state behind a sequence's last computed token.
  struct Origin {
    RequestId id = 0;
    std::int32_t row = 0;  ///< in the step
    std::int32_t position = 0;
  };
  /// An order under way.
  struct Drafted {
    DraftOrder* order = nullptr;
    Origin from{};
    std::int32_t most = 0;
    std::int32_t token = 0;  ///< the last one
    bool ended = false;      ///< no further token is likely: the logits were not numbers
  };

  void note_step(const BatchPlan& plan, std::span<const ScheduledChunk> chunks, std::span<const ChunkResult> results);
  /// Sets pass_ to the rows of the step, each with the token behind it as far as the step has it.
  void begin_pass(const BatchPlan& plan);
  /// A query of a draft without keys of its own stands behind those that it sees.
  void move_behind_keys();
  void draft(std::span<DraftOrder> orders, Scheduler& scheduler);
  /// Sets drafted_, in the order of their rows, with room in the cache for what they draft.
  void begin_drafts(std::span<DraftOrder> orders, Scheduler& scheduler);
  /// How many tokens of the order there is room for, each with K and V behind the sequence's.
  static std::int32_t most_with_keys(const DraftOrder& order, Scheduler& scheduler);
  /// Computes pass_ with the draws of drafted_ in its rows, and takes them. `rows` are theirs; `more`: those of hidden
  /// states.
  void run_pass(std::span<const std::int32_t> rows, std::span<const std::int32_t> more);
  /// Computes the last drafted tokens of drafted_, which are all behind their origins by `distance`.
  void continue_drafts(std::int32_t distance);

  Model* model_;
  SequenceMemory* memory_;
  bool has_keys_;
  StepImages positions_;
  BatchPlan pass_;
  bool pending_ = false;                 ///< pass_ has the rows of a step that were not computed
  const BatchPlan* followed_ = nullptr;  ///< the last step of follow()
  std::vector<Origin> origins_;          ///< of its sequences that go on, in the order of their rows
  std::vector<Drafted> drafted_;
  std::vector<std::int32_t> rows_;
  std::vector<std::int32_t> rows_with_more_;
};

}  // namespace rocmforge
