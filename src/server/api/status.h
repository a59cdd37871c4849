#pragma once

#include <memory>

#include "server/routes.h"

namespace rocmforge {

/// An entry of /v1/models.
Json describe_model(const ServedModel& model);

// The routes that report state and compute nothing.
void serve_health(const std::shared_ptr<HttpExchange>& exchange, ServerState& state);
void serve_ready(const std::shared_ptr<HttpExchange>& exchange, ServerState& state);
void serve_version(const std::shared_ptr<HttpExchange>& exchange, ServerState& state);
void serve_metrics(const std::shared_ptr<HttpExchange>& exchange, ServerState& state);
void serve_models(const std::shared_ptr<HttpExchange>& exchange, ServerState& state);
void serve_model(const std::shared_ptr<HttpExchange>& exchange, ServerState& state);
void serve_props(const std::shared_ptr<HttpExchange>& exchange, ServerState& state);
void serve_slots(const std::shared_ptr<HttpExchange>& exchange, ServerState& state);

}  // namespace rocmforge
