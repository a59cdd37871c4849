#pragma once

#include <memory>

#include "server/api/generation.h"

namespace rocmforge {

/// POST /v1/responses, OpenAI's Responses API. Throws ApiError.
void serve_response(const std::shared_ptr<HttpExchange>& exchange, const Backend& backend);

/// POST /v1/responses/input_tokens: {"object", "input_tokens"} of the same request. Throws ApiError.
void serve_response_input_tokens(const std::shared_ptr<HttpExchange>& exchange, const Backend& backend);

/// GET and DELETE /v1/responses/ID: one that was stored. Throw ApiError(404).
void serve_stored_response(const std::shared_ptr<HttpExchange>& exchange, const Backend& backend);
void serve_response_removal(const std::shared_ptr<HttpExchange>& exchange, const Backend& backend);

}  // namespace rocmforge
