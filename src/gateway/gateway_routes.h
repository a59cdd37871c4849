#pragma once

#include <vector>

#include "gateway/forwarder.h"
#include "gateway/model_pool.h"
#include "server/routes.h"

namespace rocmforge {

/// The routes of a server of several models: those of a server of one are passed on to the model that a request names, but
/// the lists of models and what the server says of itself; with /models/load and /models/unload. Both objects must outlive
/// the server.
std::vector<Route> gateway_routes(const ServerOptions& options, ModelPool& pool, Forwarder& forwarder);

}  // namespace rocmforge
