#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "server/api/generation.h"

namespace rocmforge {

/// POST /api/embed and /api/embeddings, Ollama's. Throw ApiError.
void serve_ollama_embed(const std::shared_ptr<HttpExchange>& exchange, const Backend& backend);
void serve_ollama_embeddings(const std::shared_ptr<HttpExchange>& exchange, const Backend& backend);

/// POST /embedding: llama-server's own form. Throws ApiError.
void serve_llama_embedding(const std::shared_ptr<HttpExchange>& exchange, const Backend& backend);

/// POST /v1/embeddings. Throws ApiError.
void serve_embeddings(const std::shared_ptr<HttpExchange>& exchange, const Backend& backend);

/// Little-endian f32 in base64.
std::string base64_floats(std::span<const float> values);

}  // namespace rocmforge
