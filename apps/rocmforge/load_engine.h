#pragma once

#include <memory>
#include <string>

#include "engine/engine.h"

namespace rocmforge::app {

/// load_model() with a progress line. A step that does not end in its time ends the program.
std::unique_ptr<Engine> load_engine(const std::string& path, EngineOptions options);

}  // namespace rocmforge::app
