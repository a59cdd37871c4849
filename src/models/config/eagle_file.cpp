#include "models/config/eagle_file.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>

#include "base/log.h"
#include "models/config/draft_file.h"
#include "models/config/metadata_reader.h"
#include "models/config/model_tensors.h"
#include "models/config/rope_config.h"

namespace rocmforge {
namespace {

constexpr std::string_view architecture = "eagle3";

/// Tensor d2t: the model's token of each of the draft's `count` tokens.
std::vector<std::int32_t> read_tokens(const GgufFile& file, std::int64_t count, std::int32_t vocab) {
  const GgufTensor& ids = expect_tensor(file, "d2t", {count});
  if (ids.tensor.dtype != DType::i64) {
    throw Error(fmt::format("{}: tensor 'd2t' is {}, ids must be I64", file.path().string(), name(ids.tensor.dtype)));
  }
  std::vector<std::int32_t> tokens;
  std::vector<bool> known(static_cast<std::size_t>(vocab));
  for (std::int64_t i = 0; i < count; ++i) {
    std::int64_t id = 0;
    std::memcpy(&id, static_cast<const std::byte*>(ids.tensor.data) + i * std::int64_t{sizeof id}, sizeof id);
    if (id < 0 || id >= vocab || known[static_cast<std::size_t>(id)]) {
      throw Error(fmt::format("{}: tensor 'd2t' has id {} at place {}, which {}", file.path().string(), id, i,
                              id < 0 || id >= vocab ? fmt::format("is outside the model's vocabulary of {}", vocab)
                                                    : std::string("stands before")));
    }
    known[static_cast<std::size_t>(id)] = true;
    tokens.push_back(static_cast<std::int32_t>(id));
  }
  return tokens;
}

}  // namespace

bool is_eagle_file(const GgufFile& file) { return has_architecture(file, architecture); }

EagleFile::EagleFile(GgufFile opened, const GgufFile& model, const ModelConfig& of_model, std::int32_t context)
    : file(std::move(opened)), model_hidden(of_model.hidden), model_vocab(of_model.vocab) {
  check(is_eagle_file(file), "the file is an EAGLE3 draft");
  read_target(of_model);
  read_block(context);
  own_embedding = file.find_tensor("token_embd.weight") != nullptr;
  if (own_embedding) {
    expect_tensor(file, "token_embd.weight", {of_model.vocab, config.hidden});
  } else if (config.hidden != of_model.hidden) {
    throw Error(fmt::format("{}: tensor 'token_embd.weight' is missing, and the model's embedding is {} wide, not {}",
                            file.path().string(), of_model.hidden, config.hidden));
  }
  read_vocabulary(model);
}

void EagleFile::read_target(const ModelConfig& of_model) {
  MetadataReader metadata(file, architecture);
  constexpr std::string_view width = "target_hidden_size";
  if (const std::int32_t hidden = metadata.count(width); hidden != of_model.hidden) {
    throw metadata.error(
        width, fmt::format("is {}, the model's width is {}: it drafts for another model", hidden, of_model.hidden));
  }
  constexpr std::string_view layers = "target_layers";
  metadata.require(layers);
  if (of_model.residual_streams > 1) {
    throw metadata.error(layers,
                         fmt::format("has no meaning: the model's layers have {} inputs", of_model.residual_streams));
  }
  target_layers = metadata.list(layers);
  const bool rises = std::ranges::adjacent_find(target_layers, std::ranges::greater_equal()) == target_layers.end();
  if (target_layers.empty() || !rises || target_layers.back() > of_model.layers) {
    throw metadata.error(layers, fmt::format("is [{}]: they must rise, up to the model's {} layers",
                                             fmt::join(target_layers, ", "), of_model.layers));
  }
}

void EagleFile::read_block(std::int32_t context) {
  MetadataReader metadata(file, architecture);
  metadata.contains("target_hidden_size");
  metadata.contains("target_layers");
  norm_before_residual = metadata.flag("norm_before_residual", false);
  norm_before_fc = metadata.flag("norm_before_fc", false);
  config.architecture = architecture;
  config.layers = metadata.count("block_count");
  if (config.layers != 1) {
    throw metadata.error("block_count", fmt::format("is {}, an EAGLE3 draft has one block", config.layers));
  }
  config.hidden = metadata.count("embedding_length");
  config.context_length = metadata.count("context_length");
  config.norm_eps = static_cast<float>(metadata.number("attention.layer_norm_rms_epsilon"));
  LayerConfig& layer = config.blocks.emplace_back();
  layer.graph.mixer_norm = {};  // both halves of the input are normalised before they are joined
  layer.feed_forward.width = metadata.count("feed_forward_length");
  AttentionConfig& attention = layer.attention;
  attention.joined_input = true;
  attention.q_heads = metadata.count("attention.head_count");
  attention.kv_heads = metadata.count("attention.head_count_kv", attention.q_heads);
  if (attention.q_heads % attention.kv_heads != 0) {
    throw metadata.error("attention.head_count_kv", fmt::format("is {}, which does not divide the {} query heads",
                                                                attention.kv_heads, attention.q_heads));
  }
  attention.head_dim = metadata.count("attention.key_length", std::max(config.hidden / attention.q_heads, 1));
  if (metadata.count("attention.value_length", attention.head_dim) != attention.head_dim) {
    throw metadata.error("attention.value_length", "differs from the key length, which is not supported");
  }
  // The tensors bound all sizes by the file's.
  expect_tensor(file, "fc.weight", {config.hidden, std::int64_t{model_hidden} * std::ssize(target_layers)});
  expect_tensor(file, block_tensor(0, "attn_q.weight"), {attention.q_dim(), 2 * std::int64_t{config.hidden}});
  attention.rope = read_rope(metadata, attention.head_dim, config.context_length, context);
  metadata.contains("vocab_size");
  if (const auto unread = metadata.unread(); !unread.empty()) {
    log_warning("{}: keys without effect: {}", file.path().string(), fmt::join(unread, ", "));
  }
}

void EagleFile::read_vocabulary(const GgufFile& model) {
  check_same_tokens(file, model);
  const std::int64_t rows = file.tensor("output.weight").tensor.shape.squeezed().rows();
  const bool has_ids = file.find_tensor("d2t") != nullptr;
  expect_tensor(file, "output.weight", {has_ids ? rows : model_vocab, config.hidden});
  if (has_ids) {
    tokens = read_tokens(file, rows, model_vocab);
  }
  config.vocab = has_ids ? static_cast<std::int32_t>(tokens.size()) : model_vocab;
}

}  // namespace rocmforge
