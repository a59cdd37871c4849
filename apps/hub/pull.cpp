#include "hub/pull.h"

#include <fmt/format.h>

#include <optional>
#include <system_error>

#include "base/error.h"
#include "hub/cache.h"
#include "hub/choice.h"

namespace rocmforge::hub {

namespace fs = std::filesystem;

namespace {

/// The model's files in the cache. Throws Error if one of them is missing.
Pulled find_cached(const ModelName& name, const Settings& settings) {
  const RepositoryCache cache(settings.cache, name);
  const auto commit = cache.commit_of(ref_of(name));
  if (!commit) {
    throw Error(fmt::format("{} is not in the cache {}", name.title(), settings.cache.string()));
  }
  ModelName wanted = name;
  if (name.source == ModelName::Source::ollama) {
    wanted.choice.clear();  // the tag has selected the commit
  }
  Pulled found;
  for (const std::string& path : choose_files(cache.files(*commit), wanted)) {
    const fs::path file = cache.file(*commit, path);
    found.file = found.file.empty() ? file : found.file;
    std::error_code ignored;
    found.bytes += fs::file_size(file, ignored);
  }
  return found;
}

/// The cached model for PullOptions::takes_cached; empty if the hub must be asked.
std::optional<Pulled> cached_as_named(const ModelName& name, const Settings& settings) {
  ModelName exact = name;
  if (name.source == ModelName::Source::hugging_face && name.file.empty() && name.choice.empty()) {
    exact.choice = default_quant;
  }
  try {
    return find_cached(exact, settings);
  } catch (const Error&) {  // a file is missing
    return std::nullopt;
  }
}

}  // namespace

std::string ref_of(const ModelName& name) {
  return name.source == ModelName::Source::hugging_face ? name.revision : name.choice.empty() ? "latest" : name.choice;
}

Pulled pull(const ModelName& name, const Settings& settings, const PullOptions& options) {
  if (settings.offline) {
    return with_context("HF_HUB_OFFLINE is set", [&] { return find_cached(name, settings); });
  }
  if (options.takes_cached) {
    if (const auto found = cached_as_named(name, settings)) {
      return *found;
    }
  }
  return fetch(name, settings, options);
}

}  // namespace rocmforge::hub
