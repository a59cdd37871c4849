#pragma once

#include <memory>
#include <utility>

#include "server/api/generation.h"
#include "server/api/openai/response_store.h"
#include "service/models.h"

namespace rocmforge {

/// The models and what their answers share, for a server and for callers in the same process.
struct ModelService {
  ActiveGenerations active;
  ResponseStore responses;
  Models models;  // last: while its answers end, they use the rest

  /// Serves a model that has been loaded. Throws Error for a template that can't be read.
  void start(std::unique_ptr<Engine> engine, const ServiceOptions& options) { models.add(std::move(engine), options); }
};

}  // namespace rocmforge
