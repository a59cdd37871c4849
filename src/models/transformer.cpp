#include "models/transformer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "models/config/mtp_config.h"

namespace rocmforge {
namespace {

/// The alignment that GPU kernels may expect of every buffer.
constexpr std::size_t buffer_alignment = 256;
/// The smallest blocks a cache may have.
constexpr std::int32_t least_block_tokens = 16;

ModelOptions complete(ModelOptions options, const ModelConfig& config) {
  check(options.max_batch_tokens >= 1 && options.max_logit_rows >= 1 && options.max_sequences >= 1,
        "a step has at least one token, one sequence and one row of logits");
  if (options.context_length == 0) {
    options.context_length = config.context_length;
  }
  return options;
}

}  // namespace

Transformer::Transformer(const GgufFile& file, const KernelRegistry& registry, const DeviceInfo& device, int num_threads,
                         const ModelOptions& options)
    : config_(ModelConfig::from_gguf(file, options.context_length)),
      options_(complete(options, config_)),
      plan_(file, registry, device, num_threads, options_) {
  embedding_ = plan_.embedding("token_embd.weight", config_.vocab, config_.hidden);
  if (config_.learned_positions) {
    plan_positions(file);
  }
  if (config_.per_layer_width > 0) {
    per_layer_.emplace(plan_, config_);
  }
  for (int index = 0; index < config_.layers; ++index) {
    blocks_.push_back(std::make_unique<Block>(plan_, config_, index, blocks_));
    if (index > 0) {
      blocks_.back()->join(plan_, *blocks_[blocks_.size() - 2]);
    }
  }
  kept_blocks_ = blocks_.size();
  while (kept_blocks_ > 1 && !blocks_[kept_blocks_ - 1]->keeps()) {
    --kept_blocks_;
  }
  const bool tied = !plan_.has_tensor("output.weight");
  const NormName norm{config_.output_norm, config_.norm_kind, config_.norm_eps, config_.norm_needs_bias};
  output_.emplace(plan_, config_,
                  OutputHead::Names{.norm = norm, .operation = "output", .head = tied ? "token_embd" : "output"},
                  blocks_.back()->mixed_width());
  sample_ = plan_.resolve<SampleTokens>({config_.vocab});
  plan_mtp(file);
  kv_groups_ = plan_.kv_groups();
  add_operations();
}

void Transformer::plan_mtp(const GgufFile& file) {
  if (options_.load_mtp && config_.mtp_blocks == 0) {
    throw Error(fmt::format("{}: has no MTP blocks: key '{}.nextn_predict_layers' is missing or 0", file.path().string(),
                            config_.architecture));
  }
  layer_operations_ = plan_.operations().size();
  if (!options_.load_mtp) {
    for (const GgufTensor& tensor : file.tensors()) {
      if (is_of_mtp(tensor.name, config_)) {
        plan_.pass_over(tensor.name);
      }
    }
    return;
  }
  plan_.leave_decode_steps();
  for (int index = config_.layers; index < config_.layers + config_.mtp_blocks; ++index) {
    mtp_.push_back(
        std::make_unique<MtpBlock>(plan_, config_, index, MtpBlock::Shared{embedding_, &output_->layers(), blocks_}));
  }
}

void Transformer::plan_positions(const GgufFile& file) {
  if (options_.context_length > config_.context_length) {
    throw Error(fmt::format("{}: a context of {} positions, but the model has learned {} and knows no others",
                            file.path().string(), options_.context_length, config_.context_length));
  }
  positions_ = plan_.embedding("position_embd.weight", config_.context_length, config_.hidden);
}

Transformer::~Transformer() {
  try {
    wait();
  } catch (const Error&) {  // the device has failed
  }
}

void Transformer::add_operations() {
  const auto operation = [](std::string_view kind, auto&& run) { return Operation{std::string(kind), run}; };
  embed_.push_back(operation(EmbeddingRows::name, [this](const Step& step) {
    const Buffers& buffers = step.buffers;
    embedding_->operation.run(
        {step.arrays->tokens, step.tokens, embedding_->data, config_.embedding_scale, buffers.hidden, buffers.sampled},
        step);
  }));
  if (positions_ != nullptr) {
    embed_.push_back(operation(EmbeddingRows::name, [this](const Step& step) {
      positions_->operation.run({.ids = step.batch.positions,
                                 .tokens = step.tokens,
                                 .table = positions_->data,
                                 .out = step.buffers.hidden,
                                 .add = true},
                                step);
    }));
  }
  if (per_layer_) {
    per_layer_->append(embed_);
  }
  draw_.push_back(operation(SampleTokens::name, [this](const Step& step) {
    const StepArrays& arrays = *step.arrays;
    sample_.run({.logits = step.buffers.logits,
                 .num_rows = step.tokens,
                 .rows = arrays.sample_rows,
                 .adjustments = arrays.adjustments,
                 .masks = arrays.masks,
                 .all_greedy = arrays.draw == Draw::greedy,
                 .out = step.buffers.sampled,
                 .workspace = step.buffers.scratch},
                step);
  }));
}

void Transformer::load(Device& device, ThreadPool& pool) {
  check(device_ == nullptr, "a model is loaded once");
  plan_.load_weights(device, pool);
  const WorkspaceLayout layout = lay_out_workspace();
  workspace_ = device.allocate(layout.end, "the workspace");
  const auto at = [this](std::size_t offset) { return workspace_.data() + offset; };
  const auto floats = [&](std::size_t offset) { return reinterpret_cast<float*>(at(offset)); };
  buffers_ = {.hidden = floats(layout.hidden),
              .sums = floats(layout.sums),
              .normed = floats(layout.normed),
              .projected = floats(layout.projected),
              .gathered = floats(layout.gathered),
              .per_layer = floats(layout.per_layer),
              .experts = reinterpret_cast<std::int32_t*>(at(layout.experts)),
              .expert_weights = floats(layout.expert_weights),
              .route_state = at(layout.route_state),
              .slot_order = at(layout.slot_order),
              .logits = floats(layout.logits),
              .scratch = at(layout.scratch),
              .sampled = reinterpret_cast<std::int32_t*>(at(layout.sampled)),
              .attention_states = {at(layout.attention_states[0]), at(layout.attention_states[1])}};
  context_.pool = &pool;
  if (device.is_gpu()) {
    context_.stream = &device.stream();
    inputs_.emplace(device, input_limits());
    graphs_.emplace(device.stream());
  }
  draws_.emplace(device, options_.max_logit_rows);
  device_ = &device;
}

Transformer::WorkspaceLayout Transformer::lay_out_workspace() const {
  const std::int64_t tokens = options_.max_batch_tokens;
  const std::int64_t rows = options_.max_logit_rows;
  std::size_t used = 0;
  const auto take = [&used](std::size_t size_bytes) {
    const std::size_t start = used;
    used += (size_bytes + buffer_alignment - 1) / buffer_alignment * buffer_alignment;
    return start;
  };
  const auto take_floats = [&take](std::int64_t count) { return take(static_cast<std::size_t>(count) * sizeof(float)); };
  const std::size_t scratch =
      std::max(plan_.scratch_bytes(), static_cast<std::size_t>(rows) * sample_workspace_bytes(config_.vocab));

  WorkspaceLayout layout{};
  layout.hidden = take_floats(tokens * config_.hidden);
  layout.sums = take_floats(std::min(tokens, plan_.joined_tokens()) * config_.hidden);
  layout.normed = take_floats(std::max(tokens, rows) * config_.hidden);
  std::int64_t projected = config_.hidden;
  std::int64_t gathered = (std::int64_t{config_.hidden} + 1) / 2;
  projected = std::max<std::int64_t>(projected, config_.per_layer_width);
  gathered = std::max<std::int64_t>(gathered, config_.per_layer_width);
  std::int64_t experts_used = 0;
  if (!mtp_.empty()) {  // MTP blocks write embeddings to Buffers::gathered
    gathered = std::max<std::int64_t>(gathered, config_.hidden);
  }
  for (const LayerConfig& layer : std::span(config_.blocks).first(blocks_.size() + mtp_.size())) {
    const FeedForwardConfig& ffn = layer.feed_forward;
    const LayerConfig::MixerWidths mixer = layer.mixer_widths(config_.hidden);
    projected = std::max({projected, mixer.projected, ffn.projected_width()});
    gathered = std::max({gathered, mixer.gathered, ffn.gathered_width()});
    gathered = std::max(gathered, (ffn.projected_width() + 1) / 2);
    experts_used = std::max<std::int64_t>(experts_used, ffn.experts.taken());
  }
  projected = std::max(projected, (gathered + 1) / 2);  // each buffer has room for half of the other's rows, see wanted_rows
  layout.projected = take_floats(tokens * projected);
  layout.gathered = take_floats(tokens * gathered);
  layout.per_layer = take_floats(tokens * config_.layers * config_.per_layer_width);
  layout.experts = take(static_cast<std::size_t>(tokens * experts_used) * sizeof(std::int32_t));
  layout.expert_weights = take_floats(tokens * experts_used);
  layout.route_state = take(plan_.route_state_bytes());
  layout.slot_order = take(plan_.slot_order_bytes());
  layout.logits = take_floats(rows * config_.vocab);
  layout.scratch = take(scratch);
  layout.sampled = take(static_cast<std::size_t>(rows) * sizeof(std::int32_t));
  layout.attention_states[0] = take(plan_.attention_state_bytes());
  layout.attention_states[1] = take(plan_.attention_state_bytes());
  layout.end = used;
  return layout;
}

StepInputs::Limits Transformer::input_limits() const {
  return {.tokens = options_.max_batch_tokens,
          .sequences = std::min(options_.max_sequences, options_.max_batch_tokens),
          .blocks = (options_.context_length + least_block_tokens - 1) / least_block_tokens,
          .groups = static_cast<std::int32_t>(kv_groups_.size()),
          .logit_rows = options_.max_logit_rows,
          .states = plan_.state_bytes() > 0};
}

std::size_t Transformer::workspace_bytes() const {
  return lay_out_workspace().end + (plan_.device().is_gpu() ? StepInputs::device_bytes(input_limits()) : 0);
}

void Transformer::forward(const BatchPlan& batch, SequenceMemory& memory) { run_step(layers_pass(), batch, memory); }

void Transformer::forward_mtp(std::int32_t block, const BatchPlan& batch, SequenceMemory& memory) {
  check(block >= 0 && block < mtp_blocks(), "the MTP block is loaded");
  check(hidden_rows_ > 0 && batch.num_tokens() == hidden_rows_, "an MTP block gets a token for each hidden row");
  const MtpBlock& own = *mtp_[static_cast<std::size_t>(block)];
  run_step({.begin = &own.begin(), .blocks = own.block(), .kept_blocks = 1, .output = &own.output()}, batch, memory);
}

void Transformer::run_step(const Pass& pass, const BatchPlan& batch, SequenceMemory& memory) {
  check(device_ != nullptr, "the model is loaded");
  check_batch(batch, memory);
  logit_rows_ = batch.num_logit_rows();
  hidden_rows_ = static_cast<std::int32_t>(batch.hidden_rows.size());
  raw_rows_ = static_cast<std::int32_t>(batch.raw_rows.size());
  if (device_->is_gpu()) {
    run_on_gpu(pass, batch, memory);
  } else {
    compute(pass, host_arrays(batch), memory);
  }
  draws_->add(buffers_.sampled, static_cast<std::int32_t>(batch.sample_rows.size()));
}

Transformer::GraphsMemory Transformer::graphs_memory(const SequenceMemory& memory) {
  GraphsMemory used{{}, memory.num_blocks(), memory.block_tokens(), memory.states().data};
  for (std::int32_t group = 0; group < memory.num_groups(); ++group) {
    used.pages.push_back(memory.pages(group).data());
  }
  return used;
}

void Transformer::run_on_gpu(const Pass& pass, const BatchPlan& batch, SequenceMemory& memory) {
  if (GraphsMemory used = graphs_memory(memory); used != graphs_memory_) {
    graphs_->clear();
    graphs_memory_ = std::move(used);
  }
  const StepGraphs::Limits limits{
      .sequences = std::min({options_.max_sequences, options_.max_batch_tokens, options_.max_logit_rows}),
      .kv_len = options_.context_length,
      .block_tokens = memory.block_tokens()};
  const bool recorded = pass.recorded && StepGraphs::serves(batch, limits);
  StepInputs::Shape shape = StepInputs::shape_of(batch);
  if (recorded) {
    shape = StepGraphs::padded(shape, limits);
  }
  Stream& stream = device_->stream();
  stream.allow_overlap(options_.overlap);
  stream.allow_merging(options_.merge_launches);
  pending_ = true;
  bool moved = false;
  // Before any launch of the step: kernels that start early rely on a copy between two steps (gpu/launch_order.h).
  const StepArrays arrays = inputs_->upload(batch, shape, moved);
  if (moved) {
    graphs_->clear();
  }
  if (recorded) {
    graphs_->run(shape, [&] { compute(pass, arrays, memory); });
  } else {
    compute(pass, arrays, memory);
  }
}

void Transformer::find_pages(const KvPlace& place, const StepArrays& arrays, SequenceMemory& memory, Step& step) {
  const KvCache& pages = memory.pages(place.group);
  const std::int64_t table = std::int64_t{arrays.batch.num_sequences} * arrays.batch.max_blocks;
  step.cache = pages.plane(place.plane);
  step.layout = pages.planes()[static_cast<std::size_t>(place.plane)];
  step.batch.block_tables = arrays.batch.block_tables + place.group * table;
}

void Transformer::compute(const Pass& pass, const StepArrays& arrays, SequenceMemory& memory, const RunOperations& run) {
  const RaggedBatch& batch = arrays.batch;
  Step step{.tokens = batch.num_tokens,
            .batch = batch,
            .any_single = arrays.any_single,
            .any_several = batch.max_q_len > 1,
            .layout = {},
            .cache = {},
            .states = memory.states(),
            .buffers = buffers_,
            .arrays = &arrays,
            .context = &context_};

  const bool wanted = arrays.num_logit_rows > 0 || arrays.num_hidden_rows > 0;
  const std::size_t blocks = wanted ? pass.blocks.size() : pass.kept_blocks;

  run(*pass.begin, step);
  for (std::size_t index = 0; index < blocks; ++index) {
    const bool last = index + 1 == blocks;
    step.results = !last || wanted;
    const Block& block = *pass.blocks[index];
    if (block.has_pages()) {
      find_pages(block.kv_place(), arrays, memory, step);
    }
    run(block.mix(), step);
    // With per-layer embeddings all rows are computed, because those embeddings are not gathered by row.
    if (last && !per_layer_ && arrays.num_hidden_rows == 0 && 2 * std::int64_t{arrays.num_logit_rows} <= step.tokens) {
      step = wanted_rows(step, *pass.output, block.mixed_width() > 0, run);
    }
    if (step.results) {
      run(block.finish(), step);
    }
  }
  if (arrays.num_hidden_rows > 0) {
    Step rows = step;
    rows.tokens = arrays.num_hidden_rows;
    run(pass.output->hidden_states(), rows);
  }
  if (arrays.num_logit_rows < step.tokens) {
    step = wanted_rows(step, *pass.output, false, run);
  }
  if (arrays.num_logit_rows == 0) {
    return;
  }
  run(pass.output->logits(), step);
  if (!arrays.raw_rows.empty()) {
    keep_raw_logits(arrays.raw_rows);
  }
  if (arrays.draw != Draw::none) {
    run(draw_, step);
  }
}

Step Transformer::wanted_rows(const Step& step, const OutputHead& output, bool mixed, const RunOperations& run) {
  Step wanted = step;
  wanted.tokens = step.arrays->num_logit_rows;
  std::swap(wanted.buffers.hidden, wanted.buffers.normed);
  if (wanted.tokens > 0) {
    run(output.pick_hidden(), wanted);
  }
  if (mixed) {  // at most half of the rows, so each buffer has room for the other's content
    std::swap(wanted.buffers.gathered, wanted.buffers.projected);
    if (wanted.tokens > 0) {
      run(output.pick_mixed(), wanted);
    }
  }
  return wanted;
}

void Transformer::keep_raw_logits(std::span<const std::int32_t> rows) {
  const std::size_t row_bytes = static_cast<std::size_t>(config_.vocab) * sizeof(float);
  if (raw_logits_.size_bytes() < rows.size() * row_bytes) {
    wait();  // an earlier copy may still write to it
    raw_logits_ = {};
    raw_logits_ = device_->allocate_pinned(rows.size() * row_bytes);
  }
  for (std::size_t i = 0; i < rows.size(); ++i) {
    std::byte* to = raw_logits_.data() + i * row_bytes;
    const float* from = buffers_.logits + std::int64_t{rows[i]} * config_.vocab;
    if (device_->is_gpu()) {
      device_->stream().copy_to_host(to, from, row_bytes);
    } else {
      std::memcpy(to, from, row_bytes);
    }
  }
}

std::span<const float> Transformer::logits() {
  return read_back(buffers_.logits, static_cast<std::size_t>(logit_rows_) * static_cast<std::size_t>(config_.vocab),
                   logits_host_);
}

std::span<const float> Transformer::raw_logits() {
  wait();
  return {raw_logits_.as<float>(), static_cast<std::size_t>(raw_rows_) * static_cast<std::size_t>(config_.vocab)};
}

std::span<const float> Transformer::hidden() {
  return read_back(buffers_.projected, static_cast<std::size_t>(hidden_rows_) * static_cast<std::size_t>(config_.hidden),
                   hidden_host_);
}

std::span<const float> Transformer::read_back(const float* from, std::size_t count, PinnedBuffer& to) {
  if (!device_->is_gpu() || count == 0) {
    return {from, count};
  }
  if (to.size_bytes() < count * sizeof(float)) {
    to = {};
    to = device_->allocate_pinned(count * sizeof(float));
  }
  device_->stream().copy_to_host(to.data(), from, count * sizeof(float));
  pending_ = true;
  wait();
  return {to.as<float>(), count};
}

void Transformer::wait() {
  if (pending_) {
    device_->stream().synchronize();
    pending_ = false;
  }
}

void Transformer::check_batch(const BatchPlan& batch, const SequenceMemory& memory) const {
  const StateView states = memory.states();
  check(batch.num_tokens() >= 1 && batch.num_tokens() <= options_.max_batch_tokens,
        "a step has 1 to max_batch_tokens tokens");
  check(batch.num_sequences() <= options_.max_sequences, "a step has at most max_sequences sequences");
  check(batch.logit_rows.size() <= static_cast<std::size_t>(options_.max_logit_rows),
        "at most max_logit_rows rows of logits");
  check(same_planes(memory.groups(), kv_groups_),
        "the cache must have the layers of the model and the layouts of its attention kernels");
  check(states.slot_stride == static_cast<std::int64_t>(state_bytes()), "the slots must be as large as the model's state");
  batch.validate(memory.num_blocks(), memory.block_tokens(), states.num_slots);
  check(std::ranges::all_of(batch.kv_lengths, [this](std::int32_t length) { return length <= options_.context_length; }),
        "a sequence is longer than the context that the model was loaded for");
  const auto is_known = [this](std::int32_t token) {
    return token < 0 ? EmbeddingRows::drawn_token(token) < draws_->newest_rows() : token < config_.vocab;
  };
  check(std::ranges::all_of(batch.tokens, is_known), "a token is outside the vocabulary or of what the last step drew");
}

void Model::forward_mtp(std::int32_t, const BatchPlan&, SequenceMemory&) { fail_check("the model has no MTP blocks"); }

std::unique_ptr<Model> Model::plan(const GgufFile& file, const KernelRegistry& registry, const DeviceInfo& device,
                                   int num_threads, const ModelOptions& options) {
  return std::make_unique<Transformer>(file, registry, device, num_threads, options);
}

std::unique_ptr<Model> Model::load(const GgufFile& file, const KernelRegistry& registry, Device& device, ThreadPool& pool,
                                   const ModelOptions& options) {
  auto model = plan(file, registry, device.info(), pool.num_threads(), options);
  model->load(device, pool);
  return model;
}

}  // namespace rocmforge
