#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <variant>

#include "chat/chat_template.h"
#include "engine/engine.h"
#include "grammar/cache.h"
#include "schedule/sampling_numbers.h"
#include "service/images.h"
#include "service/json.h"
#include "service/loop.h"
#include "service/metrics.h"
#include "service/served_adapters.h"

namespace rocmforge {

/// Why a model has no pooling by itself.
struct NoPooling {
  std::string reason;
};

/// The properties of a served model that answers need. Constant once the model is loaded.
struct ServedModel {
  std::string id;    ///< the name that clients use
  std::string path;  ///< "" for a model without a file
  std::int64_t created = 0;
  std::shared_ptr<const Tokenizer> tokenizer;  ///< null for a file without one
  std::int32_t context_length = 0;
  std::int32_t vocab = 0;
  std::int32_t hidden = 0;                           ///< values of an embedding
  bool is_encoder = false;                           ///< it gives embeddings or scores, no text
  std::int32_t labels = 0;                           ///< values that its classifier gives a text; 0: it has none
  std::int32_t parallel = 1;                         ///< sequences in one step
  Json details = Json::object();                     ///< `meta` of /v1/models
  std::shared_ptr<const ChatTemplates> templates{};  ///< null for a model without any
  Json template_arguments = Json::object();          ///< variables of the template, where a request has none
  SamplingParams sampling{};                         ///< defaults of requests
  std::variant<Pooling, NoPooling> pooling{};        ///< of embeddings, where a request names none
  std::optional<ImageInput> images{};                ///< empty: it reads text alone
  const VisionModel* vision = nullptr;               ///< its image encoder, of the engine
  ImageSources image_sources{};
  std::optional<ImageInput> sounds{};          ///< as `images`, of recordings; empty: it hears none
  const AudioModel* audio = nullptr;           ///< its audio encoder, of the engine
  std::string salt_secret{};                   ///< of its prompts (Engine::salt_secret), part of each salt
  std::shared_ptr<ServedAdapters> adapters{};  ///< the only part that changes; null for a model outside of an engine

  /// Throws ServiceError (unsupported) where the file has none.
  [[nodiscard]] const Tokenizer& text() const;
};

/// How a model is served.
struct ServiceOptions {
  std::string model_id = "model";  ///< the name that clients use
  std::string model_path{};
  std::string chat_template{};               ///< replaces the model's own
  Json template_arguments = Json::object();  ///< for the template, where a request has none
  SamplingChoices sampling{};                ///< defaults of requests, before what the model's file recommends
  std::int32_t parallel = 8;                 ///< answers at once, as the engine was told
  std::int32_t max_waiting = 64;             ///< more answers that may wait
  std::int32_t client_share = 50;            ///< percent of places that a client has beside others
  bool embeddings = true;                    ///< false: none are given where a request names no pooling
  std::optional<Pooling> pooling{};          ///< of embeddings; empty: as the model's file says, else mean
  std::optional<ImageInput> images{};        ///< where not the engine, but whoever takes Turn::images encodes them
  ImageSources image_sources{};
  /// Called when a step does not end in its time (EngineLoop::on_abandoned).
  std::function<void(const std::string& line)> on_abandoned{};
};

/// A loaded model with all that answers need of it. Whoever answers holds it by a shared_ptr. Thread-safe.
class ModelInstance {
 public:
  /// Throws Error for a template that can't be read.
  ModelInstance(std::unique_ptr<Engine> engine, const ServiceOptions& options, std::shared_ptr<ServiceMetrics> metrics);
  ModelInstance(const ModelInstance&) = delete;
  ModelInstance& operator=(const ModelInstance&) = delete;

  [[nodiscard]] const ServedModel& facts() const { return facts_; }
  [[nodiscard]] EngineLoop& loop() { return loop_; }
  [[nodiscard]] GrammarCache& grammars() { return grammars_; }

 private:
  ServedModel facts_;
  std::shared_ptr<ServiceMetrics> metrics_;
  GrammarCache grammars_;
  EngineLoop loop_;  // last: while it ends, answers still use the rest
};

}  // namespace rocmforge
