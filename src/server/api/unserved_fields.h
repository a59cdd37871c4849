#pragma once

#include <span>
#include <string>
#include <string_view>

#include "server/api/fields.h"
#include "server/api/generation.h"

namespace rocmforge {

/// A field of OpenAI's, vLLM's or llama-server's API that would change the answer and is not served. Clients send many of
/// them with their neutral value.
struct UnservedField {
  std::string_view name;
  std::string_view neutral;  ///< a JSON array of the accepted values; null and absence are always accepted
  std::string_view reason = "it is not served";
};

std::span<const UnservedField> unserved_fields();

/// Ends the reading of a request, after the last field that its route serves. Accepts fields that change no answer, and
/// refuses unserved ones with ApiError(400). Unknown fields are refused with `--strict-fields`, otherwise ignored; the
/// answer's header X-Ignored-Fields and the log name them.
void finish_fields(Fields& fields, HttpExchange& exchange, const Backend& backend);

/// The same for a caller in the same process: unknown fields are refused with `--strict-fields`, else left out.
void refuse_unserved_fields(Fields& fields, const Backend& backend);

/// The last part of finish_fields(): names or refuses what fields.unknown() holds.
void tell_unknown_fields(const Fields& fields, HttpExchange& exchange, const Backend& backend);

/// The names for a header or a line of the log. Characters that could end either are escaped as in a URL; a long list ends
/// with "...".
std::string list_of_names(const UnknownFields& unknown);

}  // namespace rocmforge
