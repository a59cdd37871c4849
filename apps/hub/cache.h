#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "hub/name.h"

namespace rocmforge::hub {

/// One repository in the cache that all tools of the hub share:
///   models--OWNER--REPO/blobs/SUM                a file's content, named by its checksum; SUM.incomplete while it arrives
///   models--OWNER--REPO/refs/main                the commit that a branch is at
///   models--OWNER--REPO/snapshots/COMMIT/FILE    relative links to blobs
/// .locks/models--OWNER--REPO/SUM.lock          held by the process that writes the blob
/// Ollama's models are kept in the same way, in models--ollama.com--library--NAME.
class RepositoryCache {
 public:
  RepositoryCache(std::filesystem::path cache, const ModelName& name);

  [[nodiscard]] const std::filesystem::path& folder() const { return folder_; }
  [[nodiscard]] std::filesystem::path blob(const std::string& sum) const { return folder_ / "blobs" / sum; }
  [[nodiscard]] std::filesystem::path incomplete(const std::string& sum) const {
    return folder_ / "blobs" / (sum + ".incomplete");
  }
  [[nodiscard]] std::filesystem::path lock(const std::string& sum) const { return locks_ / (sum + ".lock"); }
  [[nodiscard]] std::filesystem::path file(const std::string& commit, const std::string& path) const {
    return folder_ / "snapshots" / commit / path;
  }

  /// The commit of a branch, or the commit itself; empty when the cache has none.
  [[nodiscard]] std::optional<std::string> commit_of(const std::string& revision) const;
  /// The whole files of a commit, as paths inside the repository, ascending.
  [[nodiscard]] std::vector<std::string> files(const std::string& commit) const;

  // These throw Error with the file and the system's reason.
  void make_folders() const;
  void link(const std::string& commit, const std::string& path, const std::string& sum) const;
  void set_commit(const std::string& revision, const std::string& commit) const;

 private:
  std::filesystem::path folder_;
  std::filesystem::path locks_;
};

/// Whether `text` consists of `digits` hexadecimal digits in lower case: only such names become parts of paths.
bool is_hex(const std::string& text, std::size_t digits);

/// A commit of git (40 digits) or the checksum of an Ollama manifest (64).
bool is_commit(const std::string& text);

/// Holds a lock file during its lifetime; others that lock it, in this process or another, wait.
class FileLock {
 public:
  /// Makes the file where it is missing. Throws Error that names it.
  explicit FileLock(const std::filesystem::path& path);
  ~FileLock();
  FileLock(const FileLock&) = delete;
  FileLock& operator=(const FileLock&) = delete;

  /// False while it is locked elsewhere.
  bool try_lock();

 private:
  std::filesystem::path path_;
  int file_ = -1;
};

}  // namespace rocmforge::hub
