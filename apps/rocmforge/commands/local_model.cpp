#include "commands/local_model.h"

#include <fmt/format.h>

#include <filesystem>
#include <utility>

#include "base/error.h"
#include "commands/rank_job.h"
#include "commands/step_timeout.h"
#include "terminal/progress.h"

namespace rocmforge::app {

namespace {

std::unique_ptr<Engine> load_with_progress(const std::string& path, EngineOptions options) {
  take_rank(path, options);
  Progress progress("loading " + std::filesystem::path(path).filename().string());
  options.model.progress = [&progress](double fraction) { progress.update(fraction); };
  std::unique_ptr<Engine> engine = load_model(path, options);
  if (const ModelConfig& config = engine->model().config(); config.encoder.is_encoder) {
    throw Error(fmt::format("{}: the model ({}) is an encoder and writes no text; 'rocmforge serve' gives its {}", path,
                            config.architecture, config.encoder.labels > 0 ? "scores" : "embeddings"));
  }
  return engine;
}

}  // namespace

std::unique_ptr<Engine> load_engine(const std::string& path, const EngineOptions& options) {
  auto engine = load_with_progress(path, options);
  engine->watch_steps(end_after_timeout);
  return engine;
}

LocalModel load_local_model(const std::string& path, const EngineOptions& options) {
  std::unique_ptr<Engine> loaded = load_with_progress(path, options);
  Engine& engine = *loaded;
  ServiceOptions service;
  service.model_path = path;
  service.image_sources.folder = "/";  // the program's own user names the files
  service.on_abandoned = end_after_timeout;
  return {engine, std::make_unique<ModelInstance>(std::move(loaded), service, std::make_shared<ServiceMetrics>())};
}

}  // namespace rocmforge::app
