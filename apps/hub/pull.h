#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "hub/name.h"
#include "hub/settings.h"

namespace rocmforge::hub {

/// A download that is about to begin.
struct Offer {
  struct File {
    std::string path;  ///< inside the repository
    std::uint64_t size = 0;
  };
  std::vector<File> files;  ///< in the order of their parts
  /// Reads the first `count` bytes of a file from the hub. Throws Error.
  std::function<std::string(std::size_t file, std::size_t count)> first_bytes;
};

struct PullState {
  std::uint64_t done_bytes = 0;  ///< of all files
  std::uint64_t total_bytes = 0;
  std::string sum;  ///< of the file that is being downloaded; "" before the first
  std::uint64_t file_done_bytes = 0;
  std::uint64_t file_total_bytes = 0;
  std::string waits_for;  ///< why the download waits; "" if it does not
};

struct PullOptions {
  /// Does not ask the hub if the cache has the named file, quant or tag, or without a name the default quant.
  bool takes_cached = false;
  std::function<void(const Offer& offer)> consider{};  ///< called before the download; an exception ends the pull
  /// Called on the calling thread, at least once a second; an exception ends the pull.
  std::function<void(const PullState& state)> progress{};
};

struct Pulled {
  std::filesystem::path file;  ///< in the cache; the first of several parts
  std::uint64_t bytes = 0;     ///< of all parts
  std::uint64_t downloaded_bytes = 0;
};

/// The model's file, downloaded into the cache if it is missing. Throws Error with one line that names the problem and the
/// server or file.
Pulled pull(const ModelName& name, const Settings& settings, const PullOptions& options);

/// The part of pull() that asks the hub. In a build without libcurl it throws Error that says so.
Pulled fetch(const ModelName& name, const Settings& settings, const PullOptions& options);

/// The name of the model's file in the cache's folder refs: a branch, or Ollama's tag.
std::string ref_of(const ModelName& name);

}  // namespace rocmforge::hub
