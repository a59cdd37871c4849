#pragma once

#include <memory>
#include <string>

#include "engine/engine.h"
#include "service/model.h"

namespace rocmforge::app {

/// load_model() with a progress line, for commands that need text: throws Error for an encoder. A step that does not end in its time ends the program.
std::unique_ptr<Engine> load_engine(const std::string& path, const EngineOptions& options);

/// A model for one user, whose requests come one after another.
struct LocalModel {
  Engine& engine;  ///< the instance's: for its constant parts, and between answers for its counters
  std::unique_ptr<ModelInstance> instance;
};

/// The same with the thread that runs the steps.
LocalModel load_local_model(const std::string& path, const EngineOptions& options);

}  // namespace rocmforge::app
