#include "commands/pull_model.h"

#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <system_error>
#include <vector>

#include "base/error.h"
#include "base/log.h"
#include "engine/plan_model.h"
#include "terminal/progress.h"
#include "terminal/text.h"
#include "weights/gguf_file.h"

namespace rocmforge::app {
namespace {

namespace fs = std::filesystem;

/// Ignores SIGPIPE during its lifetime: writing to a closed connection must not end the program.
class BrokenPipes {
 public:
  BrokenPipes() : before_(std::signal(SIGPIPE, SIG_IGN)) {}
  ~BrokenPipes() { std::signal(SIGPIPE, before_); }
  BrokenPipes(const BrokenPipes&) = delete;
  BrokenPipes& operator=(const BrokenPipes&) = delete;

 private:
  void (*before_)(int);
};

/// Sparse files with the names and sizes of the offered files, of which only the first bytes are filled in.
class HeadsOfFiles {
 public:
  explicit HeadsOfFiles(const hub::Offer& offer) : offer_(offer) {
    std::string folder = (fs::temp_directory_path() / "rocmforge-heads-XXXXXX").string();
    if (mkdtemp(folder.data()) == nullptr) {
      throw Error(fmt::format("{}: no folder can be made there", folder));
    }
    folder_ = folder;
  }
  ~HeadsOfFiles() {
    std::error_code ignored;
    fs::remove_all(folder_, ignored);
  }
  HeadsOfFiles(const HeadsOfFiles&) = delete;
  HeadsOfFiles& operator=(const HeadsOfFiles&) = delete;

  /// Reads the first `bytes` of the first file, and less of its other parts, whose heads lack the vocabulary.
  void read(std::size_t bytes) {
    constexpr std::size_t other_parts = 8;
    for (std::size_t i = 0; i < offer_.files.size(); ++i) {
      const std::string head = offer_.first_bytes(i, i == 0 ? bytes : bytes / other_parts);
      std::ofstream file(path(i), std::ios::binary);
      file.write(head.data(), static_cast<std::streamsize>(head.size()));
      file.close();
      std::error_code problem;
      fs::resize_file(path(i), offer_.files[i].size, problem);
      if (!file || problem) {
        throw Error(fmt::format("{}: the file can't be made", path(i).string()));
      }
    }
  }

  [[nodiscard]] fs::path path(std::size_t i) const { return folder_ / fs::path(offer_.files[i].path).filename(); }
  [[nodiscard]] bool is_gguf() const {
    std::array<char, 4> magic{};
    std::ifstream(path(0), std::ios::binary).read(magic.data(), magic.size());
    return std::string_view(magic.data(), magic.size()) == "GGUF";
  }
  /// Whether the head was read completely: a file with an incomplete head is not a valid GGUF file.
  [[nodiscard]] bool are_whole() const {
    try {
      static_cast<void>(GgufFile(path(0)));
      return true;
    } catch (const Error&) {
      return false;
    }
  }

 private:
  const hub::Offer& offer_;
  fs::path folder_;
};

/// Throws Error if this build or this machine can't run the offered model; warns if the context must be shorter.
void check_fit(const hub::Offer& offer, const std::string& name, const EngineOptions& options) {
  constexpr auto sizes = std::to_array<std::size_t>({8, 32, 128});  // MiB; vocabularies of 256 Ki tokens take about 20
  HeadsOfFiles heads(offer);
  for (const std::size_t mib : sizes) {
    heads.read(mib << 20);
    if (!heads.is_gguf() || heads.are_whole()) {
      break;
    }
  }
  const std::string file = heads.path(0).string();
  try {
    const PlannedModel planned = plan_model(file, options);
    if (const MemoryNeeds* lacking = planned.lacking()) {
      if (lacking->fitting_tokens() <= 0) {
        throw Error(describe_shortage(*lacking));
      }
      log_warning("{} fits into memory with -c {}", name, lacking->fitting_tokens());
    }
  } catch (const Error& error) {
    std::string reason = error.what();
    if (const std::size_t place = reason.find(file); place != std::string::npos) {
      reason.replace(place, file.size(), offer.files.front().path);
    }
    throw Error(fmt::format("{} is not downloaded: {} (rocmforge pull --no-fit-check downloads it)", name, reason));
  }
}

/// "1.2 of 4.9 GiB, 52.1 MiB/s, 72 s left"
class Rate {
 public:
  /// The text, at most ten times a second; else empty.
  std::optional<std::string> text(const hub::PullState& state) {
    using namespace std::chrono_literals;
    if (state.sum.empty()) {
      return "asking the hub";
    }
    const auto now = std::chrono::steady_clock::now();
    if (!begin_) {
      begin_ = now;
      first_bytes_ = state.done_bytes;
    }
    if (!state.waits_for.empty()) {
      return state.waits_for;
    }
    if (last_ && now - *last_ < 100ms) {
      return std::nullopt;
    }
    last_ = now;
    const double seconds = std::chrono::duration<double>(now - *begin_).count();
    const double rate = seconds > 0.0 && state.done_bytes > first_bytes_
                            ? static_cast<double>(state.done_bytes - first_bytes_) / seconds
                            : 0.0;
    std::string text = fmt::format("{} of {}", human_bytes(state.done_bytes), human_bytes(state.total_bytes));
    if (rate > 0.0) {
      text += fmt::format(", {}/s, {:.0f} s left", human_bytes(static_cast<std::uint64_t>(rate)),
                          static_cast<double>(state.total_bytes - state.done_bytes) / rate);
    }
    return text;
  }

 private:
  std::optional<std::chrono::steady_clock::time_point> begin_, last_;
  std::uint64_t first_bytes_ = 0;
};

hub::Settings hub_settings() {
  hub::Settings settings = hub::read_settings();
  settings.user_agent = "rocmforge/" ROCMFORGE_VERSION;
  return settings;
}

}  // namespace

hub::Pulled pull_model(const std::string& name, const PullChoices& choices) {
  const BrokenPipes ignored;
  const hub::ModelName model = hub::parse_model_name(name);
  std::optional<Progress> progress;
  if (isatty(STDERR_FILENO) != 0) {
    progress.emplace("downloading " + name);
  }
  Rate rate;
  hub::PullOptions options;
  options.takes_cached = choices.takes_cached;
  if (choices.fits != nullptr) {
    options.consider = [&](const hub::Offer& offer) { check_fit(offer, name, *choices.fits); };
  }
  options.progress = [&](const hub::PullState& state) {
    if (auto text = progress ? rate.text(state) : std::nullopt) {
      const double total = static_cast<double>(state.total_bytes);
      progress->update(total > 0.0 ? static_cast<double>(state.done_bytes) / total : 0.0, std::move(*text));
    }
  };
  return hub::pull(model, hub_settings(), options);
}

void pull_for_client(const PullRequest& request, const std::function<bool(const PullStatus&)>& tell) {
  constexpr std::size_t short_digest = 12;
  constexpr std::uint64_t least_speed = 16 << 10;  // one download at a time: a slow one would keep out all others
  hub::PullOptions options;
  options.progress = [&](const hub::PullState& state) {
    PullStatus status = {.status = "pulling manifest"};
    if (!state.sum.empty()) {
      status = {.status = "pulling " + state.sum.substr(0, short_digest),
                .digest = "sha256:" + state.sum,
                .total = state.file_total_bytes,
                .completed = state.file_done_bytes};
    }
    if (!tell(status)) {
      throw Error(request.name + ": the download was stopped");
    }
  };
  hub::Settings settings = hub_settings();
  settings.least_speed = least_speed;
  if (!request.with_token) {
    settings.token.clear();
  }
  hub::pull(hub::parse_model_name(request.name), settings, options);
  tell({.status = "verifying sha256 digest"});  // the sum was computed as the bytes arrived
  tell({.status = "writing manifest"});
}

std::string find_model(const ModelArgument& argument) {
  return argument.hub_name.empty() ? find_model(argument.file) : pull_model(argument.hub_name, {}).file.string();
}

std::string find_model(const ModelArgument& argument, const EngineOptions& options) {
  return argument.hub_name.empty() ? find_model(argument.file)
                                   : pull_model(argument.hub_name, {.fits = &options}).file.string();
}

}  // namespace rocmforge::app
