#pragma once

#include <ctime>
#include <memory>
#include <string>

#include "server/api/generation.h"

namespace rocmforge {

// Ollama's API, for clients that have no other.

/// {"error": message}
Json ollama_error(const ApiError& error);

/// `details` of a model, from ServedModel::details.
Json ollama_details(const Json& meta);
/// "2026-03-01T12:00:00Z"
std::string ollama_time(std::time_t time);

/// POST /api/chat, /api/generate. Throw ApiError.
void serve_ollama_chat(const std::shared_ptr<HttpExchange>& exchange, const Backend& backend);
void serve_ollama_generate(const std::shared_ptr<HttpExchange>& exchange, const Backend& backend);

/// GET /api/tags, /api/ps; POST /api/show: the model.
void serve_ollama_tags(const std::shared_ptr<HttpExchange>& exchange, const Backend& backend);
void serve_ollama_ps(const std::shared_ptr<HttpExchange>& exchange, const Backend& backend);
void serve_ollama_show(const std::shared_ptr<HttpExchange>& exchange, const Backend& backend);

}  // namespace rocmforge
