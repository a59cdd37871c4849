#pragma once

#include <vector>

#include "gateway/model_pool.h"
#include "server/api/json.h"

namespace rocmforge {

/// An entry of /v1/models: as a server of one model has it, with `status` {value, failed, exit_code, error} as llama-server
/// has it. `meta` is known once a model was loaded.
Json model_entry(const ModelStatus& model);
Json model_list(const std::vector<ModelStatus>& models);

/// /api/tags: all models. /api/ps: the loaded ones, with the time at which each ends if nobody asks for it.
Json ollama_tags(const std::vector<ModelStatus>& models);
Json ollama_loaded(const std::vector<ModelStatus>& models);

}  // namespace rocmforge
