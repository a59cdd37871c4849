#pragma once

#include <memory>

#include "server/api/generation.h"

namespace rocmforge {

/// {"type": "error", "error": {"type", "message"}}
Json anthropic_error(const ApiError& error);

/// POST /v1/messages, Anthropic's API. Throws ApiError.
void serve_anthropic_messages(const std::shared_ptr<HttpExchange>& exchange, const Backend& backend);

/// POST /v1/messages/count_tokens: {"input_tokens"} of the same request. Throws ApiError.
void serve_anthropic_count_tokens(const std::shared_ptr<HttpExchange>& exchange, const Backend& backend);

}  // namespace rocmforge
