#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "checks/call_arrays.h"
#include "checks/model_shapes.h"
#include "ops/batch_plan.h"
#include "ops/kv_layout.h"
#include "tensor/random_rows.h"

namespace rocmforge {

/// Random whose arrays are parts of arrays that a process draws once.
class PooledRandom : public Random {
 public:
  using Random::Random;
  std::vector<float> normals(std::int64_t count, float deviation = 1.0f);
  std::vector<float> uniforms(std::int64_t count, float low, float high);
};

/// [rows, cols] of a weight as a file stores it; many rows are drawn from few random ones.
std::vector<std::byte> random_weight(DType type, std::int64_t rows, std::int64_t cols, Random& random);

inline double float_bytes(std::int64_t count) { return static_cast<double>(count) * sizeof(float); }

/// "1 token", "17 tokens"
std::string tokens_text(std::int64_t tokens);
/// `most`, and those of 1, 3, 8, 17, 64, 129 and 2048 that are less.
std::vector<std::int64_t> token_counts(std::int64_t most);
/// `most`, and those of 1, 3, 17, 129 and 2048 that are less: for operations with many formats.
std::vector<std::int64_t> few_token_counts(std::int64_t most);
/// `most`, and those of 1, 3, 9, 17, 129 and 2048 that are less: experts have kernels of their own for some 5 to 15 tokens.
std::vector<std::int64_t> expert_token_counts(std::int64_t most);
/// `most`, and those of 1 and 17 that are less: for a kernel whose code other calls run, too.
std::vector<std::int64_t> least_token_counts(std::int64_t most);

/// A step's arrays among those of a call.
class BatchArrays {
 public:
  BatchArrays() = default;
  BatchArrays(CallArrays& arrays, BatchPlan plan);
  [[nodiscard]] const BatchPlan& plan() const { return *plan_; }
  [[nodiscard]] RaggedBatch at(const PlacedArrays& place) const;

 private:
  std::shared_ptr<const BatchPlan> plan_;
  Slot<std::int32_t> visible_end_;  // if any
  Slot<std::int32_t> query_offsets_, kv_lengths_, block_tables_, positions_, sequence_of_;
  Slot<StateSlots> states_;
};

/// A step of these sequences, whose blocks lie in random order in a cache of num_blocks.
struct PagedStep {
  BatchPlan plan;
  std::int64_t num_blocks = 0;
};
/// At most `most_blocks` different ones, which then stand in several places of the tables, as those of a shared prefix do:
/// for steps that only read them.
PagedStep paged_step(std::span<const SequenceShape> sequences, std::int32_t block_tokens, Random& random,
                     std::int32_t most_blocks = std::numeric_limits<std::int32_t>::max());
/// The same for an operation that writes the step's own positions alone: block 0 stands for all blocks before them.
PagedStep append_step(std::span<const SequenceShape> sequences, std::int32_t block_tokens, Random& random);

/// The pages of a cache, every position written.
std::vector<std::byte> random_pages(const KvLayout& layout, std::int64_t num_blocks, Random& random);
/// The numbers in pages, in the order in which they are stored; those of quantised types as what they stand for.
DecodeOutput decode_pages(const KvLayout& layout);

/// inverse_frequency of RopeAppend: [n_rot / 2].
std::vector<float> rotary_frequencies(std::int32_t n_rot);

/// A step of sequences of `rows` rows, the odd ones of which continue from a state, with slots for three states each. The
/// states are [num_slots, elems] floats, random where they are read.
struct StateStep {
  BatchPlan plan;
  std::int32_t num_slots = 0;
  std::vector<float> states;
};
StateStep state_step(std::span<const std::int32_t> rows, std::int64_t elems, float deviation, PooledRandom& random);
StateView states_at(const PlacedArrays& place, Slot<float> states, const StateStep& step, std::int64_t elems);
/// The numbers of sequences' rows in steps of servers: one, several decodes, prompts, a mix.
struct RowsOfSequences {
  std::string name;
  std::vector<std::int32_t> rows;
};
std::vector<RowsOfSequences> rows_of_sequences(std::int64_t max_tokens);
std::int64_t sum_of(std::span<const std::int32_t> values);

}  // namespace rocmforge
