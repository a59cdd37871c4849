#include "engine/salt_secret.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <random>
#include <span>

#include "base/error.h"
#include "engine/piece_file.h"

namespace rocmforge {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t secret_digits = 64;

/// Several processes may use the folder: the file gets its name when it is whole, and only one gives it that name.
void make_secret(const fs::path& folder, const fs::path& path) {
  const fs::path temporary = folder / (random_salt_secret() + ".prompt-tmp");
  const std::string text = random_salt_secret() + "\n";
  try {
    PieceFile file(temporary, O_WRONLY | O_CREAT | O_EXCL);
    if (!file.is_open()) {
      throw Error(std::strerror(errno));
    }
    file.write(std::as_bytes(std::span(text)));
    if (::link(temporary.c_str(), path.c_str()) != 0 && errno != EEXIST) {
      throw Error(std::strerror(errno));
    }
  } catch (const Error& error) {
    ::unlink(temporary.c_str());
    throw Error(fmt::format("the secret of salts can't be made: {}", error.what())).in(path.string());
  }
  ::unlink(temporary.c_str());
}

bool is_secret(const std::string& text) {
  return text.size() == secret_digits + 1 && text.back() == '\n' &&
         text.find_first_not_of("0123456789abcdef") == secret_digits;
}

}  // namespace

std::string random_salt_secret() {
  std::random_device device;
  std::string secret;
  while (secret.size() < secret_digits) {
    secret += fmt::format("{:08x}", device());
  }
  return secret;
}

std::string salt_secret_of(const fs::path& folder) {
  const fs::path path = folder / salt_secret_file;
  struct stat found {};
  if (::lstat(path.c_str(), &found) != 0 && errno == ENOENT) {
    make_secret(folder, path);
  }
  PieceFile file(path, O_RDONLY);
  if (!file.is_open() || ::lstat(path.c_str(), &found) != 0) {
    throw Error(fmt::format("the secret of salts can't be read: {}", std::strerror(errno))).in(path.string());
  }
  if (const mode_t mode = found.st_mode & 0777u; (mode & (S_IRWXG | S_IRWXO)) != 0) {
    throw Error(fmt::format("others may read or change the secret of salts, its mode is {:o}, must be 600", mode))
        .in(path.string());
  }
  std::string text(secret_digits + 1, '\0');
  if (file.size() != std::ssize(text) || !file.read(std::as_writable_bytes(std::span(text))) || !is_secret(text)) {
    throw Error(
        "is no secret of salts, 64 hex digits: once it is removed a new one is made, and prompts with salts are computed "
        "again")
        .in(path.string());
  }
  text.pop_back();
  return text;
}

}  // namespace rocmforge
