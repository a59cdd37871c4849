#pragma once

#include <chrono>
#include <exception>
#include <string>
#include <string_view>

#include "server/api/json.h"
#include "server/http/http.h"
#include "service/service_error.h"

namespace rocmforge {

class ApiError;

/// Writes an error in the form of one API. Each API has its own beside its answers: anthropic_error(), ollama_error().
using ErrorForm = Json (*)(const ApiError& error);

/// {"error": {"message", "type", "param", "code"}}, with ApiError::details. Keys without a value are null.
Json openai_error(const ApiError& error);

/// An error that ends a request, with what the client gets.
class ApiError : public std::exception {
 public:
  /// `message_text` may quote the caller; it is made printable(), one line of at most longest_line bytes.
  ApiError(int http_status, std::string_view message_text, const std::string& parameter = {}, std::string error_code = {});

  /// 400, 501, 429 or 503; the last two with retry_after_seconds.
  ApiError(const ServiceError& error);  // NOLINT: it is the same error, as HTTP tells it

  [[nodiscard]] const char* what() const noexcept override { return message.c_str(); }
  [[nodiscard]] HttpResponse response(ErrorForm form = openai_error) const;

  int status;
  std::string message;
  std::string type;  ///< by the status, unless set
  std::string param;
  std::string code;
  int retry_after_seconds = 0;    ///< > 0: a Retry-After header
  Json details = Json::object();  ///< more keys of OpenAI's error object
};

/// A model that is not served (404).
ApiError no_such_model(std::string_view name);

/// The request's time has passed (504).
ApiError took_too_long(std::chrono::milliseconds limit);

/// "invalid_request_error" for 400 and so on.
std::string_view error_type(int status);

}  // namespace rocmforge
