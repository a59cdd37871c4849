#pragma once

#include <span>
#include <string>
#include <string_view>

#include "server/api/fields.h"
#include "server/api/generation.h"

namespace rocmforge {

/// A field of OpenAI's, vLLM's or llama-server's API that would change the answer and is not served. Clients send many of
/// them with the value that asks for nothing.
struct UnservedField {
  std::string_view name;
  std::string_view neutral;  ///< a JSON array of the values that are accepted; null and absence always are
  std::string_view reason = "it is not served";
};

std::span<const UnservedField> unserved_fields();

/// The end of reading a request, behind the last field that its route serves. Accepts fields that change no answer, refuses
/// the unserved ones with ApiError(400), and what is unknown then is refused as well with `--strict-fields`; otherwise it is
/// ignored, which the answer's header X-Ignored-Fields and the log say.
void finish_fields(Fields& fields, Exchange& exchange, const Backend& backend);

/// The names for a header or a line of the log: what could end either is escaped as in a URL, and what is too much is left
/// out, which "..." at the end says.
std::string list_of_names(const UnknownFields& unknown);

}  // namespace rocmforge
