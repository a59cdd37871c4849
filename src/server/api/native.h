#pragma once

#include <memory>

#include "server/api/generation.h"

namespace rocmforge {

/// POST /generate and /completion: llama-server's own form of completion. Throws ApiError.
void serve_native(const std::shared_ptr<Exchange>& exchange, const Backend& backend);

}  // namespace rocmforge
