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

int status_of(ServiceError::Kind kind) {
  switch (kind) {
    case ServiceError::Kind::invalid:
      return 400;
    case ServiceError::Kind::unsupported:
      return 501;
    case ServiceError::Kind::busy:
      return 429;
    case ServiceError::Kind::no_memory:
      break;
  }
  return 503;
}

}  // namespace

ApiError no_such_model(std::string_view name) {
  return {404, fmt::format("there is no model '{}'", name.substr(0, 64)), "model", "model_not_found"};
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

ApiError::ApiError(const ServiceError& error) : ApiError(status_of(error.kind), error.message, error.field) {
  retry_after_seconds = status == 429 || status == 503 ? 1 : 0;
}

Json openai_error(const ApiError& error) {
  const auto text_or_null = [](const std::string& text) { return text.empty() ? Json(nullptr) : Json(text); };
  Json object = {{"message", error.message},
                 {"type", error.type},
                 {"param", text_or_null(error.param)},
                 {"code", text_or_null(error.code)}};
  object.update(error.details);
  return {{"error", std::move(object)}};
}

HttpResponse ApiError::response(ErrorForm form) const {
  HttpResponse response{.status = status, .body = to_text(form(*this))};
  if (retry_after_seconds > 0) {
    response.headers.emplace_back("Retry-After", fmt::format("{}", retry_after_seconds));
  }
  if (status == 401) {
    response.headers.emplace_back("WWW-Authenticate", "Bearer");
  }
  return response;
}

}  // namespace rocmforge
