#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <variant>

#include "chat/chat_template.h"
#include "engine/engine.h"
#include "service/json.h"

namespace rocmforge {

/// Why a model has no pooling by itself.
struct NoPooling {
  std::string reason;
};

/// The properties of the served model that the routes need. Constant once the model is loaded.
struct ServedModel {
  std::string id;    ///< the name that clients use
  std::string path;  ///< "" for a model without a file
  std::int64_t created = 0;
  std::shared_ptr<const Tokenizer> tokenizer;  ///< null for a file without one
  std::int32_t context_length = 0;
  std::int32_t vocab = 0;
  std::int32_t hidden = 0;                           ///< values of an embedding
  std::int32_t parallel = 1;                         ///< sequences in one step
  Json details = Json::object();                     ///< `meta` of /v1/models
  std::shared_ptr<const ChatTemplates> templates{};  ///< null for a model without any
  Json template_arguments = Json::object();          ///< variables of the template, where a request has none
  SamplingParams sampling{};                         ///< defaults of requests
  std::variant<Pooling, NoPooling> pooling{};        ///< of embeddings, where a request names none

  /// Throws ServiceError (unsupported) where the file has none.
  [[nodiscard]] const Tokenizer& text() const;
};

/// `chat_template` replaces the file's own unless it is "". Throws Error for a template that can't be read.
ServedModel describe_model(const Engine& engine, std::string id, std::string path, std::int32_t parallel,
                           const std::string& chat_template);

}  // namespace rocmforge
