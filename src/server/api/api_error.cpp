#include "server/api/api_error.h"

#include <fmt/format.h>

#include <utility>

#include "base/printable.h"

namespace rocmforge {

std::string_view error_type(int status) {
  switch (status) {
    case 401:
    case 403:
      return "authentication_error";
    case 404:
      return "not_found_error";
    case 429:
      return "rate_limit_error";
    case 501:
      return "not_supported_error";
    case 503:
      return "unavailable_error";
    case 504:
      return "timeout_error";
    default:
      return status < 500 ? "invalid_request_error" : "server_error";
  }
}

namespace {

/// Of a field: a client may have made it up.
constexpr std::size_t longest_name = 200;

std::string_view anthropic_error_type(int status) {
  switch (status) {
    case 403:
      return "permission_error";
    case 413:
      return "request_too_large";
    case 503:
      return "overloaded_error";
    default:
      return status >= 500 ? "api_error" : error_type(status);
  }
}

}  // namespace

ApiError no_memory_error(const RequestMemory& memory) {
  ApiError error(503, no_memory_text(memory));
  error.retry_after_seconds = 1;
  return error;
}

ApiError took_too_long(std::chrono::milliseconds limit) {
  return ApiError(504, fmt::format("the request took longer than {:.3g} s", std::chrono::duration<double>(limit).count()));
}

ApiError::ApiError(int http_status, std::string_view message_text, const std::string& parameter, std::string error_code)
    : status(http_status),
      message(printable(message_text, longest_line)),
      type(error_type(http_status)),
      param(printable(parameter, longest_name)),
      code(std::move(error_code)) {}

Json ApiError::json(ErrorForm form) const {
  if (form == ErrorForm::anthropic) {
    return {{"type", "error"}, {"error", {{"type", anthropic_error_type(status)}, {"message", message}}}};
  }
  if (form == ErrorForm::ollama) {
    return {{"error", message}};
  }
  const auto text_or_null = [](const std::string& text) { return text.empty() ? Json(nullptr) : Json(text); };
  Json error = {{"message", message}, {"type", type}, {"param", text_or_null(param)}, {"code", text_or_null(code)}};
  error.update(details);
  return {{"error", std::move(error)}};
}

HttpResponse ApiError::response(ErrorForm form) const {
  HttpResponse response{.status = status, .body = to_text(json(form))};
  if (retry_after_seconds > 0) {
    response.headers.emplace_back("Retry-After", fmt::format("{}", retry_after_seconds));
  }
  if (status == 401) {
    response.headers.emplace_back("WWW-Authenticate", "Bearer");
  }
  return response;
}

}  // namespace rocmforge
