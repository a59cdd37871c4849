#pragma once

#include <memory>

#include "server/api/generation.h"

namespace rocmforge {

/// POST /v1/chat/completions. Throws ApiError.
void serve_chat(const std::shared_ptr<HttpExchange>& exchange, const Backend& backend);

}  // namespace rocmforge
