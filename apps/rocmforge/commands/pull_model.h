#pragma once

#include <functional>
#include <string>

#include "engine/engine.h"
#include "hub/pull.h"
#include "model_path.h"
#include "server/server.h"

namespace rocmforge::app {

/// Options of a download.
struct PullChoices {
  bool takes_cached = true;             ///< see hub::PullOptions
  const EngineOptions* fits = nullptr;  ///< refuse a model that can't run with these before the download; null: no check
};

/// The model of that name in the hub's cache, downloaded if it is missing; shows progress on standard error. Throws
/// Error.
hub::Pulled pull_model(const std::string& name, const PullChoices& choices);

/// The same for a client of the server, without the check that it fits: see PullFunction.
void pull_for_client(const PullRequest& request, const std::function<bool(const PullStatus&)>& tell);

/// The file that `argument` names. A model with a hub name is downloaded if the cache lacks it, but not if it can't run with
/// `options`.
std::string find_model(const ModelArgument& argument);
std::string find_model(const ModelArgument& argument, const EngineOptions& options);

}  // namespace rocmforge::app
