#pragma once

#include <memory>

#include "grammar/cache.h"
#include "server/api/generation.h"
#include "server/api/response_store.h"
#include "service/loop.h"
#include "service/metrics.h"
#include "server/server.h"

namespace rocmforge {

/// A model with everything that the APIs need, for a server and for callers in the same process.
class ModelService {
 public:
  ModelService() = default;
  /// Cancels running requests.
  ~ModelService();
  ModelService(const ModelService&) = delete;
  ModelService& operator=(const ModelService&) = delete;

  /// Call once, when the model has been loaded. Reads the options of the model: its names, template, sampling, places for
  /// answers. Throws Error for a template that can't be read.
  void start(std::unique_ptr<Engine> engine, const ServerOptions& options);
  /// Null until start() has returned. Lives as long as the service.
  [[nodiscard]] const Backend* backend() const { return backend_.get(); }

  [[nodiscard]] ServiceMetrics& metrics() { return metrics_; }
  [[nodiscard]] ActiveGenerations& active() { return active_; }
  /// Running answers end as cancelled.
  void cancel_all() noexcept;

 private:
  ServiceMetrics metrics_;
  ActiveGenerations active_;
  std::unique_ptr<GrammarCache> grammars_;
  ResponseStore responses_;
  std::unique_ptr<EngineLoop> loop_;
  std::unique_ptr<const Backend> backend_;
};

}  // namespace rocmforge
