#pragma once

#include <memory>

#include "server/api/generation.h"

namespace rocmforge {

/// POST /apply-template
void serve_apply_template(const std::shared_ptr<HttpExchange>& exchange, const Backend& backend);

}  // namespace rocmforge
