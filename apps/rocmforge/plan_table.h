#pragma once

#include <nlohmann/json_fwd.hpp>

#include "models/model.h"

namespace rocmforge::app {

/// Which kernel serves each operation, and why not the others. Layers that are served alike share a line.
void print_plan(const Model& model);
nlohmann::ordered_json plan_json(const Model& model);

}  // namespace rocmforge::app
