#include "service/image_files.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cctype>
#include <cstdlib>
#include <memory>
#include <optional>

#include "base/error.h"
#include "base/printable.h"

namespace rocmforge {
namespace {

constexpr std::string_view scheme = "file://";

struct CloseFile {
  int file;
  ~CloseFile() { ::close(file); }
};

/// %XX of a URL as bytes. Empty for other escapes, and for a zero.
std::optional<std::string> unescaped(std::string_view text) {
  constexpr std::string_view digits = "0123456789abcdef";
  std::string bytes;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      bytes += text[i];
      continue;
    }
    const auto digit = [&](std::size_t at) {
      return at < text.size() ? digits.find(static_cast<char>(std::tolower(static_cast<unsigned char>(text[at]))))
                              : digits.npos;
    };
    const std::size_t high = digit(i + 1), low = digit(i + 2);
    if (high == digits.npos || low == digits.npos) {
      return std::nullopt;
    }
    bytes += static_cast<char>(16 * high + low);
    i += 2;
  }
  return bytes.find('\0') == std::string::npos ? std::optional(std::move(bytes)) : std::nullopt;
}

/// The path of a file:// URL of this host.
std::string path_of(std::string_view url) {
  std::string_view rest = url.substr(scheme.size());
  constexpr std::string_view host = "localhost";
  if (rest.starts_with(host)) {
    rest.remove_prefix(host.size());
  }
  const auto path = rest.starts_with('/') ? unescaped(rest) : std::nullopt;
  if (!path) {
    throw Error(fmt::format("'{}' is no file:// URL with a whole path", printable(url, 200)));
  }
  return *path;
}

/// Without symbolic links and "..". Empty for a path that is not there.
std::optional<std::string> real_path(const std::string& path) {
  const std::unique_ptr<char, decltype(&std::free)> found(::realpath(path.c_str(), nullptr), &std::free);
  return found == nullptr ? std::nullopt : std::optional(std::string(found.get()));
}

bool is_below(const std::string& path, std::string folder) {
  folder += folder.ends_with('/') ? "" : "/";
  return path.starts_with(folder);
}

std::string read_whole(int file, std::size_t bytes) {
  std::string held(bytes, '\0');
  std::size_t at = 0;
  while (at < bytes) {
    const ssize_t got = ::read(file, held.data() + at, bytes - at);
    if (got <= 0) {
      break;
    }
    at += static_cast<std::size_t>(got);
  }
  held.resize(at);
  return held;
}

}  // namespace

std::string read_image_file(std::string_view url, const std::string& folder, std::size_t most_bytes) {
  const auto root = real_path(folder);
  const auto path = real_path(path_of(url));
  if (!root || !path || !is_below(*path, *root)) {
    throw Error(folder == "/" ? "there is no such file" : "there is no such file in the folder of images");
  }
  // No link: the path was resolved. A pipe is not waited for.
  const CloseFile opened{::open(path->c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK)};
  struct stat facts {};
  if (opened.file < 0 || ::fstat(opened.file, &facts) != 0 || !S_ISREG(facts.st_mode)) {
    throw Error("the file can't be read, or is no regular file");
  }
  if (static_cast<std::size_t>(facts.st_size) > most_bytes) {
    throw Error(fmt::format("the file has {} bytes, {} are read", facts.st_size, most_bytes));
  }
  return read_whole(opened.file, static_cast<std::size_t>(facts.st_size));
}

std::string url_of_file(std::string_view path) {
  std::string url(scheme);
  for (const char c : path) {
    const bool is_plain =
        std::isalnum(static_cast<unsigned char>(c)) != 0 || std::string_view("/-_.~").find(c) != std::string_view::npos;
    url += is_plain ? std::string(1, c) : fmt::format("%{:02X}", static_cast<unsigned char>(c));
  }
  return url;
}

}  // namespace rocmforge
