#pragma once

#include <string_view>

#include "schedule/request.h"
#include "server/api/fields.h"
#include "service/model.h"

namespace rocmforge {

/// The adapter that `name` names: by its own name, or as "MODEL:ADAPTER". Empty for other names. Throws ApiError (404) for
/// an adapter that was unloaded, and for "MODEL:NAME" of a model with adapters that has none of this name.
std::optional<LoadedAdapter> adapter_of_name(const ServedModel& model, std::string_view name);

/// The adapters of a request: `lora`, an array of {"id", "scale"}, else the one that `model` names. Without either the
/// request has those that the server uses for all.
void read_adapters(Fields& fields, const ServedModel& model, Request& request);

}  // namespace rocmforge
