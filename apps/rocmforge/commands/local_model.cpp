#include "commands/local_model.h"

#include <filesystem>
#include <utility>

#include "commands/step_timeout.h"
#include "terminal/progress.h"

namespace rocmforge::app {

namespace {

std::unique_ptr<Engine> load_with_progress(const std::string& path, EngineOptions options) {
  Progress progress("loading " + std::filesystem::path(path).filename().string());
  options.model.progress = [&progress](double fraction) { progress.update(fraction); };
  return load_model(path, options);
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
  service.on_abandoned = end_after_timeout;
  return {engine, std::make_unique<ModelInstance>(std::move(loaded), service, std::make_shared<ServiceMetrics>())};
}

}  // namespace rocmforge::app
