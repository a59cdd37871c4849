#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <vector>

#include "server/api/generation.h"
#include "server/api/prompts.h"

namespace rocmforge {

/// POST /generate and /completion: llama-server's own form of completion. Throws ApiError.
void serve_llama_completion(const std::shared_ptr<HttpExchange>& exchange, const Backend& backend);

struct LlamaPrompts {
  std::vector<Json> sent;                                          ///< the prompts, as the answer repeats them
  bool is_list = false;                                            ///< the answer is an array
  std::function<void(std::size_t number, Request& request)> give;  ///< a prompt to a request with all its limits
};

/// Reads all fields but the prompts, and starts the answers. Checks that no other field is left. Throws ApiError.
void start_llama_completion(Fields& fields, const std::shared_ptr<HttpExchange>& exchange, const Backend& backend,
                            LlamaPrompts prompts);

}  // namespace rocmforge
