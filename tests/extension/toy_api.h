#pragma once

#include "server/routes.h"

// An API that nobody speaks, in the files that docs/add-an-api.md names: what the page says is compiled here.
//
// POST /toy/ask {"question": "...", "words": 8} gives {"reply": "...", "thoughts": "...", "end": "stop"}, streamed in lines.

namespace rocmforge {

/// {"oops": message}
Json toy_error(const ApiError& error);

/// The rows that server_routes() would have.
std::vector<Route> toy_routes();

}  // namespace rocmforge
