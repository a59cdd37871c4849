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

namespace rocmforge {

namespace {

std::uint64_t mix(std::uint64_t value) {
  value = (value ^ value >> 33) * 0xff51afd7ed558ccdu;
  value = (value ^ value >> 33) * 0xc4ceb9fe1a85ec53u;
  return value ^ value >> 33;
}

float* slot(const KvLayout& layout, const KvCacheView& view, std::int32_t block, std::int64_t offset) {
  return static_cast<float*>(view.data) + block * layout.block_elems() + offset;
}

}  // namespace

FakeModel::FakeModel(std::int32_t vocab, std::int32_t context_length) {
  config_.architecture = "fake";
  config_.layers = layers;
  config_.vocab = vocab;
  config_.hidden = hidden_size;
  config_.context_length = context_length;
  register_all_kernels(registry_);
}

KvLayout FakeModel::kv_layout() const {
  return {.dtype = DType::f32, .block_tokens = block_tokens, .kv_heads = 1, .head_dim = 1};
}

std::vector<float> FakeModel::logits_after(const Tokens& visible) const {
  std::vector<float> logits(static_cast<std::size_t>(config_.vocab));
  if (script_) {
    const std::int32_t token = script_(visible);
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
  logits[0] = logits[bos_token] = logits[end_token] = -1e9f;  // only scripts end by themselves
  return logits;
}

std::vector<float> FakeModel::hidden_after(const Tokens& visible) {
  const float sum = static_cast<float>(std::accumulate(visible.begin(), visible.end(), 0));
  return {sum, static_cast<float>(visible.back()), static_cast<float>(visible.size())};
}

void FakeModel::forward(const BatchPlan& batch, KvCache& cache) {
  batch.validate(cache.num_blocks(), block_tokens);
  ++steps_;
  largest_step_ = std::max(largest_step_, batch.num_tokens());
  computed_tokens_ += batch.num_tokens();
  std::this_thread::sleep_for(batch.num_tokens() * token_time_);
  const KvLayout layout = kv_layout();
  const RaggedBatch view = batch.view();
  const auto at = [&](std::int32_t layer, std::int32_t sequence, std::int32_t position, std::int64_t part) {
    const std::int32_t block = view.block_tables[sequence * view.max_blocks + position / block_tokens];
    return slot(layout, cache.layer(layer), block, part + position % block_tokens);
  };
  for (std::int32_t row = 0; row < view.num_tokens; ++row) {
    for (std::int32_t layer = 0; layer < layers; ++layer) {
      const std::int32_t sequence = view.sequence_of[row];
      const std::int32_t position = view.positions[row];
      const std::int32_t token = batch.tokens[static_cast<std::size_t>(row)];
      const std::int32_t id = token < 0 ? sampled_.at(static_cast<std::size_t>(EmbeddingRows::drawn_token(token))) : token;
      *at(layer, sequence, position, layout.k_offset(0)) = static_cast<float>(id + 1000 * layer);
      *at(layer, sequence, position, layout.v_offset(0)) = static_cast<float>(position);
    }
  }
  const auto visible_to = [&](std::int32_t row) {
    Tokens visible;
    for (std::int32_t position = 0; position <= view.positions[row]; ++position) {
      visible.push_back(static_cast<std::int32_t>(*at(0, view.sequence_of[row], position, layout.k_offset(0))));
      for (std::int32_t layer = 0; layer < layers; ++layer) {
        const float key = *at(layer, view.sequence_of[row], position, layout.k_offset(0));
        const float value = *at(layer, view.sequence_of[row], position, layout.v_offset(0));
        check(key == static_cast<float>(visible.back() + 1000 * layer) && value == static_cast<float>(position),
              "a page holds something else than its sequence wrote there");
      }
    }
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
  for (const std::int32_t row : batch.hidden_rows) {
    const std::vector<float> hidden = hidden_after(visible_to(row));
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

FakeEngine make_fake_engine(const EngineOptions& options, bool with_tokenizer) {
  auto model = std::make_unique<FakeModel>(byte_vocab, 256);
  FakeEngine fake;
  fake.model = model.get();
  EngineParts parts;
  parts.pool = std::make_unique<ThreadPool>(1);
  parts.device = std::make_unique<Device>();
  const auto num_blocks = static_cast<std::int32_t>(options.kv_tokens / FakeModel::block_tokens);
  parts.cache = std::make_unique<KvCache>(*parts.device, model->kv_layout(), FakeModel::layers, num_blocks);
  const std::size_t floats = parts.cache->bytes() / sizeof(float);
  std::fill_n(static_cast<float*>(parts.cache->layer(0).data), floats, -7.0f);  // nobody wrote this
  parts.model = std::move(model);
  parts.tokenizer = with_tokenizer ? byte_tokenizer() : nullptr;
  fake.engine = make_engine(std::move(parts), options);
  return fake;
}

}  // namespace rocmforge
