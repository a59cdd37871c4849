#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>

namespace rocmforge {

/// What a router has to know of a request's body.
struct AskedModel {
  std::optional<std::string> name{};  ///< "model", or else "name" as Ollama's older clients have it
  /// How long the model stays loaded after this request (Ollama's keep_alive); empty: as the server is set.
  std::optional<std::string> keep_alive{};
};

/// Reads members of the outermost object of a JSON text, in one pass and without a copy of the rest. Of members with one
/// name the last counts, as for the readers of requests. A text that is not JSON gives what was found before its mistake:
/// the model's server refuses it. Strings that are no text, and values of other types, count as absent.
AskedModel read_asked_model(std::string_view body);
/// The same of the form that a body is by its header Content-Type (read_form). Throws ApiError.
AskedModel read_asked_form(std::string_view content_type, std::string_view body);

/// How long a model stays loaded while nobody asks for it; empty: for ever.
using KeepAlive = std::optional<std::chrono::milliseconds>;

/// Ollama's form: a number of seconds, or numbers with units ("5m", "1h30m", "500ms"); below 0: for ever. Throws Error that
/// quotes the text.
KeepAlive read_keep_alive(std::string_view text);

}  // namespace rocmforge
