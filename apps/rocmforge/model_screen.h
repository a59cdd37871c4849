#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "engine/plan_model.h"
#include "weights/gguf_file.h"

namespace rocmforge::app {

/// The parts of a model: its numbers, and its layers by kind. "refused" in place of the numbers when this build does not
/// know the architecture.
nlohmann::ordered_json model_json(const GgufFile& file);

/// The memory that it needs on the planned device.
nlohmann::ordered_json memory_json(const PlannedModel& planned);

/// The same for the processor and each GPU of this machine, or for the device that `options` name; "refused" in place of
/// the numbers where it can't run.
nlohmann::ordered_json devices_json(const std::string& path, const EngineOptions& options);

/// Both in lines of at most 100 columns, which for most files fit on one screen of 24.
std::vector<std::string> model_screen(const GgufFile& file, const nlohmann::ordered_json& model,
                                      const nlohmann::ordered_json& devices, DType kv_dtype);

}  // namespace rocmforge::app
