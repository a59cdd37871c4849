#pragma once

#include <memory>

#include "server/http_exchange.h"
#include "server/routes.h"

namespace rocmforge {

/// GET /lora-adapters, as llama-server: an array of the adapters with their scales for requests that name none.
void serve_adapters(const std::shared_ptr<HttpExchange>& exchange, ServerState& state);
/// POST /lora-adapters: sets these scales by [{"id", "scale"}]; adapters that are not listed get 0.
void serve_adapter_scales(const std::shared_ptr<HttpExchange>& exchange, ServerState& state);
/// POST /v1/load_lora_adapter, as vLLM: {"lora_name", "lora_path"}. Files below ServerOptions::adapter_folder alone.
void serve_adapter_load(const std::shared_ptr<HttpExchange>& exchange, ServerState& state);
/// POST /v1/unload_lora_adapter: {"lora_name"}. Requests that use the adapter keep it until they end.
void serve_adapter_unload(const std::shared_ptr<HttpExchange>& exchange, ServerState& state);

}  // namespace rocmforge
