#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "schedule/request.h"
#include "server/api/fields.h"
#include "service/model.h"

namespace rocmforge {

/// Fields that name tokens: logit_bias, stop_token_ids, min_tokens, bad_words.
void read_token_fields(Fields& fields, const ServedModel& model, Request& request);

struct TextLimits {
  std::size_t most = 0;     ///< texts
  std::size_t longest = 0;  ///< bytes of one
};
/// A member of the request that is a text, neither empty nor longer than `longest` bytes.
std::string read_text(const Fields& fields, std::string_view name, const Json& value, std::size_t longest);
/// Likewise an array of texts.
std::vector<std::string> read_texts(const Fields& fields, std::string_view name, const Json& value, TextLimits limits);

}  // namespace rocmforge
