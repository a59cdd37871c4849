#include "models/transformer.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "models/config/assistant_file.h"
#include "models/config/eagle_file.h"
#include "models/config/mtp_config.h"
#include "models/parts/assistant_blocks.h"
#include "models/parts/eagle_block.h"
#include "models/plan/part_counter.h"
#include "models/plan/planner.h"
#include "models/step/check_batch.h"
#include "weights/gguf_value.h"

namespace rocmforge {
namespace {

ModelOptions complete(ModelOptions options, const ModelConfig& config, const Stage& stage) {
  check(options.max_batch_tokens >= 1 && options.max_logit_rows >= 1 && options.max_sequences >= 1,
        "a step has at least one token, one sequence and one row of logits");
  check(options.most_rows >= 1 && options.most_rows <= 8, "steps of few rows have at most 8 of a sequence");
  if (options.context_length == 0) {
    options.context_length = config.context_length;
  }
  options.placement = options.placement.of_layers(stage.first, stage.end, stage.end == config.layers);
  return options;
}

/// What a device or a side needs for rows that others have computed.
void plan_row_buffers(BufferPlan& buffers, const ModelConfig& config, const ModelOptions& options) {
  for (const BufferName rows : {BufferName::hidden, BufferName::normed, BufferName::projected}) {
    buffers.need(rows, config.hidden);
  }
  buffers.need(BufferName::per_layer, std::int64_t{config.per_layer_width} * config.layers);
  buffers.need(BufferName::streams, config.stream_elements());
  buffers.need_rows(BufferName::sampled, options.max_logit_rows, 1);
}

}  // namespace

Transformer::Transformer(ModelConfig config, const GgufFile& file, const KernelRegistry& registry, const DeviceInfo& device,
                         int num_threads, const ModelOptions& options, const std::optional<Stage>& stage)
    : config_(std::move(config)),
      stage_(stage.value_or(Stage{0, config_.layers})),
      options_(complete(options, config_, stage_)),
      registry_(&registry),
      on_gpu_(device.is_gpu()),
      plan_{stage_.before != nullptr ? stage_.before->plan_.weights.beside() : WeightTable(file),
            BufferPlan(options_.max_batch_tokens, options_.max_logit_rows)} {
  check(options_.placement.layers.empty() || std::ssize(options_.placement.layers) == config_.layers,
        "a placement places each layer");
  check_context(file);
  Planner planner(plan_, registry, device, num_threads, options_);
  if (stage) {
    plan_stage();
  }
  if (plan_.host) {
    plan_crossings();
  }
  if (begins()) {
    plan_input(planner);
  }
  plan_blocks(planner);
  if (ends()) {
    config_.encoder.is_encoder ? plan_encoder_output(planner) : plan_output(planner);
  }
  plan_mtp(planner, file);
  plan_draft(planner);
  kv_groups_ = plan_.memory.groups();
  plan_.position_axes = config_.position_axes;
  plan_.halves_from = choose_halves_from();
}

std::int64_t Transformer::choose_halves_from() const {
  const bool any_states = plan_.memory.state_bytes(Side::device) > 0 || plan_.states_elsewhere;
  // A draft's features are rows of all its layers, of another width than other buffers' for each token.
  if (options_.communicator == nullptr || any_states || options_.eagle != nullptr || config_.encoder.is_encoder) {
    return 0;
  }
  const std::int64_t rows =
      options_.halves_from > 0 ? options_.halves_from : options_.communicator->halves_from(config_.hidden);
  return rows <= options_.max_batch_tokens ? rows : 0;
}

void Transformer::check_context(const GgufFile& file) const {
  if (config_.learned_positions && options_.context_length > config_.context_length) {
    throw Error(fmt::format("{}: a context of {} positions, but the model has learned {} and knows no others",
                            file.path().string(), options_.context_length, config_.context_length));
  }
  if (config_.most_positions > 0 && options_.context_length > config_.most_positions) {
    throw Error(
        fmt::format("{}: a context of {} positions, of which {} would choose those that a token sees: at most {} "
                    "positions are supported",
                    file.path().string(), options_.context_length, config_.architecture, config_.most_positions));
  }
}

void Transformer::plan_input(Planner& planner) {
  planner.use(options_.placement.embedding);
  const PartCounter counter(plan_);
  input_.emplace(planner, config_, options_);
  parts_.embedding = counter.counted().own;
}

void Transformer::plan_stage() {
  check(!config_.encoder.is_encoder, "an encoder is on one device");
  check(stage_.first >= 0 && stage_.first < stage_.end && stage_.end <= config_.layers, "a stage has layers of the model");
  plan_row_buffers(plan_.buffers, config_, options_);
  plan_.buffers.need(BufferName::features, feature_elements(config_.layers));
  for (int index = 0; index < config_.layers + (options_.load_mtp ? config_.mtp_blocks : 0); ++index) {
    const LayerConfig& layer = config_.layer(index);
    plan_.states_elsewhere = plan_.states_elsewhere || (layer.has_mixer() && layer.mixer != MixerKind::attention);
    if (layer.attends() && layer.attention.has_keys()) {
      plan_.memory.add_group(cache_window(layer.attention.window, options_.context_length));
    }
  }
}

void Transformer::plan_crossings() {
  crossing_.emplace(config_.hidden, per_layer_elements(), config_.stream_elements());
  for (const Side side : {Side::device, Side::host}) {
    plan_row_buffers(plan_.buffers_of(side), config_, options_);
  }
}

void Transformer::plan_blocks(Planner& planner) {
  blocks_.resize(static_cast<std::size_t>(stage_.first));
  parts_.layers.resize(static_cast<std::size_t>(stage_.first));
  for (int index = stage_.first; index < stage_.end; ++index) {
    planner.place_layer(options_.placement.layer(index));
    const PartCounter counter(plan_);
    blocks_.push_back(std::make_unique<Block>(planner, config_, index, blocks_));
    parts_.layers.push_back(counter.counted(config_, index, *blocks_.back()));
    if (index > stage_.first && blocks_[blocks_.size() - 2]->side() == blocks_.back()->side()) {
      blocks_.back()->join(planner, *blocks_[blocks_.size() - 2]);
    }
  }
  parts_.layers.resize(static_cast<std::size_t>(config_.layers));
  kept_blocks_ = static_cast<std::size_t>(stage_.end - stage_.first);
  while (kept_blocks_ > 1 && !blocks_[static_cast<std::size_t>(stage_.first) + kept_blocks_ - 1]->keeps()) {
    --kept_blocks_;
  }
}

void Transformer::plan_encoder_output(Planner& planner) {
  planner.place_layer({.side = options_.placement.output});
  const PartCounter counter(plan_);
  encoder_output_.emplace(planner, config_);
  parts_.output = counter.counted().own;
}

void Transformer::plan_output(Planner& planner) {
  planner.place_layer({.side = options_.placement.output});
  const PartCounter counter(plan_);
  const bool tied = !planner.weights().has_tensor("output.weight");
  const NormName norm{config_.output_norm, config_.norm_kind, config_.norm_eps, config_.norm_needs_bias};
  output_.emplace(planner, config_,
                  OutputHead::Names{.norm = norm, .operation = "output", .head = tied ? "token_embd" : "output"},
                  blocks_.back()->mixed_width());
  draw_.emplace(planner, config_.vocab, options_.communicator);
  parts_.output = counter.counted().own;
}

void Transformer::plan_mtp(Planner& planner, const GgufFile& file) {
  if (options_.load_mtp && config_.mtp_blocks == 0) {
    throw Error(fmt::format("{}: has no MTP blocks: key '{}.nextn_predict_layers' is missing or 0", file.path().string(),
                            config_.architecture));
  }
  if (options_.load_mtp && !config_.mtp_supported) {
    throw Error(
        fmt::format("{}: MTP blocks of architecture {} are not supported", file.path().string(), config_.architecture));
  }
  layer_operations_ = plan_.report.operations().size();
  if (!ends()) {
    return;
  }
  if (!options_.load_mtp) {
    for (const GgufTensor& tensor : file.tensors()) {
      if (is_of_mtp(tensor.name, config_)) {
        plan_.weights.pass_over(tensor.name);
      }
    }
    return;
  }
  plan_.report.leave_decode_steps();
  EmbeddingTable* const embedding = mtp_embedding(planner);
  for (int index = config_.layers; index < config_.layers + config_.mtp_blocks; ++index) {
    mtp_.push_back(
        std::make_unique<MtpBlock>(planner, config_, index, MtpBlock::Shared{embedding, &output_->layers(), blocks_}));
  }
}

void Transformer::plan_draft(Planner& planner) {
  const bool has_eagle = options_.eagle != nullptr;
  if (!has_eagle && options_.assistant == nullptr) {
    return;
  }
  check(!options_.load_mtp && !(has_eagle && options_.assistant != nullptr), "one draft and MTP blocks do not draft both");
  const GgufFile& file = has_eagle ? options_.eagle->file : options_.assistant->file;
  if (options_.placement.split() || config_.encoder.is_encoder) {
    throw Error(fmt::format(
        "{}: {} {}", file.path().string(), has_eagle ? "an EAGLE3 draft" : "an assistant",
        config_.encoder.is_encoder ? "continues no encoder" : "needs a model of which no part is on the CPU beside a GPU"));
  }
  if (!ends()) {
    return;
  }
  plan_.report.leave_decode_steps();
  if (!has_eagle) {
    plan_assistant(planner, *options_.assistant);
    return;
  }
  const EmbeddingTable* const of_model = options_.eagle->own_embedding ? nullptr : mtp_embedding(planner);
  plan_.draft.emplace(file);
  draft_ = std::make_unique<EagleBlock>(planner, *plan_.draft, *options_.eagle, of_model, options_.communicator);
}

void Transformer::plan_assistant(Planner& planner, const AssistantFile& assistant) {
  for (const LayerConfig& layer : assistant.config.blocks) {
    if (blocks_[static_cast<std::size_t>(layer.attention.keys_of)] == nullptr) {
      throw Error(fmt::format("{}: an assistant reads the keys of layer {}, which must be on the last device",
                              assistant.file.path().string(), layer.attention.keys_of));
    }
  }
  const AssistantBlocks::OfModel model{mtp_embedding(planner), config_.embedding_scale, blocks_};
  plan_.draft.emplace(assistant.file);
  draft_ = std::make_unique<AssistantBlocks>(planner, *plan_.draft, assistant, model, options_.communicator);
}

EmbeddingTable* Transformer::mtp_embedding(Planner& planner) {
  if (input_ && options_.placement.embedding == options_.placement.output) {
    return input_->table();
  }
  return planner.embedding("token_embd.weight", config_.vocab, config_.hidden);
}

void Transformer::load(const Devices& devices, ThreadPool& pool) {
  check(!rank_, "a model is loaded once");
  const double host = static_cast<double>(host_weight_bytes());
  const double share = host / (host + static_cast<double>(std::max<std::size_t>(packed_bytes(), 1)));
  const auto progress = [this](double from, double to) -> Rank::Progress {
    return !options_.progress ? Rank::Progress()
                              : [this, from, to](double done) { options_.progress(from + done * (to - from)); };
  };
  if (plan_.host) {
    host_rank_.emplace(plan_, options_, devices, Side::host, pool, progress(0.0, share));
  }
  plan_.halves_from = choose_halves_from();
  rank_.emplace(plan_, options_, devices, Side::device, pool, progress(share, 1.0));
  if (is_first_rank(options_.communicator) && ends()) {  // once for all ranks and stages
    plan_.weights.warn_of_unused();
    if (plan_.draft) {
      plan_.draft->warn_of_unused();
    }
  }
}

bool Transformer::takes_adapter(std::string_view base) const {
  return LoraAdapter::finds(base, plan_.weights) || (plan_.host && LoraAdapter::finds(base, plan_.host->weights));
}

void check_adapter(const LoraFile& file, const ModelConfig& config, const std::function<bool(std::string_view)>& takes) {
  const std::string path = file.file().path().string();
  if (const std::string own = file.file().string("general.architecture", ""); own != config.architecture) {
    throw Error(fmt::format("{}: an adapter for {} models, the model is {}", path, quote(own), quote(config.architecture)));
  }
  for (const std::int32_t token : file.invocation_tokens()) {
    if (token >= config.vocab) {
      throw Error(fmt::format("{}: key 'adapter.alora.invocation_tokens' has token {}, the model has {}", path, token,
                              config.vocab));
    }
  }
  for (const auto& [base, pair] : file.pairs()) {
    if (!takes(base)) {
      throw Error(
          fmt::format("{}: the model has no product with {} that takes an adapter", file.place(*pair.a), quote(base)));
    }
  }
}

void Transformer::load_adapter(std::int32_t id, std::shared_ptr<const LoraFile> file) {
  check(rank_.has_value(), "the model is loaded");
  if (begins() && ends()) {
    check_adapter(*file, config_, [this](std::string_view base) { return takes_adapter(base); });
  }
  const std::int64_t rows = std::max(options_.max_batch_tokens, options_.max_logit_rows);
  const auto load_to = [&](Rank& rank, Side side) {
    rank.adapters().load(id, file, plan_.weights_of(side),
                         {registry_, &rank.device().info(), &rank.device(), rank.context().pool, rows});
  };
  try {
    load_to(*rank_, Side::device);
    if (host_rank_) {
      load_to(*host_rank_, Side::host);
    }
  } catch (...) {
    unload_adapter(id);
    throw;
  }
}

void Transformer::unload_adapter(std::int32_t id) {
  wait();
  rank_->adapters().unload(id);
  if (host_rank_) {
    host_rank_->adapters().unload(id);
  }
}

Pass Transformer::layers_pass() const {
  // With per-layer embeddings all rows are computed, because those embeddings are not gathered by row.
  return {.begin = input_ ? &input_->operations() : nullptr,
          .blocks = std::span(blocks_).subspan(static_cast<std::size_t>(stage_.first)),
          .kept_blocks = kept_blocks_,
          .states = encoder_output_ ? &encoder_output_->operations()
                    : output_       ? &output_->hidden_states()
                                    : nullptr,
          .output = output_ ? &*output_ : nullptr,
          .draw = draw_ ? &draw_->operations() : nullptr,
          .gathers = output_.has_value() && config_.per_layer_width == 0,
          .begin_side = options_.placement.embedding,
          .output_side = options_.placement.output,
          .halves_from = plan_.halves_from,
          .hands_on = !ends(),
          .crossing = crossing_ ? &*crossing_ : nullptr};
}

void Transformer::forward(const BatchPlan& batch, SequenceMemory& memory) {
  if (links_.rows_in != nullptr) {
    check(rank_.has_value(), "the model is loaded");
    const auto [hidden, per_layer, streams, features] = handed(batch.num_tokens(), stage_.first);
    links_.rows_in->receive({hidden, per_layer, streams, features});
  }
  computed_ = &config_;
  step_tokens_ = batch.num_tokens();
  draft_drew_ = false;
  run_step(layers_pass(), batch, memory, options_.graphs);
  if (ends()) {
    keep_draws(batch);
  } else if (links_.rows_out != nullptr) {
    const auto [hidden, per_layer, streams, features] = handed(batch.num_tokens(), stage_.end);
    links_.rows_out->send({hidden, per_layer, streams, features});
  }
}

std::size_t Transformer::handed_bytes() const {
  const std::int64_t row =
      config_.hidden + per_layer_elements() + config_.stream_elements() + feature_elements(config_.layers);
  return static_cast<std::size_t>(options_.max_batch_tokens * row) * sizeof(float);
}

std::size_t Transformer::drawn_bytes() const {
  return static_cast<std::size_t>(options_.max_logit_rows) * sizeof(std::int32_t);
}

std::int64_t Transformer::feature_elements(std::int32_t layers) const {
  if (options_.eagle == nullptr || options_.eagle->target_layers.front() > layers) {
    return 0;
  }
  return std::int64_t{config_.hidden} * std::ssize(options_.eagle->target_layers);
}

std::array<StepLink::Part, 4> Transformer::handed(std::int64_t tokens, std::int32_t layers) {
  const auto bytes = [tokens](std::int64_t width) { return static_cast<std::size_t>(tokens * width) * sizeof(float); };
  const Buffers& buffers = rank_->buffers();
  return {StepLink::Part{buffers.hidden, bytes(config_.hidden)},
          {buffers.per_layer, bytes(per_layer_elements())},
          {buffers.streams, bytes(config_.stream_elements())},
          {buffers.features, bytes(feature_elements(layers))}};
}

void Transformer::keep_draws(const BatchPlan& batch) {
  output_rank().keep_draws(batch);
  if (links_.drawn_out != nullptr && !batch.sample_rows.empty()) {
    links_.drawn_out->send({{rank_->buffers().sampled, drawn_bytes()}});
  }
}

Pass Transformer::mtp_pass(std::size_t block) const {
  const MtpBlock& own = *mtp_[block];
  Pass pass = layers_pass();
  pass.begin = &own.begin();
  pass.blocks = own.block();
  pass.kept_blocks = 1;
  pass.states = &own.output().hidden_states();
  pass.output = &own.output();
  pass.begin_side = options_.placement.output;
  pass.hands_on = false;
  pass.halves_from = 0;
  return pass;
}

Pass Transformer::draft_pass(bool goes_on) const {
  return {.begin = goes_on ? &draft_->go_on() : &draft_->begin(),
          .blocks = draft_->blocks(),
          .kept_blocks = draft_->kept_blocks(),
          .states = &draft_->states(),
          .output = &draft_->output(),
          .draw = &draft_->draw().operations()};
}

void Transformer::forward_mtp(std::int32_t block, const BatchPlan& batch, SequenceMemory& memory) {
  check(block >= 0 && block < mtp_blocks(), "the MTP block is loaded");
  check(results_.hidden_rows() > 0 && batch.num_tokens() == results_.hidden_rows(),
        "an MTP block gets a token for each hidden row");
  const bool goes_on = computed_ != &config_;
  check(options_.eagle == nullptr || goes_on || batch.num_tokens() == step_tokens_,
        "an EAGLE3 draft gets all rows of a step");
  computed_ = options_.eagle != nullptr ? &draft_->config() : &config_;  // an assistant has the model's rows
  run_step(draft_ != nullptr ? draft_pass(goes_on) : mtp_pass(static_cast<std::size_t>(block)), batch, memory, false);
  if (!batch.sample_rows.empty()) {  // a pass of K and V alone may be between two steps, of which both draws are wanted
    keep_draws(batch);
    draft_drew_ = draft_ != nullptr;
  }
}

void Transformer::run_step(const Pass& pass, const BatchPlan& batch, SequenceMemory& memory, bool recorded) {
  check(rank_.has_value(), "the model is loaded");
  // Of another stage's draws this one does not know the number.
  const bool draws = begins() && ends();
  const std::int32_t drawn_rows = draws ? output_rank().draws().newest_rows() : options_.max_logit_rows;
  check_batch(batch, memory, {config_, options_, kv_groups_, state_bytes(), host_state_bytes(), drawn_rows});
  results_.begin(batch);
  if (is_first_rank(options_.communicator) && ends()) {
    results_.reserve_raw_logits(batch.raw_rows.size(), config_.vocab, *rank_);
  }
  std::optional<StepArrays> host;
  if (host_rank_) {
    rank_->wait();  // the device may still read what the host is about to write
  }
  if (begins() && std::ranges::any_of(batch.tokens, [](std::int32_t token) { return token < 0; })) {
    share_draws();
  }
  if (host_rank_) {
    host = host_arrays(batch);
    host->given.data = batch.given.on_host;
  }
  const auto how = !recorded ? Rank::Recorded::no : host ? Rank::Recorded::cut : Rank::Recorded::whole;
  rank_->run(batch, memory, how, [&](const StepArrays& arrays, const RunOperations& run) {
    if (options_.communicator != nullptr) {
      options_.communicator->begin_work();
    }
    compute(pass, arrays, host ? &*host : nullptr, cut(pass, batch), memory, run);
  });
}

StepHalves* Transformer::cut(const Pass& pass, const BatchPlan& batch) {
  halves_.row = pass.halves_from > 0 && batch.num_tokens() >= pass.halves_from ? cut_row(batch) : 0;
  if (halves_.row == 0) {
    return nullptr;
  }
  take_rows(batch, 0, halves_.row, halves_.plans[0]);
  take_rows(batch, halves_.row, batch.num_tokens(), halves_.plans[1]);
  for (std::size_t half = 0; half < halves_.plans.size(); ++half) {
    halves_.arrays[half] = rank_->arrays_of_half(half, halves_.plans[half]);
  }
  return &halves_;
}

void Transformer::compute(const Pass& pass, const StepArrays& arrays, const StepArrays* host, const StepHalves* halves,
                          SequenceMemory& memory, const RunOperations& run) {
  SideSteps steps{begin_step(arrays, memory.states(), *rank_)};
  if (halves != nullptr) {
    steps.halves.emplace();
    for (std::size_t half = 0; half < halves->arrays.size(); ++half) {
      Step& step = (*steps.halves)[half];
      step = begin_step(halves->arrays[half], memory.states(), *rank_);
      step.half = half;
      step.buffers = plan_.buffers.behind(step.buffers, half == 0 ? 0 : halves->row);
    }
  }
  HostStep beside;
  if (host != nullptr) {
    steps.host = begin_step(*host, memory.states(Side::host), *host_rank_);
    beside = {.tokens = steps.host->tokens,
              .buffers = host_rank_->buffers(),
              .context = &host_rank_->context(),
              .sent = rank_->sent(),
              .adapters = steps.host->adapters};
    steps.device.host = &beside;
  }
  const auto keep_raw_logits = [this](std::span<const std::int32_t> rows) {
    if (is_first_rank(options_.communicator)) {  // which has the logits
      results_.keep_raw_logits(rows, config_.vocab, output_rank());
    }
  };
  run_pass(pass, steps, memory, keep_raw_logits, run);
}

void Transformer::share_draws() {
  if (links_.drawn_in != nullptr) {
    links_.drawn_in->receive({{rank_->buffers().sampled, drawn_bytes()}});
    return;
  }
  if (links_.last == nullptr && options_.placement.embedding == options_.placement.output) {
    return;
  }
  Rank& reader = options_.placement.embedding == Side::host ? *host_rank_ : *rank_;
  const std::span<const std::int32_t> drawn =
      links_.last != nullptr ? links_.last->sampled() : output_rank().draws().newest();
  reader.device().upload(reader.buffers().sampled, drawn.data(), drawn.size_bytes());
}

void Transformer::wait() {
  if (rank_) {
    rank_->wait();
  }
}

std::span<const float> Transformer::logits() { return results_.logits(*computed_, output_rank()); }

std::span<const std::int32_t> Transformer::sampled() {
  const std::span<const std::int32_t> drawn = output_rank().draws().newest();
  return draft_drew_ ? draft_->model_tokens(drawn) : drawn;
}

std::span<const float> Transformer::raw_logits() {
  wait();
  return results_.raw_logits(config_);
}

std::span<const float> Transformer::hidden() { return results_.hidden(*computed_, output_rank()); }

}  // namespace rocmforge
