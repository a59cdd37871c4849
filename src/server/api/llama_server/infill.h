#pragma once

#include <memory>

#include "server/api/generation.h"

namespace rocmforge {

/// POST /infill: llama-server's completion between `input_prefix` and `input_suffix`. Throws ApiError.
void serve_infill(const std::shared_ptr<HttpExchange>& exchange, const Backend& backend);

}  // namespace rocmforge
