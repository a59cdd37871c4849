#include "hub/settings.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>
#include <fstream>
#include <initializer_list>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>

#include "base/ascii.h"
#include "base/error.h"
#include "base/printable.h"

namespace rocmforge::hub {

namespace fs = std::filesystem;

namespace {

std::optional<std::string> first_set(std::initializer_list<const char*> names) {
  for (const char* name : names) {
    if (const char* value = std::getenv(name); value != nullptr && *value != '\0') {
      return value;
    }
  }
  return std::nullopt;
}

bool is_on(const char* name) {
  const std::string value = ascii_upper(first_set({name}).value_or(""));
  return value == "1" || value == "ON" || value == "YES" || value == "TRUE";
}

fs::path hub_home() {
  if (const auto home = first_set({"HF_HOME"})) {
    return *home;
  }
  if (const auto cache = first_set({"XDG_CACHE_HOME"})) {
    return fs::path(*cache) / "huggingface";
  }
  const auto home = first_set({"HOME"});
  return home ? fs::path(*home) / ".cache" / "huggingface" : fs::path();
}

std::string endpoint_of(const char* variable, std::string otherwise) {
  std::string endpoint = first_set({variable}).value_or(std::move(otherwise));
  if (!endpoint.starts_with("https://") && !endpoint.starts_with("http://")) {
    throw Error(
        fmt::format("{}: '{}' is no address that begins with https:// or http://", variable, printable(endpoint, 200)));
  }
  while (endpoint.ends_with('/')) {
    endpoint.pop_back();
  }
  return endpoint;
}

int seconds_of(const char* variable, int otherwise) {
  const auto text = first_set({variable});
  if (!text) {
    return otherwise;
  }
  int seconds = 0;
  const auto [end, problem] = std::from_chars(text->data(), text->data() + text->size(), seconds);
  if (problem != std::errc() || end != text->data() + text->size() || seconds < 1 || seconds > 3600) {
    throw Error(fmt::format("{}: '{}' is no number of seconds from 1 to 3600", variable, printable(*text, 200)));
  }
  return seconds;
}

/// A token is one word; anything else would become part of the request.
std::string token_of(std::string text, std::string_view from) {
  constexpr std::string_view blanks = " \t\r\n";
  text.erase(0, std::min(text.find_first_not_of(blanks), text.size()));
  text.erase(text.find_last_not_of(blanks) + 1);
  if (std::ranges::any_of(text, [](char c) { return c <= ' ' || c > '~'; })) {
    throw Error(fmt::format("{}: what stands there is no token", from));
  }
  return text;
}

std::string read_token() {
  if (is_on("HF_HUB_DISABLE_IMPLICIT_TOKEN")) {
    return "";
  }
  if (const auto token = first_set({"HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"})) {
    return token_of(*token, "HF_TOKEN");
  }
  const auto named = first_set({"HF_TOKEN_PATH"});
  const fs::path path = named ? fs::path(*named) : hub_home() / "token";
  std::ifstream file(path, std::ios::binary);
  std::array<char, 4096> bytes{};
  file.read(bytes.data(), bytes.size());
  return token_of(std::string(bytes.data(), static_cast<std::size_t>(file.gcount())), path.string());
}

}  // namespace

fs::path cache_folder() {
  if (const auto folder = first_set({"HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"})) {
    return *folder;
  }
  const fs::path home = hub_home();
  return home.empty() ? home : home / "hub";
}

Settings read_settings() {
  Settings settings;
  settings.endpoint = endpoint_of("HF_ENDPOINT", settings.endpoint);
  settings.ollama_endpoint = endpoint_of("ROCMFORGE_OLLAMA_ENDPOINT", settings.ollama_endpoint);
  settings.cache = cache_folder();
  if (settings.cache.empty()) {
    throw Error("there is no folder for models: set HF_HUB_CACHE or HOME");
  }
  settings.token = read_token();
  settings.certificates = first_set({"CURL_CA_BUNDLE", "SSL_CERT_FILE"}).value_or("");
  settings.offline = is_on("HF_HUB_OFFLINE");
  settings.answer_seconds = seconds_of("HF_HUB_ETAG_TIMEOUT", settings.answer_seconds);
  settings.stall_seconds = seconds_of("HF_HUB_DOWNLOAD_TIMEOUT", settings.stall_seconds);
  return settings;
}

}  // namespace rocmforge::hub
