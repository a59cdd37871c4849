#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "base/json.h"
#include "server/api/generation.h"
#include "service/reading.h"

namespace rocmforge {

/// Answers a request in the form of chat completions, in the calling thread, without HTTP. Returns the answer as JSON text.
/// With `take`, passes it the JSON text of each event of a stream and returns ""; false of it cancels the request.
/// Throws ApiError, ServiceError, Error and std::bad_alloc.
std::string answer_chat(const nlohmann::ordered_json& request, Reading& reading, const Backend& backend,
                        const std::function<bool(std::string_view)>& take);

}  // namespace rocmforge
