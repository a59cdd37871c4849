#include "service/model.h"

#include <fmt/format.h>

#include <chrono>
#include <optional>
#include <utility>

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

}  // namespace

ServedModel describe_model(const Engine& engine, std::string id, std::string path, std::int32_t parallel,
                           const std::string& chat_template) {
  ServedModel model;
  model.id = std::move(id);
  model.path = std::move(path);
  model.created =
      std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch()).count();
  model.tokenizer = engine.tokenizer();
  model.context_length = engine.context_length();
  model.vocab = engine.model().config().vocab;
  model.parallel = parallel;
  model.sampling = engine.sampling();
  const ModelConfig& config = engine.model().config();
  model.hidden = config.hidden;
  model.pooling = pooling_of(config);
  model.details = {{"vocab_type", model.tokenizer == nullptr                                   ? "none"
                                  : model.tokenizer->vocabulary().model == TokenizerModel::spm ? "spm"
                                                                                               : "bpe"},
                   {"n_vocab", config.vocab},
                   {"n_ctx_train", config.context_length},
                   {"n_ctx", model.context_length},
                   {"n_embd", config.hidden},
                   {"n_params", engine.num_parameters()},
                   {"size", engine.file_bytes()},
                   {"architecture", config.architecture},
                   {"name", config.name}};
  if (model.tokenizer != nullptr) {
    std::optional<ChatTemplates> templates = chat_template.empty()
                                                 ? ChatTemplates::of_model(*model.tokenizer)
                                                 : ChatTemplates::of_source(chat_template, *model.tokenizer);
    if (templates) {
      model.templates = std::make_shared<const ChatTemplates>(std::move(*templates));
    }
  }
  return model;
}

}  // namespace rocmforge
