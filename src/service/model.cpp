#include "service/model.h"

#include <fmt/format.h>

#include <chrono>
#include <optional>
#include <string>
#include <utility>

#include "base/error.h"
#include "models/audio/audio_model.h"
#include "models/vision/vision_model.h"
#include "service/service_error.h"

namespace rocmforge {

const Tokenizer& ServedModel::text() const {
  if (tokenizer == nullptr) {
    throw ServiceError(ServiceError::Kind::unsupported, "the model's file has no tokenizer: only token ids can be used");
  }
  return *tokenizer;
}

namespace {

/// As the model's file says; without a word the mean.
std::variant<Pooling, NoPooling> pooling_of(const ModelConfig& config) {
  if (config.encoder.labels > 0) {
    return NoPooling{"the model is a reranker: it gives scores, no embeddings; use /v1/rerank"};
  }
  switch (config.pooling.value_or(PoolingType::mean)) {
    case PoolingType::mean:
      return Pooling::mean;
    case PoolingType::cls:
      return Pooling::cls;
    case PoolingType::last:
      return Pooling::last;
    case PoolingType::none:
    case PoolingType::rank:
      break;
  }
  const bool ranks = config.pooling == PoolingType::rank;
  return NoPooling{fmt::format(
      "the model's file has pooling_type {} ({}) and gives no embeddings by itself; name a pooling (mean, last, cls){}",
      ranks ? 4 : 0, ranks ? "rank" : "none", ranks ? ", or use /v1/rerank" : "")};
}

Exposition::Labels cache_labels(Engine& engine) {
  const SequenceMemory& memory = engine.memory();
  auto types = KvLayout{}.dtype;
  for (const KvGroup& group : memory.groups()) {
    types = group.planes.empty() ? types : group.planes.front().dtype;
  }
  return {{"block_size", fmt::format("{}", memory.block_tokens())},
          {"num_blocks", fmt::format("{}", memory.pages().num_blocks())},
          {"cache_dtype", name(types)}};
}

/// Tells the metrics whose engine it is, before the engine's loop begins.
std::unique_ptr<Engine> announced(std::unique_ptr<Engine> engine, const ServedModel& model, ServiceMetrics& metrics) {
  metrics.set_model({model.id, model.context_length, cache_labels(*engine)});
  return engine;
}

std::string_view vocabulary_kind(const ServedModel& model) {
  if (model.tokenizer == nullptr) {
    return "none";
  }
  switch (model.tokenizer->vocabulary().model) {
    case TokenizerModel::spm:
      return "spm";
    case TokenizerModel::wordpiece:
      return "wpm";
    case TokenizerModel::unigram:
      return "ugm";
    case TokenizerModel::bpe:
    case TokenizerModel::marked_bpe:
      break;
  }
  return "bpe";
}

ImageInput input_of(const MediaMarks& marks) {
  return {.placeholder = marks.placeholder,
          .text = marks.printed ? marks.before + marks.placeholder + marks.after : marks.placeholder};
}

/// Throws Error for a template that can't be read.
ServedModel describe_model(const Engine& engine, const ServiceOptions& options) {
  ServedModel model;
  model.id = options.model_id;
  model.path = options.model_path;
  model.created =
      std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch()).count();
  model.tokenizer = engine.tokenizer();
  model.context_length = engine.context_length();
  model.vocab = engine.model().config().vocab;
  model.parallel = options.parallel;
  model.sampling = engine.sampling();
  options.sampling.apply(model.sampling);
  if (const std::string problem = model.sampling.validate(); !problem.empty()) {
    throw Error(problem);
  }
  model.template_arguments = options.template_arguments;
  model.images = options.images;
  model.vision = engine.vision();
  if (model.vision != nullptr) {
    model.images = input_of(model.vision->marks());
  }
  model.audio = engine.audio();
  if (model.audio != nullptr) {
    model.sounds = input_of(model.audio->config().marks);
  }
  model.image_sources = options.image_sources;
  model.salt_secret = engine.salt_secret();
  model.adapters = std::make_shared<ServedAdapters>(engine.adapters());
  const ModelConfig& config = engine.model().config();
  model.hidden = config.state_width();
  model.is_encoder = config.encoder.is_encoder;
  model.labels = config.encoder.labels;
  model.pooling = pooling_of(config);
  if (!options.embeddings) {
    model.pooling = NoPooling{"the server was started with --pooling none: it gives no embeddings"};
  } else if (options.pooling && model.labels == 0) {
    model.pooling = *options.pooling;
  }
  model.details = {{"vocab_type", vocabulary_kind(model)},
                   {"n_vocab", config.vocab},
                   {"n_ctx_train", config.context_length},
                   {"n_ctx", model.context_length},
                   {"n_embd", model.hidden},
                   {"n_params", engine.num_parameters()},
                   {"size", engine.file_bytes()},
                   {"architecture", config.architecture},
                   {"name", config.name}};
  if (model.tokenizer != nullptr) {
    std::optional<ChatTemplates> templates = options.chat_template.empty()
                                                 ? ChatTemplates::of_model(*model.tokenizer)
                                                 : ChatTemplates::of_source(options.chat_template, *model.tokenizer);
    if (templates) {
      model.templates = std::make_shared<const ChatTemplates>(std::move(*templates));
    }
  }
  return model;
}

}  // namespace

ModelInstance::ModelInstance(std::unique_ptr<Engine> engine, const ServiceOptions& options,
                             std::shared_ptr<ServiceMetrics> metrics)
    : facts_(describe_model(*engine, options)),
      metrics_(std::move(metrics)),
      grammars_(facts_.tokenizer),
      loop_(announced(std::move(engine), facts_, *metrics_), *metrics_, options.parallel + options.max_waiting,
            options.client_share) {
  if (options.on_abandoned) {
    loop_.on_abandoned(options.on_abandoned);
  }
}

}  // namespace rocmforge
