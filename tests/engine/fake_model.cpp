#include "engine/fake_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <new>
#include <numeric>
#include <thread>
#include <utility>

#include "base/error.h"
#include "kernels/register_all.h"
#include "schedule/pages/window_group.h"

namespace rocmforge {

namespace {

std::uint64_t mix(std::uint64_t value) {
  value = (value ^ value >> 33) * 0xff51afd7ed558ccdu;
  value = (value ^ value >> 33) * 0xc4ceb9fe1a85ec53u;
  return value ^ value >> 33;
}

/// The data stored for a position.
struct Stored {
  float* token = nullptr;
  float* position = nullptr;
};

Stored stored(const BatchPlan& batch, const SequenceMemory& memory, const KvPlace& place, std::int32_t sequence,
              std::int32_t position) {
  const KvCache& pages = memory.pages(place.group);
  const KvLayout& layout = pages.planes()[static_cast<std::size_t>(place.plane)];
  const std::int32_t row = place.group * batch.num_sequences() + sequence;
  const std::int32_t entry = row * batch.max_blocks + position / layout.block_tokens;
  const std::int32_t block = batch.block_tables[static_cast<std::size_t>(entry)];
  float* from = static_cast<float*>(pages.plane(place.plane).data) + block * layout.block_elems();
  const std::int32_t offset = position % layout.block_tokens;
  return {from + offset, from + layout.head_at(true, 0) / sizeof(float) + offset};
}

/// The value stored for a token in that place.
float mark(std::int32_t token, const KvPlace& place) {
  return static_cast<float>(token + 1000 * place.plane + 100'000 * place.group);
}

template <class Visit>
void for_each_place(const KvGroups& groups, Visit visit) {
  for (std::size_t group = 0; group < groups.size(); ++group) {
    for (std::size_t plane = 0; plane < groups[group].planes.size(); ++plane) {
      visit(KvPlace{static_cast<std::int32_t>(group), static_cast<std::int32_t>(plane)});
    }
  }
}

}  // namespace

FakeModel::FakeModel(std::int32_t vocab, std::int32_t context_length, Kind kind, const EncoderConfig& encoder, bool with_mtp)
    : kind_(kind), with_mtp_(with_mtp) {
  config_.encoder = encoder;
  config_.architecture = "fake";
  config_.layers = layers;
  config_.vocab = vocab;
  config_.hidden = hidden_size;
  config_.context_length = context_length;
  const KvLayout layout{.dtype = DType::f32, .block_tokens = block_tokens, .kv_heads = 1, .head_dim = 1};
  kv_groups_ = {{0, std::vector<KvLayout>(kind == Kind::state_alone ? 0 : layers, layout)}};
  if (kind == Kind::windows) {
    kv_groups_.push_back({window, kv_groups_[0].planes});
  }
  own_places_ = kv_groups_;
  if (with_mtp) {
    kv_groups_[0].planes.push_back(layout);
  }
  register_all_kernels(registry_);
}

std::vector<float> FakeModel::logits_after(const Tokens& visible) const {
  std::vector<float> logits(static_cast<std::size_t>(config_.vocab));
  if (const std::int32_t token = script_ ? script_(visible) : any_token; token != any_token) {
    std::ranges::fill(logits, token < 0 ? std::nanf("") : -std::numeric_limits<float>::infinity());
    if (token >= 0) {
      logits[static_cast<std::size_t>(token)] = 1.0f;
    }
    return logits;
  }
  std::uint64_t hash = visible.size();
  for (const std::int32_t token : visible) {
    hash = mix(hash + static_cast<std::uint64_t>(token) + 1);
  }
  for (std::size_t i = 0; i < logits.size(); ++i) {
    logits[i] = static_cast<float>(mix(hash + i) >> 40) * 0x1p-24f * 8.0f;
  }
  logits[0] = logits[bos_token] = logits[end_token] = -1e9f;  // only scripts give the end token
  return logits;
}

std::vector<float> FakeModel::hidden_after(const Tokens& visible) {
  const float sum = static_cast<float>(std::accumulate(visible.begin(), visible.end(), 0));
  return {sum, static_cast<float>(visible.back()), static_cast<float>(visible.size())};
}

float FakeModel::score_of(const Tokens& text) {
  return static_cast<float>(std::accumulate(text.begin(), text.end(), 0) % 17 - 8) / 4.0f;
}

std::size_t FakeModel::state_bytes() const {
  return kind_ == Kind::attention || kind_ == Kind::windows
             ? 0
             : (static_cast<std::size_t>(config_.context_length) + 1) * sizeof(std::int32_t);
}

void FakeModel::append(const BatchPlan& batch, const Tokens& ids, const SequenceMemory& memory) const {
  for (std::int32_t row = 0; row < batch.num_tokens(); ++row) {
    const auto index = static_cast<std::size_t>(row);
    for_each_place(own_places_, [&](const KvPlace& place) {
      const std::int32_t position = batch.positions[index];
      const Stored to = stored(batch, memory, place, batch.sequence_of[index], position);
      *to.token = mark(ids[index], place);
      *to.position = static_cast<float>(position);
    });
  }
}

// A slot holds the number of tokens, then the tokens.
std::vector<FakeModel::Tokens> FakeModel::carry_on(const BatchPlan& batch, const Tokens& ids,
                                                   const StateView& states) const {
  const auto numbers = [&](std::int32_t slot) {
    return reinterpret_cast<std::int32_t*>(states.data + slot * states.slot_stride);
  };
  const auto write = [&](std::int32_t slot, std::span<const std::int32_t> tokens) {
    numbers(slot)[0] = static_cast<std::int32_t>(tokens.size());
    std::ranges::copy(tokens, numbers(slot) + 1);
  };
  std::vector<Tokens> all;
  for (std::int32_t s = 0; s < batch.num_sequences(); ++s) {
    const StateSlots& slots = batch.states[static_cast<std::size_t>(s)];
    Tokens& tokens = all.emplace_back();
    if (slots.read >= 0) {
      const std::int32_t* state = numbers(slots.read);
      tokens.assign(state + 1, state + 1 + std::clamp(state[0], 0, config_.context_length));
    }
    const std::int32_t first = batch.query_offsets[static_cast<std::size_t>(s)];
    check(static_cast<std::int32_t>(tokens.size()) == batch.positions[static_cast<std::size_t>(first)],
          "a state is that of other positions");
    tokens.insert(tokens.end(), ids.begin() + first, ids.begin() + first + batch.q_len(s));
    write(slots.write, tokens);
    if (slots.keep >= 0) {
      const std::int32_t behind = batch.q_len(s) - slots.keep_rows;
      write(slots.keep, std::span(tokens).first(tokens.size() - static_cast<std::size_t>(behind)));
    }
  }
  return all;
}

FakeModel::Tokens FakeModel::visible_to(const BatchPlan& batch, std::int32_t row, const SequenceMemory& memory) const {
  const std::int32_t last = batch.positions[static_cast<std::size_t>(row)];
  const std::int32_t sequence = batch.sequence_of[static_cast<std::size_t>(row)];
  Tokens visible;
  for (std::int32_t position = 0; position <= last; ++position) {
    visible.push_back(static_cast<std::int32_t>(*stored(batch, memory, {}, sequence, position).token));
    for_each_place(own_places_, [&](const KvPlace& place) {
      if (place.group == 0 || position > last - window) {
        const Stored found = stored(batch, memory, place, sequence, position);
        check(*found.token == mark(visible.back(), place) && *found.position == static_cast<float>(position),
              "a page holds something else than its sequence wrote there");
      }
    });
  }
  return visible;
}

FakeModel::Tokens FakeModel::ids_of(const BatchPlan& batch) const {
  Tokens ids;
  for (const std::int32_t token : batch.tokens) {
    ids.push_back(token < 0 ? sampled_.at(static_cast<std::size_t>(EmbeddingRows::drawn_token(token))) : token);
  }
  return ids;
}

KvPlace FakeModel::mtp_place() const {
  return {.group = 0, .plane = static_cast<std::int32_t>(own_places_[0].planes.size())};
}

void FakeModel::count_gaps(const BatchPlan& batch, std::int32_t row, const Tokens& state, const SequenceMemory& memory) {
  const std::int32_t sequence = batch.sequence_of[static_cast<std::size_t>(row)];
  const std::int32_t position = batch.positions[static_cast<std::size_t>(row)];
  for (std::int32_t before = 0; before < position; ++before) {
    const Stored found = stored(batch, memory, mtp_place(), sequence, before);
    const std::int32_t behind = state[static_cast<std::size_t>(before) + 1];
    const bool same = *found.token == mark(behind, mtp_place()) && *found.position == static_cast<float>(before);
    mtp_gaps_ += !same && (before + 1) % block_tokens != 0 ? 1 : 0;
  }
}

void FakeModel::forward_mtp(std::int32_t block, const BatchPlan& batch, SequenceMemory& memory) {
  check(with_mtp_ && block == 0, "the MTP block is loaded");
  check(std::ssize(states_) == batch.num_tokens(), "an MTP block gets a token for each hidden row");
  batch.validate(memory.num_blocks(), block_tokens, memory.states().num_slots);
  const Tokens ids = ids_of(batch);
  std::vector<Tokens> states = std::exchange(states_, {});
  ++mtp_passes_;
  for (std::size_t row = 0; row < ids.size(); ++row) {
    check(ids[row] >= 0 && ids[row] < config_.vocab, "a token is in the vocabulary");
    check(std::ssize(states[row]) == batch.positions[row] + 1, "a row continues from the state at its position");
    const Stored to = stored(batch, memory, mtp_place(), batch.sequence_of[row], batch.positions[row]);
    *to.token = mark(ids[row], mtp_place());
    *to.position = static_cast<float>(batch.positions[row]);
  }
  logits_.clear();
  for (const std::int32_t row : batch.logit_rows) {
    Tokens& state = states[static_cast<std::size_t>(row)];
    count_gaps(batch, row, state, memory);
    Tokens all = state;
    all.push_back(ids[static_cast<std::size_t>(row)]);
    std::vector<float> logits = logits_after(all);
    if (all.size() % 5 == 0) {
      std::rotate(logits.begin(), logits.begin() + 1, logits.end());
    }
    logits_.insert(logits_.end(), logits.begin(), logits.end());
  }
  for (const std::int32_t row : batch.hidden_rows) {
    states_.push_back(states[static_cast<std::size_t>(row)]);
    states_.back().push_back(ids[static_cast<std::size_t>(row)]);
  }
  if (mtp_passes_ >= mtp_lacking_.first && mtp_passes_ < mtp_lacking_.second) {
    throw std::bad_alloc();
  }
  if (!batch.sample_rows.empty()) {
    draw(batch);
  }
}

void FakeModel::forward(const BatchPlan& batch, SequenceMemory& memory) {
  batch.validate(memory.num_blocks(), block_tokens, memory.states().num_slots);
  ++steps_;
  largest_step_ = std::max(largest_step_, batch.num_tokens());
  computed_tokens_ += batch.num_tokens();
  std::this_thread::sleep_for(batch.num_tokens() * token_time_);
  const RaggedBatch view = batch.view();
  const Tokens ids = ids_of(batch);
  append(batch, ids, memory);
  const std::vector<Tokens> carried = state_bytes() == 0 ? std::vector<Tokens>() : carry_on(batch, ids, memory.states());
  const auto visible_to = [&](std::int32_t row) {
    if (state_bytes() == 0) {
      return this->visible_to(batch, row, memory);
    }
    const Tokens& all = carried[static_cast<std::size_t>(view.sequence_of[row])];
    Tokens visible(all.begin(), all.begin() + view.positions[row] + 1);
    check(kind_ == Kind::state_alone || visible == this->visible_to(batch, row, memory),
          "a state holds something else than the pages");
    return visible;
  };
  logits_.clear();
  for (const std::int32_t row : batch.logit_rows) {
    const std::vector<float> logits = logits_after(visible_to(row));
    logits_.insert(logits_.end(), logits.begin(), logits.end());
  }
  raw_logits_.clear();
  for (const std::int32_t row : batch.raw_rows) {
    const std::span<const float> logits = std::span(logits_).subspan(static_cast<std::size_t>(row * config_.vocab));
    raw_logits_.insert(raw_logits_.end(), logits.begin(), logits.begin() + config_.vocab);
  }
  hidden_.clear();
  states_.clear();
  for (const std::int32_t row : batch.hidden_rows) {
    states_.push_back(visible_to(row));
    std::vector<float> hidden = hidden_after(states_.back());
    if (config_.encoder.is_encoder) {
      const Tokens text = visible_to(view.query_offsets[view.sequence_of[row] + 1] - 1);
      hidden = config_.encoder.labels == 0 ? hidden_after(text) : std::vector<float>{score_of(text)};
    }
    hidden_.insert(hidden_.end(), hidden.begin(), hidden.end());
  }
  if (steps_ >= lacking_.first && steps_ < lacking_.second) {
    throw std::bad_alloc();
  }
  draw(batch);
}

void FakeModel::draw(const BatchPlan& batch) {
  const SampleTokens::Spec spec{config_.vocab};
  previous_sampled_ = std::exchange(sampled_, {});
  sampled_.resize(batch.sample_rows.size());
  probabilities_.resize(batch.sample_rows.size());
  std::vector<std::byte> workspace(sampled_.size() * sample_workspace_bytes(spec.vocab));
  ThreadPool pool(1);
  ExecutionContext context{&pool};
  if (!sampled_.empty()) {
    registry_.choose<SampleTokens>(spec, cpu_device_info())
        .kernel->run(spec,
                     {.logits = logits_.data(),
                      .num_rows = static_cast<std::int64_t>(sampled_.size()),
                      .rows = batch.sample_rows.data(),
                      .adjustments = batch.adjustments.data(),
                      .masks = batch.masks.data(),
                      .all_greedy = false,
                      .out = sampled_.data(),
                      .probabilities = probabilities_.data(),
                      .workspace = workspace.data()},
                     context);
  }
}

std::shared_ptr<const Tokenizer> byte_tokenizer() {
  Vocabulary vocabulary;
  vocabulary.model = TokenizerModel::spm;
  vocabulary.tokens = {"<unk>", "<s>", "</s>"};
  vocabulary.types = {TokenType::unknown, TokenType::control, TokenType::control};
  for (int byte = 0; byte < 256; ++byte) {
    vocabulary.tokens.push_back(fmt::format("<0x{:02X}>", byte));
    vocabulary.types.push_back(TokenType::byte);
  }
  vocabulary.tokens.push_back("\u2581hi");
  vocabulary.types.push_back(TokenType::normal);
  vocabulary.scores.assign(vocabulary.tokens.size(), 0.0f);
  vocabulary.unknown = 0;
  vocabulary.bos = bos_token;
  vocabulary.eos = end_token;
  return Tokenizer::create(std::move(vocabulary));
}

std::vector<std::int32_t> byte_ids(std::string_view text) {
  std::vector<std::int32_t> ids;
  for (const char byte : text) {
    ids.push_back(3 + static_cast<unsigned char>(byte));
  }
  return ids;
}

Request make_request(std::vector<std::int32_t> prompt, std::int32_t max_tokens, std::vector<std::string> stop) {
  Request request;
  request.prompt = std::move(prompt);
  request.max_tokens = max_tokens;
  request.stop = std::move(stop);
  return request;
}

FakeEngine make_fake_engine(const EngineOptions& options, bool with_tokenizer, FakeModel::Kind kind) {
  return make_fake_engine(options, with_tokenizer ? byte_tokenizer() : nullptr, kind);
}

FakeEngine make_fake_engine(const EngineOptions& options, std::shared_ptr<const Tokenizer> tokenizer, FakeModel::Kind kind,
                            std::int32_t context_length, const EncoderConfig& encoder, std::unique_ptr<Engine> draft_model) {
  auto model = std::make_unique<FakeModel>(tokenizer == nullptr ? byte_vocab : tokenizer->size(), context_length, kind,
                                           encoder, options.drafts.mtp == MtpUse::on);
  FakeEngine fake;
  fake.model = model.get();
  EngineParts parts;
  parts.pool = std::make_unique<ThreadPool>(1);
  parts.device = std::make_unique<Device>();
  const auto num_blocks = static_cast<std::int32_t>(options.kv_tokens / FakeModel::block_tokens);
  const std::int32_t slots = model->state_bytes() > 0 ? 2 * options.max_sequences + 4 : 0;
  std::vector<std::int32_t> blocks{num_blocks};
  if (kind == FakeModel::Kind::windows) {
    blocks.push_back(window_blocks(FakeModel::window, FakeModel::block_tokens, num_blocks, options.max_sequences,
                                   options.max_batch_tokens));
  }
  parts.memory = std::make_unique<SequenceMemory>(
      *parts.device, model->kv_groups(),
      SequenceMemory::Size{
          .blocks = blocks, .block_tokens = FakeModel::block_tokens, .slot_bytes = model->state_bytes(), .slots = slots});
  for (std::int32_t group = 0; group < parts.memory->num_groups(); ++group) {
    if (KvCache& pages = parts.memory->pages(group); pages.num_planes() > 0) {
      std::fill_n(static_cast<float*>(pages.plane(0).data), pages.bytes() / sizeof(float), -7.0f);  // nobody wrote this
    }
  }
  std::fill_n(reinterpret_cast<std::int32_t*>(parts.memory->states().data),
              parts.memory->state_bytes() / sizeof(std::int32_t), -7);
  parts.model = std::move(model);
  parts.tokenizer = std::move(tokenizer);
  parts.draft_model = std::move(draft_model);
  fake.engine = make_engine(std::move(parts), options);
  return fake;
}

}  // namespace rocmforge
