#include "server/access.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <fstream>
#include <system_error>
#include <utility>

#include "base/error.h"
#include "base/sha256.h"

namespace rocmforge {
namespace {

/// Takes the same time for every `given` of one length.
bool same_secret(std::string_view secret, std::string_view given) {
  std::size_t difference = secret.size() ^ given.size();
  for (std::size_t i = 0; i < given.size(); ++i) {
    difference |= static_cast<unsigned char>(given[i]) ^ static_cast<unsigned char>(secret[i % secret.size()]);
  }
  return difference == 0;
}

std::string_view without_port(std::string_view host) { return host.substr(0, host.find(':')); }

bool ends_ignoring_case(std::string_view text, std::string_view end) {
  return text.size() >= end.size() && equal_ignoring_case(text.substr(text.size() - end.size()), end);
}

/// An address in numbers, or a name that no public zone can give to another machine, with or without a port: one without a
/// dot, such as "localhost" or a container's, or one below a domain that is reserved for local networks (RFC 6761, 6762 and
/// 8375; "internal" by ICANN).
bool is_local_name(std::string_view host) {
  if (host.starts_with('[')) {
    return true;
  }
  host = without_port(host);
  const std::size_t dot = host.rfind('.');
  if (dot == std::string_view::npos) {
    return true;
  }
  const std::string_view last = host.substr(dot + 1);
  const bool digits = !last.empty() && std::ranges::all_of(last, [](char c) { return c >= '0' && c <= '9'; });
  constexpr std::array<std::string_view, 4> reserved = {".localhost", ".local", ".internal", ".home.arpa"};
  return digits || std::ranges::any_of(reserved, [&](std::string_view end) { return ends_ignoring_case(host, end); });
}

std::string_view host_of(std::string_view origin) {
  const std::size_t scheme = origin.find("://");
  return scheme == std::string_view::npos ? std::string_view() : origin.substr(scheme + 3);
}

/// "KEY" or "KEY max-priority=N".
ApiKey read_key(const std::string& line) {
  constexpr std::string_view mark = "max-priority=";
  const std::size_t blank = line.find_last_of(" \t");
  const std::string_view end = std::string_view(line).substr(blank == std::string::npos ? line.size() : blank + 1);
  if (!end.starts_with(mark)) {
    return {line};
  }
  const std::string_view digits = end.substr(mark.size());
  std::int32_t priority = -1;
  const auto [rest, error] = std::from_chars(digits.data(), digits.data() + digits.size(), priority);
  if (error != std::errc() || rest != digits.data() + digits.size() || priority < 0 || priority > 1000) {
    throw Error(fmt::format("max-priority of a key is '{}', must be 0 to 1000", digits.substr(0, 20)));
  }
  return {line.substr(0, line.find_last_not_of(" \t", blank) + 1), priority};
}

/// A key that others can read is none, and what others can write is not the operator's.
void check_is_secret(const std::string& path) {
  struct stat found {};
  if (stat(path.c_str(), &found) == 0 && (found.st_mode & (S_IROTH | S_IWOTH | S_IWGRP)) != 0) {
    throw Error(fmt::format("others may read or change the file, its mode is {:o}: 600 or 640 keeps keys secret",
                            found.st_mode & 0777u))
        .in(path);
  }
}

}  // namespace

std::string prefix_space_of(const ApiKey& key) {
  const std::string text = "rocmforge prefixes of key " + key.text;
  return fmt::format("{:08x}", fmt::join(sha256({reinterpret_cast<const std::uint8_t*>(text.data()), text.size()}), ""));
}

AccessRules::AccessRules(std::vector<ApiKey> keys, std::vector<std::string> origins, std::vector<std::string> hosts)
    : keys_(std::move(keys)), origins_(std::move(origins)), hosts_(std::move(hosts)) {
  check(std::ranges::none_of(keys_, [](const ApiKey& key) { return key.text.empty(); }), "a key is not empty");
}

std::optional<std::size_t> AccessRules::key_of(const HttpRequest& request) const {
  std::string_view given = request.header("Authorization");
  constexpr std::string_view scheme = "Bearer ";
  if (given.size() > scheme.size() && equal_ignoring_case(given.substr(0, scheme.size()), scheme)) {
    given.remove_prefix(scheme.size());
  } else {
    given = request.header("X-Api-Key");
  }
  std::optional<std::size_t> found;
  for (std::size_t i = 0; i < keys_.size(); ++i) {  // all keys, so that the time does not show which one matches
    found = same_secret(keys_[i].text, given) ? std::optional(i) : found;
  }
  return found;
}

bool AccessRules::allows_origin(const HttpRequest& request) const {
  const std::string_view origin = request.header("Origin");
  if (origin.empty()) {
    return true;
  }
  const auto matches = [&](const std::string& allowed) { return allowed == "*" || equal_ignoring_case(allowed, origin); };
  const std::string_view host = request.header("Host");
  const bool own = !host_of(origin).empty() && equal_ignoring_case(host_of(origin), host);
  return own || std::ranges::any_of(origins_, matches);
}

bool AccessRules::allows_host(const HttpRequest& request) const {
  const std::string_view host = request.header("Host");
  const auto is_of_origin = [&](const std::string& origin) {
    return origin == "*" || equal_ignoring_case(host_of(origin), host);
  };
  const auto is_own = [&](const std::string& name) { return name == "*" || equal_ignoring_case(name, without_port(host)); };
  return !keys_.empty() || host.empty() || is_local_name(host) || std::ranges::any_of(hosts_, is_own) ||
         std::ranges::any_of(origins_, is_of_origin);
}

std::string machine_name() {
  std::array<char, 256> buffer{};
  return gethostname(buffer.data(), buffer.size() - 1) == 0 ? buffer.data() : "";
}

HttpHeaders AccessRules::cors_headers(const HttpRequest& request) const {
  const std::string_view origin = request.header("Origin");
  const bool is_named = std::ranges::any_of(
      origins_, [&](const auto& allowed) { return allowed != "*" && equal_ignoring_case(allowed, origin); });
  if (origin.empty() || (!is_named && std::ranges::find(origins_, "*") == origins_.end())) {
    return {};
  }
  HttpHeaders headers = {
      {"Access-Control-Allow-Origin", is_named ? std::string(origin) : "*"},
      {"Access-Control-Allow-Methods", "GET, POST, DELETE"},
      // "*" does not include Authorization, and has no effect in requests with credentials.
      {"Access-Control-Allow-Headers", "*, Authorization, Content-Type, X-Api-Key"},
      {"Access-Control-Expose-Headers", "Retry-After, X-Ignored-Fields, X-Prefix-Hash, X-Relaxed-Tools, X-Request-Id"},
      {"Vary", "Origin"}};
  if (is_named) {  // with "*" no page may read answers to requests with a visitor's cookies or certificates
    headers.emplace_back("Access-Control-Allow-Credentials", "true");
  }
  return headers;
}

std::vector<ApiKey> read_key_file(const std::string& path) {
  std::ifstream file(path);
  if (!file) {
    throw Error(std::strerror(errno)).in(path);
  }
  check_is_secret(path);
  std::vector<ApiKey> keys;
  for (std::string line; std::getline(file, line);) {
    line.erase(std::find_if(line.rbegin(), line.rend(), [](unsigned char c) { return c > 0x20; }).base(), line.end());
    if (!line.empty() && line.front() != '#') {
      keys.push_back(with_context(path, [&] { return read_key(line); }));
    }
  }
  if (keys.empty()) {
    throw Error("holds no key").in(path);
  }
  return keys;
}

}  // namespace rocmforge
