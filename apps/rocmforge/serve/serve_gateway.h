#pragma once

#include <vector>

#include "gateway/model_pool.h"
#include "serve/gateway_flags.h"
#include "serve_flags.h"

namespace rocmforge::app {

/// Serves several models at one port until a signal ends the program: see ModelPool. Returns the exit code.
int serve_gateway(std::vector<ModelChoice> choices, const GatewayFlags& gateway, const ListenFlags& listen,
                  const ServiceFlags& service);

}  // namespace rocmforge::app
