#include "hub/name.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/printable.h"
#include "base/split.h"
#include "base/utf8.h"

namespace rocmforge::hub {
namespace {

constexpr std::size_t longest_word = 96;
constexpr std::size_t longest_part = 255;
constexpr std::size_t longest_path = 1024;

/// Whether the hubs allow `text` as a part of a name. Such a part is also valid in an address and in a file name.
bool is_word(std::string_view text) {
  return !text.empty() && text.size() <= longest_word && !text.starts_with('.') && !text.starts_with('-') &&
         text.find("..") == std::string_view::npos && text.find("--") == std::string_view::npos &&
         std::ranges::all_of(text, [](char c) {
           return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_' ||
                  c == '.';
         });
}

std::string join_parts(const std::vector<std::string_view>& parts, std::size_t begin) {
  std::string joined;
  for (std::size_t i = begin; i < parts.size(); ++i) {
    joined += (i > begin ? "/" : "") + std::string(parts[i]);
  }
  return joined;
}

bool take_prefix(std::string_view& text, std::string_view prefix) {
  const bool found = text.starts_with(prefix);
  text.remove_prefix(found ? prefix.size() : 0);
  return found;
}

/// Removes ":WORD" from the end, if there is a colon. Returns false if the text after it is not a word.
bool take_choice(std::string_view& text, std::string& choice) {
  const std::size_t colon = text.rfind(':');
  if (colon == std::string_view::npos) {
    return true;
  }
  choice = text.substr(colon + 1);
  text = text.substr(0, colon);
  return is_word(choice);
}

bool read_ollama(std::string_view text, ModelName& name) {
  name.source = ModelName::Source::ollama;
  if (!take_choice(text, name.choice)) {
    return false;
  }
  const std::vector<std::string_view> parts = split(text, '/');
  name.repository = parts.size() == 1 ? "library/" + std::string(parts[0]) : std::string(text);
  return parts.size() <= 2 && std::ranges::all_of(parts, is_word);
}

bool read_hugging_face(std::string_view text, ModelName& name) {
  const bool names_file = text.ends_with(".gguf");
  if (!names_file && !take_choice(text, name.choice)) {
    return false;
  }
  const std::vector<std::string_view> parts = split(text, '/');
  if (parts.size() < 2 || !is_word(parts[0]) || !is_word(parts[1])) {
    return false;
  }
  name.repository = join_parts({parts[0], parts[1]}, 0);
  std::size_t file_begin = 2;
  if (parts.size() > 4 && (parts[2] == "blob" || parts[2] == "resolve")) {
    name.revision = parts[3];
    file_begin = 4;
  }
  name.file = join_parts(parts, file_begin);
  return is_word(name.revision) && (names_file ? is_safe_path(name.file) : parts.size() == 2);
}

}  // namespace

std::string ModelName::title() const { return source == Source::ollama ? "ollama.com/" + repository : repository; }

bool is_safe_path(std::string_view path) {
  if (path.empty() || path.size() > longest_path) {
    return false;
  }
  std::string held;
  if (replace_invalid_utf8(path, held) != path || printable(path) != path || path.find('\\') != std::string_view::npos) {
    return false;
  }
  return std::ranges::all_of(split(path, '/'), [](std::string_view part) {
    return !part.empty() && part != "." && part != ".." && part.size() <= longest_part;
  });
}

ModelName parse_model_name(std::string_view text) {
  std::string_view rest = text.substr(0, text.find_first_of("?#"));
  const bool has_scheme = take_prefix(rest, "https://") || take_prefix(rest, "http://");
  ModelName name;
  bool read = false;
  if (take_prefix(rest, "hf.co/") || take_prefix(rest, "huggingface.co/")) {
    read = read_hugging_face(rest, name);
  } else if (take_prefix(rest, "ollama.com/") || take_prefix(rest, "registry.ollama.ai/")) {
    read = rest.find('/') != std::string_view::npos && read_ollama(rest, name);
  } else if (!has_scheme) {
    read = rest.find('/') == std::string_view::npos ? read_ollama(rest, name) : read_hugging_face(rest, name);
  }
  if (!read) {
    throw Error(
        fmt::format("'{}' names no model: OWNER/REPO[:QUANT] and OWNER/REPO/FILE.gguf are of huggingface.co, NAME[:TAG] and "
                    "ollama.com/OWNER/NAME[:TAG] of ollama.com",
                    printable(text, 200)));
  }
  return name;
}

bool looks_like_hub_name(std::string_view text) {
  ModelName name;
  return read_hugging_face(text, name);
}

}  // namespace rocmforge::hub
