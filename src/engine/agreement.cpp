#include "engine/agreement.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <vector>

#include "weights/fingerprint.h"

namespace rocmforge {
namespace {

/// One error for rank 0 of what the ranks say.
std::string first_error(const std::vector<std::string>& errors) {
  if (!errors[0].empty()) {
    return errors[0];
  }
  const auto found = std::ranges::find_if(errors, [](const std::string& error) { return !error.empty(); });
  return found == errors.end() ? "" : fmt::format("rank {}: {}", found - errors.begin(), *found);
}

/// What must be alike on all ranks.
void check_alike(RankProcesses& processes, const char* what, const std::string& own) {
  const std::vector<std::string> all = processes.exchange(own);
  const auto other = std::ranges::find_if(all, [&](const std::string& text) { return text != all[0]; });
  std::string error;
  if (other != all.end()) {
    error = fmt::format("rank {} has another {} than rank 0: {}, not {}", other - all.begin(), what, *other, all[0]);
  }
  agree(processes, processes.rank() == 0 ? error : "");
}

std::string sizes_of(const PlannedModel& planned, const EngineOptions& options) {
  return fmt::format("blocks {}, slots {}, batch {}, sequences {}", fmt::join(planned.memory.blocks, "/"),
                     planned.memory.state_slots, options.max_batch_tokens, options.max_sequences);
}

}  // namespace

void agree(RankProcesses& processes, const std::string& error) {
  const std::string first = first_error(processes.exchange(error));
  if (first.empty()) {
    return;
  }
  if (processes.rank() == 0) {
    throw Error(first);
  }
  throw RankEnded();
}

void check_agreement(RankProcesses& processes, const PlannedModel& planned, const EngineOptions& options) {
  constexpr std::size_t digits = 16;
  check_alike(processes, "version", options.version);
  check_alike(processes, "file",
              fmt::format("{} ({} bytes, {})", planned.file->path().filename().string(), planned.file->file_bytes(),
                          fingerprint(*planned.file).substr(0, digits)));
  check_alike(processes, "sum of control vectors", planned.control != nullptr ? planned.control->fingerprint() : "none");
  check_alike(processes, "choice whether MTP blocks draft", planned.mtp ? "on" : "off");
  check_alike(processes, "size of the cache or of a step", sizes_of(planned, options));
}

}  // namespace rocmforge
