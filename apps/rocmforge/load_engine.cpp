#include "load_engine.h"

#include <filesystem>

#include "progress.h"
#include "step_timeout.h"

namespace rocmforge::app {

std::unique_ptr<Engine> load_engine(const std::string& path, EngineOptions options) {
  Progress progress("loading " + std::filesystem::path(path).filename().string());
  options.model.progress = [&progress](double fraction) { progress.update(fraction); };
  auto engine = load_model(path, options);
  engine->watch_steps(end_after_timeout);
  return engine;
}

}  // namespace rocmforge::app
