#include "load_engine.h"

#include <filesystem>

#include "progress.h"

namespace rocmforge::app {

std::unique_ptr<Engine> load_engine(const std::string& path, EngineOptions options) {
  Progress progress("loading " + std::filesystem::path(path).filename().string());
  options.model.progress = [&progress](double fraction) { progress.update(fraction); };
  return load_model(path, options);
}

}  // namespace rocmforge::app
