#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "engine/engine.h"
#include "flags.h"
#include "prompts.h"
#include "rocmforge/rocmforge.h"
#include "serve_flags.h"
#include "server/local_client.h"
#include "server/model_service.h"
#include "server/server.h"

namespace rocmforge {

using NamedOptions = std::span<const std::string>;
using TakeText = std::function<bool(std::string_view)>;

/// The model of rocmforge/rocmforge.h. Thread-safe. Functions throw UsageError for wrong options and
/// arguments, and Error otherwise.
class LoadedModel {
 public:
  LoadedModel(const std::string& path, NamedOptions options);

  [[nodiscard]] rocmforge_model_properties properties() const;
  /// Throws Error where the file has none.
  [[nodiscard]] const Tokenizer& tokenizer() const { return app::require_tokenizer(*engine_); }
  [[nodiscard]] std::int32_t vocab() const { return engine_->model().config().vocab; }

  /// JSON as rocmforge_generate gives it.
  std::string generate(const std::string& prompt, NamedOptions options, const TakeText& take);
  std::string generate(std::vector<std::int32_t> tokens, NamedOptions options, const TakeText& take);
  /// Returns the whole answer as JSON. With `take`, passes it the JSON of each event and returns "".
  std::string chat(const std::string& request, NamedOptions options, const TakeText& take);
  HttpResponse request(const std::string& method, const std::string& path, std::string body, const TakeText& take);
  /// [texts, hidden]
  std::vector<float> embed(std::span<const std::string> texts);
  /// [vocab], after the last token. Throws UsageError for no tokens and for invalid ones.
  std::vector<float> logits(std::vector<std::int32_t> tokens);
  /// The sampling of a sequence with these options.
  [[nodiscard]] SamplingParams sampling(NamedOptions options) const;
  std::unique_ptr<Server> serve(const app::ListenFlags& flags);

 private:
  /// The options of a call, which replace those of the model.
  struct CallFlags {
    app::GenerationFlags generation;
    app::TemplateFlags chat_template;
    bool raw = false;

    /// A command whose options set these flags.
    app::Command command();
  };

  /// Throws UsageError.
  [[nodiscard]] CallFlags read(NamedOptions options) const;
  /// What answers requests in the forms of APIs.
  [[nodiscard]] Backend backend() const;
  /// Waits for the answer, and returns it as JSON.
  std::string answer(Request request, const TakeText& take);
  void check_tokens(std::span<const std::int32_t> tokens) const;

  CallFlags flags_;
  ServerOptions server_options_;
  const Engine* engine_ = nullptr;  ///< the model's; any thread may read its constant parts
  std::shared_ptr<ModelService> service_ = std::make_shared<ModelService>();
  std::shared_ptr<ModelInstance> model_;
  std::unique_ptr<LocalClient> client_;
};

}  // namespace rocmforge
