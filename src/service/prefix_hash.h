#pragma once

#include <string>

#include "schedule/request.h"

namespace rocmforge {

/// Sixteen hex digits of the first 64 tokens of the prompt and its cache salt, or nothing for shorter prompts. Requests with
/// the same digits share computed prefixes: who distributes requests over several servers may send them to the same one. The
/// same in every process whose salts are the same: those of keys have the secret of the model's prompts.
std::string prefix_hash(const Request& request);

}  // namespace rocmforge
