#pragma once

#include <functional>
#include <string>

#include "engine/engine.h"
#include "hub/pull.h"
#include "model_path.h"
#include "server/server.h"

namespace rocmforge::app {

/// What is asked of a download beside its name.
struct PullChoices {
  bool takes_cached = true;             ///< see hub::PullOptions
  const EngineOptions* fits = nullptr;  ///< refuse what can't run with these, before it is downloaded; null: download all
};

/// The model of that name in the hub's cache, downloaded where it is not there; its progress on standard error. Throws
/// Error.
hub::Pulled pull_model(const std::string& name, const PullChoices& choices);

/// The same for a client of the server, without a check whether it fits beside the model that is served: see PullFunction.
void pull_for_client(const std::string& name, const std::function<bool(const PullStatus&)>& tell);

/// The file that `argument` means, or that its name of the hub means: it is downloaded where the cache lacks it. With
/// `options` nothing is downloaded that can't run with them.
std::string find_model(const ModelArgument& argument);
std::string find_model(const ModelArgument& argument, const EngineOptions& options);

}  // namespace rocmforge::app
