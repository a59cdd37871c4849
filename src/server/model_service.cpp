#include "server/model_service.h"

#include <fmt/format.h>

#include <string>
#include <utility>

namespace rocmforge {
namespace {

Exposition::Labels cache_labels(Engine& engine) {
  const SequenceMemory& memory = engine.memory();
  DType dtype = KvLayout{}.dtype;
  for (const KvGroup& group : memory.groups()) {
    dtype = group.planes.empty() ? dtype : group.planes.front().dtype;
  }
  return {{"block_size", fmt::format("{}", memory.block_tokens())},
          {"num_blocks", fmt::format("{}", memory.pages().num_blocks())},
          {"cache_dtype", std::string(name(dtype))}};
}

}  // namespace

// The loop first: while it ends, answers still use the rest.
ModelService::~ModelService() { loop_.reset(); }

void ModelService::start(std::unique_ptr<Engine> engine, const ServerOptions& options) {
  ServedModel model = describe_model(*engine, options.model_id, options.model_path, options.parallel, options.chat_template);
  options.sampling.apply(model.sampling);
  model.template_arguments = options.template_arguments;
  if (!options.embeddings) {
    model.pooling = NoPooling{"the server was started with --pooling none: it gives no embeddings"};
  } else if (options.pooling) {
    model.pooling = *options.pooling;
  }
  metrics_.set_model({model.id, model.context_length, cache_labels(*engine)});
  loop_ = std::make_unique<EngineLoop>(std::move(engine), metrics_, options.parallel + options.max_waiting,
                                       options.client_share);
  if (options.on_abandoned) {
    loop_->on_abandoned(options.on_abandoned);
  }
  grammars_ = std::make_unique<GrammarCache>(model.tokenizer);
  backend_.reset(
      new Backend{std::move(model), *loop_, active_, *grammars_, responses_, options.request_time, options.strict_fields});
}

void ModelService::cancel_all() noexcept {
  if (loop_ != nullptr) {
    loop_->cancel_all();
  }
}

}  // namespace rocmforge
