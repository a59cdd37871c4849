#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "base/error.h"
#include "hub/cache.h"
#include "hub/choice.h"
#include "hub/download.h"
#include "hub/http_client.h"
#include "hub/listing.h"
#include "hub/pull.h"

namespace rocmforge::hub {

namespace fs = std::filesystem;

namespace {

/// The files to download. An image encoder stands behind those of the model.
struct ChosenFiles {
  std::vector<RemoteFile> files{};
  std::size_t of_model = 0;
};

ChosenFiles chosen_files(const RemoteRepository& repository, const ModelName& name) {
  if (name.source == ModelName::Source::ollama) {
    return {repository.files, repository.files.size()};
  }
  std::vector<std::string> paths;
  for (const RemoteFile& file : repository.files) {
    paths.push_back(file.path);
  }
  std::vector<std::string> wanted = choose_files(paths, name);
  const std::size_t of_model = wanted.size();
  if (std::string encoder = choose_image_encoder(paths); !encoder.empty()) {
    wanted.push_back(std::move(encoder));
  }
  std::vector<RemoteFile> chosen;
  for (const std::string& path : wanted) {
    chosen.push_back(*std::ranges::find(repository.files, path, &RemoteFile::path));
  }
  return {std::move(chosen), of_model};
}

/// Of all files. Throws Error for more than any disk holds, so that no sum of sizes that a hub makes up is too large for its
/// type.
std::uint64_t total_bytes(const std::vector<RemoteFile>& files, const ModelName& name) {
  constexpr std::uint64_t most = std::uint64_t{1} << 50;
  std::uint64_t total = 0;
  for (const RemoteFile& file : files) {
    if (file.size > most - total) {
      throw Error(
          fmt::format("{}: the hub says that its {} files have more than {} TiB", name.title(), files.size(), most >> 40));
    }
    total += file.size;
  }
  return total;
}

/// Throws Error if the disk has no room for `bytes` more.
void check_space(const fs::path& cache, std::uint64_t bytes, const ModelName& name) {
  fs::path folder = fs::absolute(cache);
  std::error_code problem;
  while (!fs::exists(folder, problem) && folder.has_relative_path()) {
    folder = folder.parent_path();
  }
  const fs::space_info space = fs::space(folder, problem);
  constexpr double gib = 1024.0 * 1024.0 * 1024.0;
  if (!problem && space.available < bytes) {
    throw Error(fmt::format("{}: {:.2f} GiB are missing yet, and {} has {:.2f} GiB free (HF_HUB_CACHE names another folder)",
                            name.title(), static_cast<double>(bytes) / gib, folder.string(),
                            static_cast<double>(space.available) / gib));
  }
}

}  // namespace

Pulled fetch(const ModelName& name, const Settings& settings, const PullOptions& options) {
  PullState state;
  const auto tell = [&] {
    if (options.progress) {
      options.progress(state);
    }
  };
  HttpClient client({settings.user_agent, settings.certificates, settings.stall_seconds, settings.least_speed, tell});
  const std::string token = name.source == ModelName::Source::hugging_face ? settings.token : "";
  const RemoteRepository repository = list_repository(client, settings, name);
  const ChosenFiles chosen = chosen_files(repository, name);
  const std::vector<RemoteFile>& files = chosen.files;
  const RepositoryCache cache(settings.cache, name);

  Offer offer;
  std::vector<std::uint64_t> there;
  for (const RemoteFile& file : files) {
    if (offer.files.size() < chosen.of_model) {
      offer.files.push_back({file.path, file.size});
    }
    there.push_back(bytes_there(cache, file));
    state.done_bytes += there.back();
  }
  state.total_bytes = total_bytes(files, name);
  const std::uint64_t missing = state.total_bytes - state.done_bytes;
  check_space(settings.cache, missing, name);
  if (missing > 0 && options.consider) {
    offer.first_bytes = [&](std::size_t file, std::size_t count) {
      return first_bytes(client, files.at(file), token, count);
    };
    options.consider(offer);
  }

  cache.make_folders();
  for (std::size_t i = 0; i < files.size(); ++i) {
    state.sum = files[i].sum;
    state.file_total_bytes = files[i].size;
    const auto has_come = [&](std::uint64_t bytes) {
      state.done_bytes += bytes - there[i];
      there[i] = state.file_done_bytes = bytes;
      state.waits_for.clear();
      tell();
    };
    const auto waits = [&](const std::string& reason) {
      state.waits_for = reason;
      tell();
    };
    download(client, files[i], token, cache, {has_come, waits});
  }
  for (const RemoteFile& file : files) {  // only when all are complete, so that the cache never shows a part of a model
    cache.link(repository.commit, file.path, file.sum);
  }
  if (const std::string ref = ref_of(name); !is_commit(ref)) {
    cache.set_commit(ref, repository.commit);
  }
  return {
      .file = cache.file(repository.commit, files.front().path), .bytes = state.total_bytes, .downloaded_bytes = missing};
}

}  // namespace rocmforge::hub
