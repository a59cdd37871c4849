#include "server/api/multipart.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "server/api/api_error.h"
#include "server/http/http.h"

namespace rocmforge {
namespace {

constexpr std::string_view form_type = "multipart/form-data";
constexpr std::string_view line_end = "\r\n";
constexpr std::size_t most_parts = 64, longest_head = 8192, longest_boundary = 70;

ApiError broken(const std::string& why) { return {400, "the body is no multipart/form-data: " + why}; }

std::string_view trimmed(std::string_view text) {
  const std::size_t begin = std::min(text.find_first_not_of(" \t"), text.size());
  return text.substr(begin, text.find_last_not_of(" \t") + 1 - begin);
}

/// The parameter of a header's value such as `form-data; name="file"`; empty without it. A quoted one may hold \" and \\.
std::optional<std::string> parameter(std::string_view value, std::string_view wanted) {
  std::size_t at = value.find(';');
  while (at < value.size()) {
    const std::size_t equals = value.find('=', ++at);
    if (equals == std::string_view::npos) {
      break;
    }
    const std::string_view name = trimmed(value.substr(at, equals - at));
    std::string found;
    at = equals + 1;
    if (at < value.size() && value[at] == '"') {
      for (++at; at < value.size() && value[at] != '"'; ++at) {
        at += value[at] == '\\' && at + 1 < value.size() ? 1 : 0;
        found += value[at];
      }
      at = value.find(';', at);
    } else {
      const std::size_t end = std::min(value.find(';', at), value.size());
      found = trimmed(value.substr(at, end - at));
      at = end;
    }
    if (equal_ignoring_case(name, wanted)) {
      return found;
    }
  }
  return std::nullopt;
}

/// The part behind a boundary: lines of its head, an empty line, its content.
FormPart read_part(std::string_view text) {
  const std::size_t end = text.substr(0, longest_head).find("\r\n\r\n");
  if (end == std::string_view::npos) {
    throw broken("the head of a part has no end");
  }
  FormPart part{.name = {}, .content = text.substr(end + 4)};
  bool is_named = false;
  for (std::string_view head = text.substr(0, end); !head.empty();) {
    const std::string_view line = head.substr(0, head.find(line_end));
    head.remove_prefix(std::min(line.size() + line_end.size(), head.size()));
    const std::size_t colon = line.find(':');
    if (colon != std::string_view::npos && equal_ignoring_case(line.substr(0, colon), "Content-Disposition")) {
      std::optional<std::string> name = parameter(line, "name");
      is_named = name.has_value();
      part.name = std::move(name).value_or("");
      part.is_file = parameter(line, "filename").has_value() || parameter(line, "filename*").has_value();
    }
  }
  if (!is_named) {
    throw broken("a part has no name");
  }
  return part;
}

}  // namespace

bool is_form(std::string_view content_type) {
  return equal_ignoring_case(trimmed(content_type.substr(0, content_type.find(';'))), form_type);
}

std::vector<FormPart> read_form(std::string_view content_type, std::string_view body, WorkBudget* budget) {
  if (!is_form(content_type)) {
    throw ApiError(400, "the body must be of the type multipart/form-data");
  }
  const std::string boundary = parameter(content_type, "boundary").value_or("");
  if (boundary.empty() || boundary.size() > longest_boundary) {
    throw broken("Content-Type names no boundary of 1 to 70 characters");
  }
  spend(budget, body.size() / 4);
  const std::string first = "--" + boundary, next = "\r\n" + first;
  if (!body.starts_with(first)) {
    throw broken("it does not begin with the boundary");
  }
  body.remove_prefix(first.size());
  std::vector<FormPart> parts;
  while (!body.starts_with("--")) {
    if (!body.starts_with(line_end)) {
      throw broken("a boundary does not end its line");
    }
    body.remove_prefix(line_end.size());
    const std::size_t end = body.find(next);
    if (end == std::string_view::npos) {
      throw broken("it has no end");
    }
    if (parts.size() == most_parts) {
      throw broken("it has more than 64 parts");
    }
    parts.push_back(read_part(body.substr(0, end)));
    body.remove_prefix(end + next.size());
  }
  return parts;
}

}  // namespace rocmforge
