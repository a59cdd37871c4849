#include "ops/batch_plan.h"

#include <algorithm>
#include <string>

#include "base/error.h"

namespace rocmforge {

namespace {

void validate_rows(const std::vector<std::int32_t>& rows, std::int32_t count, const char* name) {
  if (!std::is_sorted(rows.begin(), rows.end())) {
    fail_check(std::string(name) + ": must ascend");
  }
  if (!rows.empty() && (rows.front() < 0 || rows.back() >= count)) {
    fail_check(std::string(name) + ": outside the step");
  }
}

}  // namespace

void BatchPlan::clear() {
  tokens.clear();
  positions.clear();
  sequence_of.clear();
  query_offsets.assign(1, 0);
  kv_lengths.clear();
  block_tables.clear();
  visible_end.clear();
  spans_.clear();
  states.clear();
  logit_rows.clear();
  raw_rows.clear();
  hidden_rows.clear();
  adapters.clear();
  overwritten_rows.clear();
  given_rows.clear();
  given = {};
  sample_rows.clear();
  adjustments.clear();
  masks.clear();
  mask_words = 0;
  groups_.resize(std::max<std::size_t>(groups_.size(), 1));
  for (GroupBlocks& group : groups_) {
    group.blocks.clear();
    group.offsets.assign(1, 0);
  }
  num_groups_ = 1;
  max_blocks = 0;
  position_axes = 1;
  most_rows = 0;
}

void BatchPlan::add_sequence(std::span<const std::int32_t> new_tokens, std::int32_t first_cell,
                             std::span<const std::int32_t> blocks, bool last_logits, bool all_logits) {
  check(!new_tokens.empty(), "a sequence of a step needs at least one token");
  check(first_cell >= 0, "a cell can't be negative");
  if (query_offsets.empty()) {
    clear();
  }
  check(kv_lengths.empty() || kv_lengths.back() > 0, "sequences come before padding");
  const std::int32_t sequence = num_sequences();
  const auto count = static_cast<std::int32_t>(new_tokens.size());
  for (std::int32_t i = 0; i < count; ++i) {
    if (all_logits || (last_logits && i + 1 == count)) {
      logit_rows.push_back(num_tokens());
    }
    tokens.push_back(new_tokens[static_cast<std::size_t>(i)]);
    positions.insert(positions.end(), static_cast<std::size_t>(position_axes), first_cell + i);
    sequence_of.push_back(sequence);
  }
  query_offsets.push_back(num_tokens());
  kv_lengths.push_back(first_cell + count);
  GroupBlocks& group = groups_.front();
  group.blocks.insert(group.blocks.end(), blocks.begin(), blocks.end());
  group.offsets.push_back(static_cast<std::int32_t>(group.blocks.size()));
  max_blocks = std::max(max_blocks, static_cast<std::int32_t>(blocks.size()));
}

void BatchPlan::set_positions(std::span<const std::int32_t> own, std::int32_t axes) {
  check(num_sequences() > 0 && kv_lengths.back() > 0, "the sequence comes before its positions");
  check(axes >= 1 && axes <= max_position_axes, "a token has 1 to 4 positions");
  const auto tokens_of = static_cast<std::size_t>(q_len(num_sequences() - 1));
  const auto given = static_cast<std::size_t>(axes);
  check(own.size() == tokens_of * given, "every token needs a position on each axis");
  if (axes > position_axes) {
    check(position_axes == 1, "tokens of a step have one position, or all the same number");
    widen_positions(axes);
  }
  check(axes == 1 || axes == position_axes, "tokens of a step have one position, or all the same number");
  const auto width = static_cast<std::size_t>(position_axes);
  const std::size_t first = positions.size() - tokens_of * width;
  for (std::size_t i = 0; i < tokens_of * width; ++i) {
    positions[first + i] = own[given == 1 ? i / width : i];
  }
}

void BatchPlan::widen_positions(std::int32_t axes) {
  const auto width = static_cast<std::size_t>(axes);
  positions.resize(positions.size() * width);
  for (std::size_t i = positions.size(); i-- > 0;) {
    positions[i] = positions[i / width];
  }
  position_axes = axes;
}

void BatchPlan::add_span(std::int32_t first, std::int32_t count) {
  check(num_sequences() > 0 && first >= 0 && count > 0, "a span has tokens of the sequence before it");
  const std::int32_t begin = query_offsets[query_offsets.size() - 2] + first;
  const std::int32_t end = begin + count;
  check(end <= num_tokens(), "a span ends within its sequence");
  check(spans_.empty() || spans_.back().end <= begin, "spans come in their order and do not overlap");
  spans_.push_back({begin, end, kv_lengths.back() - (num_tokens() - end)});
}

void BatchPlan::lay_out_spans() {
  visible_end.clear();
  if (spans_.empty()) {
    return;
  }
  for (std::int32_t s = 0; s < num_sequences(); ++s) {
    const bool padding = kv_lengths[static_cast<std::size_t>(s)] == 0;
    for (std::int32_t i = 0; i < q_len(s); ++i) {
      visible_end.push_back(padding ? 0 : kv_lengths[static_cast<std::size_t>(s)] - q_len(s) + i + 1);
    }
  }
  for (const Span& span : spans_) {
    std::fill(visible_end.begin() + span.begin, visible_end.begin() + span.end, span.end_cell);
  }
}

void BatchPlan::add_blocks(std::int32_t group, std::span<const std::int32_t> blocks) {
  check(group > 0 && num_sequences() > 0, "the sequence with its blocks of group 0 comes first");
  if (const auto count = static_cast<std::size_t>(group) + 1; groups_.size() < count) {
    groups_.resize(count);
    groups_.back().offsets.assign(1, 0);
  }
  num_groups_ = std::max(num_groups_, group + 1);
  GroupBlocks& to = groups_[static_cast<std::size_t>(group)];
  check(static_cast<std::int32_t>(to.offsets.size()) == num_sequences(),
        "a sequence has blocks in every group, or none has");
  const auto held = std::ranges::find_if(blocks, [](std::int32_t block) { return block >= 0; });
  for (const std::int32_t block : blocks) {
    to.blocks.push_back(block < 0 && held != blocks.end() ? *held : block);
  }
  to.offsets.push_back(static_cast<std::int32_t>(to.blocks.size()));
  max_blocks = std::max(max_blocks, static_cast<std::int32_t>(blocks.size()));
}

std::span<std::uint32_t> BatchPlan::add_mask(std::int32_t words) {
  check(words > 0 && (mask_words == 0 || mask_words == words), "the masks of a step are of one vocabulary");
  mask_words = words;
  const std::size_t begin = masks.size();
  masks.resize(begin + static_cast<std::size_t>(words), 0);
  return std::span(masks).subspan(begin);
}

void BatchPlan::add_padding(std::int32_t count) {
  check(count >= 0, "an amount of padding can't be negative");
  if (query_offsets.empty()) {
    clear();
  }
  for (std::int32_t i = 0; i < count; ++i) {
    sequence_of.push_back(num_sequences());
    tokens.push_back(0);
    positions.insert(positions.end(), static_cast<std::size_t>(position_axes), 0);
    query_offsets.push_back(num_tokens());
    kv_lengths.push_back(0);
    if (!states.empty()) {
      states.emplace_back();
    }
    for (GroupBlocks& group : std::span(groups_).first(static_cast<std::size_t>(num_groups_))) {
      group.offsets.push_back(static_cast<std::int32_t>(group.blocks.size()));
    }
  }
}

void BatchPlan::finish() {
  lay_out_spans();
  const auto width = static_cast<std::size_t>(max_blocks);
  block_tables.assign(static_cast<std::size_t>(num_groups_) * kv_lengths.size() * width, -1);
  auto table = block_tables.begin();
  for (const GroupBlocks& group : std::span(groups_).first(static_cast<std::size_t>(num_groups_))) {
    check(group.offsets.size() == kv_lengths.size() + 1, "a sequence has blocks in every group, or none has");
    for (std::size_t s = 0; s < kv_lengths.size(); ++s) {
      std::copy(group.blocks.begin() + group.offsets[s], group.blocks.begin() + group.offsets[s + 1], table);
      table += static_cast<std::ptrdiff_t>(width);
    }
  }
}

void BatchPlan::validate(const std::vector<std::int32_t>& num_blocks, std::int32_t block_tokens,
                         std::int32_t num_slots) const {
  const auto token_count = static_cast<std::size_t>(num_tokens());
  const auto sequence_count = static_cast<std::size_t>(num_sequences());
  check(position_axes >= 1 && position_axes <= max_position_axes, "position_axes: a token has 1 to 4 positions");
  check(positions.size() == token_count * static_cast<std::size_t>(position_axes),
        "positions: one per token and axis is needed");
  check(std::ranges::all_of(positions, [](std::int32_t position) { return position >= 0; }),
        "positions: they can't be negative");
  check(sequence_of.size() == token_count, "sequence_of: one per token is needed");
  check(query_offsets.size() == sequence_count + 1, "query_offsets: one per sequence and one more is needed");
  check(query_offsets.front() == 0 && query_offsets.back() == num_tokens(),
        "query_offsets: must run from 0 to the token count");
  check(adapters.empty() || adapters.size() == sequence_count, "adapters: one list per sequence is needed");
  check(num_blocks.size() == static_cast<std::size_t>(num_groups_), "block_tables: one for each group of pages is needed");
  check(block_tables.size() == num_blocks.size() * sequence_count * static_cast<std::size_t>(max_blocks),
        "block_tables: finish() was not called");
  for (std::size_t s = 0; s < sequence_count; ++s) {
    validate_sequence(s, num_blocks, block_tokens);
    check(s == 0 || kv_lengths[s] == 0 || kv_lengths[s - 1] > 0, "kv_lengths: sequences come before padding");
  }
  check(most_rows == 0 || most_rows == 2 || most_rows == 4 || most_rows == 8, "most_rows: 0, 2, 4 or 8");
  check(most_rows == 0 || view().max_q_len <= most_rows, "most_rows: a sequence has more");
  check(most_rows == 0 || visible_end.empty(), "most_rows: tokens of a step of few rows do not see each other");
  validate_spans();
  validate_states(num_slots);
  validate_rows(logit_rows, num_tokens(), "logit_rows");
  validate_rows(raw_rows, num_logit_rows(), "raw_rows");
  validate_rows(hidden_rows, num_tokens(), "hidden_rows");
  validate_rows(overwritten_rows, num_tokens(), "overwritten_rows");
  check(std::ranges::adjacent_find(overwritten_rows) == overwritten_rows.end(), "overwritten_rows: a row twice");
  check(given_rows.size() == overwritten_rows.size(), "given_rows: one for each overwritten row");
  check(std::ranges::all_of(given_rows, [this](std::int32_t row) { return row >= 0 && row < given.count; }) &&
            (given_rows.empty() || given.data != nullptr),
        "given_rows: outside the rows that are given");
  check(sample_rows.empty() || sample_rows.size() == logit_rows.size(), "sample_rows: one per logit row, or none");
  for (const SampleTokens::Row& row : sample_rows) {
    check(row.first_adjustment >= 0 && row.num_adjustments >= 0 &&
              static_cast<std::size_t>(row.first_adjustment) + static_cast<std::size_t>(row.num_adjustments) <=
                  adjustments.size(),
          "sample_rows: adjustments outside the list");
    check(row.mask >= -1 && row.mask < num_masks(), "sample_rows: a mask outside the list");
  }
}

void BatchPlan::validate_spans() const {
  if (visible_end.empty()) {
    return;
  }
  check(visible_end.size() == tokens.size(), "visible_end: one per token, or none");
  for (std::size_t t = 0; t < tokens.size(); ++t) {
    const auto s = static_cast<std::size_t>(sequence_of[t]);
    const std::int32_t own = kv_lengths[s] - query_offsets[s + 1] + static_cast<std::int32_t>(t) + 1;
    const bool padding = kv_lengths[s] == 0;
    check(padding || (visible_end[t] >= own && visible_end[t] <= kv_lengths[s]),
          "visible_end: not from the token's own cell to the sequence's last");
    const bool first = static_cast<std::int32_t>(t) == query_offsets[s];
    check(first || visible_end[t] >= visible_end[t - 1], "visible_end: must not fall within a sequence");
  }
}

// A slot that is written belongs to one sequence alone, and no other reads it.
void BatchPlan::validate_states(std::int32_t num_slots) const {
  if (num_slots == 0 && states.empty()) {
    return;
  }
  check(states.size() == static_cast<std::size_t>(num_sequences()), "states: one per sequence is needed");
  std::vector<bool> written(static_cast<std::size_t>(num_slots), false);
  const auto write = [&](std::int32_t slot) {
    check(slot >= 0 && slot < num_slots, "states: a slot outside the memory");
    check(!written[static_cast<std::size_t>(slot)], "states: a slot is written twice");
    written[static_cast<std::size_t>(slot)] = true;
  };
  for (std::int32_t s = 0; s < num_sequences(); ++s) {
    const StateSlots& slots = states[static_cast<std::size_t>(s)];
    const bool padding = kv_lengths[static_cast<std::size_t>(s)] == 0;
    check(padding == (slots.write < 0), "states: a sequence without a slot to write, or padding with one");
    if (padding) {
      continue;
    }
    const bool starts = kv_lengths[static_cast<std::size_t>(s)] == q_len(s);
    check(starts == (slots.read < 0), "states: a sequence that starts reads none, and any other one");
    check(slots.read < num_slots, "states: a slot outside the memory");
    write(slots.write);
    if (slots.keep >= 0) {
      write(slots.keep);
      check(slots.keep_rows > 0 && slots.keep_rows <= q_len(s), "states: the state behind a row outside the step");
    }
  }
  check(
      std::ranges::none_of(
          states, [&](const StateSlots& slots) { return slots.read >= 0 && written[static_cast<std::size_t>(slots.read)]; }),
      "states: a slot is read and written");
}

void BatchPlan::validate_sequence(std::size_t s, const std::vector<std::int32_t>& num_blocks,
                                  std::int32_t block_tokens) const {
  const std::int32_t first = query_offsets[s];
  const std::int32_t count = query_offsets[s + 1] - first;
  const bool padding = kv_lengths[s] == 0;
  check(count > 0, "query_offsets: every sequence needs a token");
  check(padding ? count == 1 : kv_lengths[s] >= count, "kv_lengths: shorter than the step's own tokens");
  for (std::int32_t i = 0; i < count; ++i) {
    const auto t = static_cast<std::size_t>(first + i);
    check(sequence_of[t] == static_cast<std::int32_t>(s), "sequence_of: contradicts query_offsets");
  }
  const std::int32_t blocks = (kv_lengths[s] + block_tokens - 1) / block_tokens;
  check(blocks <= max_blocks, "block_tables: too short for the KV length");
  for (std::size_t group = 0; group < num_blocks.size(); ++group) {
    const std::size_t row = (group * kv_lengths.size() + s) * static_cast<std::size_t>(max_blocks);
    for (std::int32_t b = 0; b < blocks; ++b) {
      const std::int32_t block = block_tables[row + static_cast<std::size_t>(b)];
      check(block >= 0 && block < num_blocks[group], "block_tables: a block outside the cache");
    }
  }
}

RaggedBatch BatchPlan::view() const {
  RaggedBatch batch;
  batch.num_sequences = num_sequences();
  batch.num_tokens = num_tokens();
  batch.query_offsets = query_offsets.data();
  batch.kv_lengths = kv_lengths.data();
  batch.block_tables = block_tables.data();
  batch.max_blocks = max_blocks;
  batch.positions = positions.data();
  batch.position_axes = position_axes;
  batch.visible_end = visible_end.empty() ? nullptr : visible_end.data();
  batch.sequence_of = sequence_of.data();
  batch.states = states.empty() ? nullptr : states.data();
  for (std::int32_t s = 0; s < num_sequences(); ++s) {
    const auto index = static_cast<std::size_t>(s);
    batch.max_q_len = std::max(batch.max_q_len, query_offsets[index + 1] - query_offsets[index]);
    batch.max_kv_len = std::max(batch.max_kv_len, kv_lengths[index]);
  }
  return batch;
}

}  // namespace rocmforge
