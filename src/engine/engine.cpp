#include "engine/engine.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <iterator>
#include <memory>
#include <new>
#include <optional>
#include <span>
#include <utility>

#include "base/error.h"
#include "engine/engine_state.h"

namespace rocmforge {

namespace {

SchedulerLimits scheduler_limits(const EngineParts& parts, const EngineOptions& options) {
  const ModelConfig& config = parts.model->config();
  return {.max_batch_tokens = step_tokens(options, config),
          .max_sequences = options.max_sequences,
          .context_length = context_length(options, config),
          .max_prefill_tokens = options.max_prefill_tokens,
          .max_waiting = options.max_waiting,
          .max_logit_rows = max_logit_rows(options),
          .whole_prompts = config.encoder.is_encoder};
}

/// Whether computed prefixes are kept for later requests.
bool keeps_prefixes(const EngineParts& parts, const EngineOptions& options) {
  return options.prefix_cache && !parts.model->config().encoder.is_encoder;
}

std::optional<PromptCacheMemory> host_memory_of(const EngineParts& parts, const EngineOptions& options) {
  if (options.cache_ram_bytes <= 0 || !keeps_prefixes(parts, options) ||
      !host_copies_refusal(*parts.memory, options.cache_ram_bytes).empty()) {
    return std::nullopt;
  }
  return std::optional<PromptCacheMemory>(std::in_place, *parts.memory, options.cache_ram_bytes);
}

SequenceCache::Size cache_size(const EngineParts& parts, const EngineOptions& options, std::vector<HostBlockSource*> host) {
  const SequenceMemory& memory = *parts.memory;

  SequenceCache::Size size{.blocks = memory.pages().num_blocks(),
                           .block_tokens = memory.block_tokens(),
                           .prefixes = keeps_prefixes(parts, options),
                           .slots = memory.states().num_slots,
                           .host = std::move(host)};
  for (std::int32_t group = 1; group < memory.num_groups(); ++group) {
    const std::int32_t window = memory.groups()[static_cast<std::size_t>(group)].window;
    size.windows.push_back({.window = window, .blocks = memory.pages(group).num_blocks()});
  }
  return size;
}

PieceKey identity_of_model(const EngineParts& parts) {
  std::vector<const GgufFile*> files;
  const GgufFile* const draft = parts.eagle != nullptr ? &parts.eagle->file : nullptr;  // its K and V are in the blocks
  for (const GgufFile* file : {parts.file.get(), parts.mmproj_file.get(), draft}) {
    if (file != nullptr) {
      files.push_back(file);
    }
  }
  const std::string control = parts.control != nullptr ? ", control vectors " + parts.control->fingerprint() : "";
  return identity_of(files, fmt::format("{} ranks{}", parts.model->ranks(), control), *parts.memory);
}

/// Whether MTP blocks of the model, or a draft of another file in their place, draft.
bool uses_mtp(const EngineParts& parts, const EngineOptions& options) {
  return options.drafts.mtp == MtpUse::on && options.drafts.most > 0 && parts.model->mtp_blocks() > 0;
}

std::optional<MtpDrafts> mtp_drafts(const EngineParts& parts, const EngineOptions& options) {
  return uses_mtp(parts, options)
             ? std::optional<MtpDrafts>(std::in_place, *parts.model, *parts.memory, parts.assistant == nullptr)
             : std::nullopt;
}

/// Why the images and recordings of a request can't be encoded; "" if they can.
std::string input_refusal(const Request& request, const EngineParts& parts) {
  if (request.spans.size() != request.inputs.size()) {
    return fmt::format("the prompt has places for {} images and pieces of recordings, {} came with it", request.spans.size(),
                       request.inputs.size());
  }
  for (std::size_t i = 0; i < request.spans.size(); ++i) {
    const EncoderInput& input = request.inputs[i];
    if (tokens_of(input) == 0 || tokens_of(input) != request.spans[i].count) {
      return fmt::format("image or piece {} has other tokens than the prompt has for it", i);
    }
    const bool is_sound = std::holds_alternative<std::shared_ptr<const PreparedSound>>(input);
    if (is_sound && parts.audio == nullptr) {
      return "the model hears no recordings: it was loaded without an audio encoder (mmproj)";
    }
    if (!is_sound && parts.vision == nullptr) {
      return "the model sees no images: it was loaded without an image encoder (mmproj)";
    }
  }
  return {};
}

}  // namespace

Engine::State::State(EngineParts engine_parts, const EngineOptions& options)
    : parts(std::move(engine_parts)),
      host_memory(host_memory_of(parts, options)),
      cache(cache_size(parts, options, host_memory ? host_memory->sources() : std::vector<HostBlockSource*>())),
      scheduler(scheduler_limits(parts, options), cache),
      runner(*parts.model, *parts.memory, parts.vision.get(), parts.audio.get(), uses_mtp(parts, options)),
      adapters(*parts.model),
      drafts(options.drafts, parts.model->config().vocab, std::move(parts.draft_model), mtp_drafts(parts, options)),
      recovery(static_cast<std::size_t>(scheduler.limits().max_sequences)),
      logprobs(static_cast<std::size_t>(scheduler.limits().max_logit_rows)),
      max_prefill_tokens(options.max_prefill_tokens),
      max_prefill_seconds(options.max_prefill_seconds),
      step_seconds(options.step_seconds) {
  scored.reserve(logprobs.size());
  if (host_memory && (options.slots || !options.cache_disk.empty())) {
    const PieceKey identity = identity_of_model(parts);
    if (options.slots) {
      slots.emplace(options.max_sequences, identity, adapters, *parts.memory, cache);
    }
    if (!options.cache_disk.empty()) {
      disk.emplace(std::make_unique<PromptFiles>(options.cache_disk, options.cache_disk_bytes), identity, *parts.memory,
                   cache);
      salt_secret = salt_secret_of(options.cache_disk);
    }
  }
}

RequestRefusal Engine::State::refusal(const Request& request, int count) const {
  const auto invalid = [](std::string reason) { return RequestRefusal{RequestError::invalid, std::move(reason)}; };
  const ModelConfig& config = parts.model->config();
  if (config.encoder.is_encoder && !request.embedding) {
    return invalid(fmt::format("the model ({}) is an encoder: it gives embeddings or scores, no text", config.architecture));
  }
  const std::int32_t vocab = config.vocab;
  const auto outside = [vocab](std::int32_t token) { return token < 0 || token >= vocab; };
  if (const auto token = std::ranges::find_if(request.prompt, outside); token != request.prompt.end()) {
    return invalid(fmt::format("the prompt's token {} is {}, the vocabulary has {} tokens", token - request.prompt.begin(),
                               *token, vocab));
  }
  if (const auto token = std::ranges::find_if(request.logprobs_of, outside); token != request.logprobs_of.end()) {
    return invalid(fmt::format("logprobs_of names token {}, the vocabulary has {} tokens", *token, vocab));
  }
  for (const auto& [token, bias] : request.sampling.logit_bias) {
    if (outside(token)) {
      return invalid(fmt::format("logit_bias names token {}, the vocabulary has {} tokens", token, vocab));
    }
  }
  if (const auto token = std::ranges::find_if(request.stop_tokens, outside); token != request.stop_tokens.end()) {
    return invalid(fmt::format("stop_tokens names token {}, the vocabulary has {} tokens", *token, vocab));
  }
  for (const std::vector<std::int32_t>& word : request.sampling.bad_words) {
    if (const auto token = std::ranges::find_if(word, outside); token != word.end()) {
      return invalid(fmt::format("bad_words names token {}, the vocabulary has {} tokens", *token, vocab));
    }
  }
  if (std::string reason = input_refusal(request, parts); !reason.empty()) {
    return invalid(std::move(reason));
  }
  if (std::string reason = adapters.refusal(request); !reason.empty()) {
    return invalid(std::move(reason));
  }
  if (std::ranges::any_of(request.stop, &std::string::empty)) {
    return invalid("a stop string is empty");
  }
  return scheduler.refusal(request, count);
}

void Engine::State::end(RequestId id, FinishReason reason) {
  const auto found = requests.find(id);
  if (found == requests.end()) {
    return;
  }
  StepOutput& output = ready.emplace_back();
  output.id = id;
  try {
    output.text = found->second.answer.finish();
  } catch (const std::bad_alloc&) {  // the text that was held back is lost
  }
  finish(found->second, reason, output);
}

void Engine::State::finish(Running& running, FinishReason reason, StepOutput& output) {
  if (disk) {
    disk->keep(running);
  }
  scheduler.finish(running, reason);
  if (slots) {
    slots->keep(running);
  }
  output.finish = reason;
  output.stats = running.stats();
  forget(running);
}

void Engine::State::forget(Running& running) {
  for (std::vector<ScheduledChunk>* chunks : {&step, &ahead}) {
    for (ScheduledChunk& chunk : *chunks) {
      chunk.sequence = chunk.sequence == &running ? nullptr : chunk.sequence;
    }
  }
  if (disk) {
    disk->forget(running.id);
  }
  std::replace(drawn.begin(), drawn.end(), &running, static_cast<Running*>(nullptr));
  forget_deadline(running);
  const RequestId id = running.id;
  requests.erase(id);
}

void Engine::State::expire() {
  const auto now = std::chrono::steady_clock::now();
  while (!deadlines.empty() && deadlines.begin()->first < now) {
    end(deadlines.begin()->second, FinishReason::timeout);  // also removes it from `deadlines`
  }
}

void Engine::State::forget_deadline(Running& running) {
  if (running.request.deadline) {
    deadlines.erase({*running.request.deadline, running.id});
    running.request.deadline.reset();
  }
}

SequenceStatus Engine::State::describe(const Sequence& sequence) const {
  SequenceStatus status;
  status.id = sequence.id;
  status.phase = sequence.phase;
  status.priority = sequence.request.priority;
  status.prompt_tokens = sequence.prompt_tokens;
  status.cached_tokens = sequence.prefix_hits;
  status.computed_tokens = sequence.cache.computed_tokens;
  status.generated_tokens = sequence.generated();
  status.kv_blocks = static_cast<std::int32_t>(sequence.cache.pages.blocks().size());
  status.age_seconds = Running::of(sequence).answer.age_seconds();
  return status;
}

Engine::Engine(std::unique_ptr<State> state) : state_(std::move(state)) {}
Engine::~Engine() = default;

void Engine::watch_steps(std::function<void(const std::string& line)> on_timeout) {
  State& state = *state_;
  if (state.step_seconds && *state.step_seconds <= 0.0) {
    return;
  }
  const ModelConfig& config = state.parts.model->config();
  const bool on_gpu = state.parts.device->is_gpu() && state.parts.host == nullptr;  // as a whole
  state.model_work = {.parameters = static_cast<double>(num_parameters()),
                      .width = static_cast<double>(config.layers) * static_cast<double>(config.hidden),
                      .bytes_to_read = on_gpu ? 0.0 : static_cast<double>(file_bytes()),
                      .on_gpu = on_gpu};
  state.drafts.watch_steps(on_timeout);
  state.watch = std::make_unique<StepWatch>(std::move(on_timeout));
}

std::unique_ptr<Engine> make_engine(EngineParts parts, const EngineOptions& options) {
  check(parts.device != nullptr && parts.model != nullptr && parts.memory != nullptr && parts.pool != nullptr,
        "an engine needs device, model, memory and threads");
  return std::unique_ptr<Engine>(new Engine(std::make_unique<Engine::State>(std::move(parts), options)));
}

RequestId Engine::submit(Request request) { return submit(std::move(request), 1).front(); }

std::vector<RequestId> Engine::submit(Request request, int count) {
  check(count >= 1, "a request has at least one answer");
  State& state = *state_;
  std::vector<RequestId> ids(static_cast<std::size_t>(count));
  std::ranges::generate(ids, [&] { return ++state.last_id; });
  state.make_room_for(ids.size());
  const RequestRefusal refusal = state.refusal(request, count);
  refusal ? state.refuse(request, ids, refusal) : state.take(request, ids);
  return ids;
}

void Engine::State::make_room_for(std::size_t count) {
  const std::size_t most = ready.size() + requests.size() + count;
  for (std::vector<StepOutput>* outputs : {&ready, &given}) {
    if (outputs->capacity() < most) {
      outputs->reserve(2 * most);
    }
  }
}

void Engine::State::refuse(const Request& request, std::span<const RequestId> ids, const RequestRefusal& refusal) {
  std::vector<StepOutput> outputs;
  for (const RequestId id : ids) {
    StepOutput& output = outputs.emplace_back();
    output.id = id;
    output.text = refusal.message;
    output.finish = FinishReason::error;
    output.error = refusal.error;
    output.stats = RequestStats{.prompt_tokens = static_cast<std::int32_t>(request.prompt.size())};
  }
  std::ranges::move(outputs, std::back_inserter(ready));
}

void Engine::State::take(const Request& request, std::span<const RequestId> ids) {
  try {
    add(request, ids);
  } catch (const std::bad_alloc&) {
    for (const RequestId id : ids) {
      if (const auto found = requests.find(id); found != requests.end()) {
        if (found->second.arrival > 0) {
          scheduler.finish(found->second, FinishReason::error);
        }
        forget(found->second);
      }
    }
    throw;
  }
}

void Engine::State::add(const Request& request, std::span<const RequestId> ids) {
  Running* leader = nullptr;
  for (const RequestId id : ids) {
    Request choice = request;
    adapters.choose(choice);
    if (leader != nullptr) {
      choice.prompt_logprobs = -1;
    }
    if (choice.sampling.seed) {
      *choice.sampling.seed += id - ids.front();
    }
    Running& running = requests.try_emplace(id, id, std::move(choice), cache, parts.tokenizer).first->second;
    if (running.request.deadline) {
      deadlines.emplace(*running.request.deadline, id);
    }
    if (disk && leader == nullptr && !running.wants_prompt_rows()) {
      running.awaits_files = disk->load(running);
    }
    scheduler.submit(running, leader);
    leader = leader != nullptr ? leader : &running;
  }
}

void Engine::State::free_adapters() {
  if (adapters.has_unloaded()) {
    adapters.free_unloaded([this](std::int32_t id) {
      return std::ranges::any_of(requests, [id](const auto& entry) {
        return std::ranges::any_of(entry.second.adapters, [id](const AdapterUse& use) { return use.adapter == id; });
      });
    });
  }
}

const std::vector<LoadedAdapter>& Engine::adapters() const { return state_->adapters.list(); }

std::int32_t Engine::load_adapter(const AdapterOptions& options) { return state_->adapters.load(options).id; }

bool Engine::unload_adapter(std::int32_t id) {
  const bool known = state_->adapters.unload(id);
  state_->free_adapters();
  return known;
}

bool Engine::set_adapter_scales(std::span<const AdapterScale> scales) { return state_->adapters.set_scales(scales); }

bool Engine::is_open(RequestId id) const { return state_->requests.contains(id); }

void Engine::cancel(RequestId id) { state_->end(id, FinishReason::cancelled); }

bool Engine::has_work() const { return !state_->ready.empty() || state_->scheduler.has_work(); }

EngineStatus Engine::status() const {
  const State& state = *state_;
  EngineStatus status;
  status.waiting = state.scheduler.num_waiting();
  status.running = state.scheduler.num_running();
  status.kv_blocks = state.cache.blocks().num_blocks();
  status.free_blocks = state.cache.blocks().num_free();
  const PrefixCache* prefixes = state.cache.prefixes();
  if (prefixes != nullptr) {
    status.prefix_blocks = prefixes->num_blocks();
    status.evictable_blocks = prefixes->num_evictable();
    status.kept_states = prefixes->num_states();
    status.evictable_states = prefixes->num_evictable_states();
    status.host_blocks = prefixes->num_on_host();
  }
  const std::span<const HostCopies> copies = std::as_const(*state.parts.memory).host_copies();
  for (std::size_t kind = 0; kind < copies.size(); ++kind) {
    status.host_bytes += prefixes->num_on_host(kind) * static_cast<std::int64_t>(copies[kind].block_bytes());
    status.max_host_bytes += static_cast<std::int64_t>(copies[kind].max_bytes());
  }
  if (state.disk) {
    status.disk_bytes = state.disk->files().bytes();
    status.max_disk_bytes = state.disk->files().max_bytes();
    status.disk_loads = state.disk->loaded_tokens();
  }
  if (const BlockAllocator* slots = state.cache.slots(); slots != nullptr) {
    status.state_slots = slots->num_blocks();
    status.free_slots = slots->num_free();
  }
  const std::span<const WindowGroup> windows = state.cache.windows();
  for (std::size_t i = 0; i < windows.size(); ++i) {
    status.window_blocks += windows[i].allocator->num_blocks();
    status.free_window_blocks += windows[i].allocator->num_free();
    status.evictable_window_blocks += prefixes != nullptr ? prefixes->num_evictable(i) : 0;
  }
  status.step_tokens = state.step_tokens;
  status.step_sequences = state.step_sequences;
  status.preemptions = state.scheduler.num_preemptions();
  status.steps = state.steps;
  status.prefix_queries = state.scheduler.prefix_queries();
  status.prefix_hits = state.scheduler.prefix_hits();
  status.host_hits = state.scheduler.host_hits();
  status.drafts = state.drafts.num_drafts();
  status.drafted_tokens = state.drafts.drafted_tokens();
  status.accepted_tokens = state.drafts.accepted_tokens();
  return status;
}

std::vector<SequenceStatus> Engine::sequences() const {
  std::vector<SequenceStatus> sequences;
  for (const Sequence* sequence : state_->scheduler.running()) {
    sequences.push_back(state_->describe(*sequence));
  }
  for (const Sequence* sequence : state_->scheduler.waiting()) {
    sequences.push_back(state_->describe(*sequence));
  }
  return sequences;
}

EngineSlots* Engine::slots() {
  state_->copy();
  return state_->slots ? &*state_->slots : nullptr;
}

const VisionModel* Engine::vision() const { return state_->parts.vision.get(); }
const AudioModel* Engine::audio() const { return state_->parts.audio.get(); }
const Model& Engine::model() const { return *state_->parts.model; }
Model& Engine::model() { return *state_->parts.model; }
Device& Engine::device() { return *state_->parts.device; }
const DeviceInfo& Engine::device_info() const { return state_->parts.device->info(); }
SequenceMemory& Engine::memory() { return *state_->parts.memory; }
std::shared_ptr<const Tokenizer> Engine::tokenizer() const { return state_->parts.tokenizer; }
std::int32_t Engine::context_length() const { return state_->scheduler.limits().context_length; }
std::int32_t Engine::max_batch_tokens() const { return state_->scheduler.limits().max_batch_tokens; }
int Engine::threads() const { return state_->parts.pool->num_threads(); }

std::int64_t Engine::num_parameters() const {
  std::int64_t count = 0;
  if (state_->parts.file != nullptr) {
    for (const GgufTensor& tensor : state_->parts.file->tensors()) {
      count += tensor.tensor.shape.elems();
    }
  }
  return count;
}

std::uint64_t Engine::file_bytes() const { return state_->parts.file != nullptr ? state_->parts.file->file_bytes() : 0; }

const std::string& Engine::salt_secret() const { return state_->salt_secret; }
const SamplingParams& Engine::sampling() const { return state_->parts.sampling; }

const GgufFile& Engine::file() const {
  check(state_->parts.file != nullptr, "the model comes from no file");
  return *state_->parts.file;
}

}  // namespace rocmforge
