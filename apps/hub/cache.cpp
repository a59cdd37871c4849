#include "hub/cache.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <fstream>
#include <system_error>
#include <utility>

#include "base/error.h"

namespace rocmforge::hub {

namespace fs = std::filesystem;

namespace {

[[noreturn]] void fail_on(const fs::path& path, const std::string& reason) { throw Error(reason).in(path.string()); }

std::string folder_name(const ModelName& name) {
  std::string folder = "models";
  std::string rest = name.title();
  for (std::size_t slash = rest.find('/'); slash != std::string::npos; slash = rest.find('/')) {
    folder += "--" + rest.substr(0, slash);
    rest.erase(0, slash + 1);
  }
  return folder + "--" + rest;
}

void make_folder(const fs::path& path) {
  std::error_code problem;
  fs::create_directories(path, problem);
  if (problem) {
    fail_on(path, "the folder can't be made: " + problem.message());
  }
}

/// A name beside `path` that no other process uses.
fs::path unfinished(const fs::path& path) { return fmt::format("{}.{}", path.string(), getpid()); }

void rename_over(const fs::path& from, const fs::path& to) {
  std::error_code problem;
  fs::rename(from, to, problem);
  if (problem) {
    std::error_code ignored;
    fs::remove(from, ignored);
    fail_on(to, "the file can't be written: " + problem.message());
  }
}

}  // namespace

bool is_hex(const std::string& text, std::size_t digits) {
  return text.size() == digits &&
         std::ranges::all_of(text, [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

bool is_commit(const std::string& text) { return is_hex(text, 40) || is_hex(text, 64); }

RepositoryCache::RepositoryCache(fs::path cache, const ModelName& name)
    : folder_(cache / folder_name(name)), locks_(std::move(cache) / ".locks" / folder_name(name)) {}

std::optional<std::string> RepositoryCache::commit_of(const std::string& revision) const {
  if (is_commit(revision)) {
    return revision;
  }
  std::ifstream file(folder_ / "refs" / revision);
  std::string commit;
  file >> commit;
  return is_commit(commit) ? std::optional(commit) : std::nullopt;
}

std::vector<std::string> RepositoryCache::files(const std::string& commit) const {
  constexpr std::size_t most = 100'000;
  const fs::path snapshot = folder_ / "snapshots" / commit;
  std::vector<std::string> paths;
  std::error_code problem;
  fs::recursive_directory_iterator entry(snapshot, problem);
  for (; !problem && entry != fs::recursive_directory_iterator() && paths.size() < most; entry.increment(problem)) {
    std::error_code broken;  // set for a link whose blob is missing
    if (entry->is_regular_file(broken)) {
      paths.push_back(entry->path().lexically_relative(snapshot).string());
    }
  }
  std::ranges::sort(paths);
  return paths;
}

void RepositoryCache::make_folders() const {
  make_folder(folder_ / "blobs");
  make_folder(folder_ / "refs");
  make_folder(folder_ / "snapshots");
  make_folder(locks_);
}

void RepositoryCache::link(const std::string& commit, const std::string& path, const std::string& sum) const {
  check(is_commit(commit) && is_safe_path(path), "a file inside the snapshot");
  const fs::path place = file(commit, path);
  make_folder(place.parent_path());
  const fs::path target = blob(sum).lexically_relative(place.parent_path());
  std::error_code problem;
  if (fs::read_symlink(place, problem) == target && !problem) {
    return;
  }
  const fs::path made = unfinished(place);
  fs::remove(made, problem);
  fs::create_symlink(target, made, problem);
  if (problem) {
    fail_on(place, "no link can be made there: " + problem.message());
  }
  rename_over(made, place);
}

void RepositoryCache::set_commit(const std::string& revision, const std::string& commit) const {
  const fs::path place = folder_ / "refs" / revision;
  const fs::path made = unfinished(place);
  std::ofstream file(made, std::ios::binary);
  file << commit;
  file.close();
  if (!file) {
    fail_on(place, fmt::format("the file can't be written: {}", std::strerror(errno)));
  }
  rename_over(made, place);
}

FileLock::FileLock(const fs::path& path) : path_(path) {
  constexpr mode_t for_all = 0666;
  file_ = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, for_all);
  if (file_ < 0) {
    fail_on(path_, fmt::format("the lock can't be made: {}", std::strerror(errno)));
  }
}

FileLock::~FileLock() { close(file_); }

bool FileLock::try_lock() {
  while (flock(file_, LOCK_EX | LOCK_NB) != 0) {
    if (errno == EWOULDBLOCK) {
      return false;
    }
    if (errno != EINTR) {
      fail_on(path_, fmt::format("the lock can't be taken: {}", std::strerror(errno)));
    }
  }
  return true;
}

}  // namespace rocmforge::hub
