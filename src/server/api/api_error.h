#pragma once

#include <chrono>
#include <exception>
#include <string>
#include <string_view>

#include "server/api/json.h"
#include "server/fair_shares.h"
#include "server/http/http.h"

namespace rocmforge {

/// How a client is told of an error.
enum class ErrorForm {
  openai,     ///< {"error": {"message", "type", "param", "code"}}
  anthropic,  ///< {"type": "error", "error": {"type", "message"}}
  ollama,     ///< {"error": message}
};

/// A request that can't be served: what the client is told.
class ApiError : public std::exception {
 public:
  /// Of `message_text`, which may quote the caller, one line: printable().
  ApiError(int http_status, std::string_view message_text, std::string parameter = {}, std::string error_code = {});

  [[nodiscard]] const char* what() const noexcept override { return message.c_str(); }
  /// All keys of the form, those without a value as null.
  [[nodiscard]] Json json(ErrorForm form = ErrorForm::openai) const;
  [[nodiscard]] HttpResponse response(ErrorForm form = ErrorForm::openai) const;

  int status;
  std::string message;
  std::string type;  ///< by the status, unless set
  std::string param;
  std::string code;
  int retry_after_seconds = 0;    ///< > 0: a Retry-After header
  Json details = Json::object();  ///< more keys of the error object
};

/// What the clients' requests may hold together does not suffice for one more (503).
ApiError no_memory_error(const FairShares& memory);

/// The request's time has passed (504).
ApiError took_too_long(std::chrono::milliseconds limit);

/// "invalid_request_error" for 400 and so on.
std::string_view error_type(int status);

}  // namespace rocmforge
