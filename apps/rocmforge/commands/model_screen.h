#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "engine/plan_model.h"
#include "weights/gguf_file.h"

namespace rocmforge::app {

/// The description of a model: its numbers, and its layers by kind. It has "refused" instead of the numbers if this build
/// does not support the architecture.
nlohmann::ordered_json model_json(const GgufFile& file);

/// The memory that it needs on the planned device.
nlohmann::ordered_json memory_json(const PlannedModel& planned);

/// The same for the CPU and each GPU of this machine, or for the device that `options` name; "refused" instead of the
/// numbers for a device that can't run the model.
nlohmann::ordered_json devices_json(const std::string& path, const EngineOptions& options);

/// `model` and `devices` as lines of at most 100 columns; for most files not more than 24 lines.
std::vector<std::string> model_screen(const GgufFile& file, const nlohmann::ordered_json& model,
                                      const nlohmann::ordered_json& devices, const KvTypes& kv_dtype);

}  // namespace rocmforge::app
