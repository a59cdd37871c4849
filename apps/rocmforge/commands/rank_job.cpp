#include "commands/rank_job.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <memory>

#include "models/step/rank_processes.h"
#include "usage_error.h"

namespace rocmforge::app {
namespace {

constexpr int exit_rank = 1;

bool is_set(const char* name) { return std::getenv(name) != nullptr; }

/// What Open MPI's mpirun, and what srun with PMIx or PMI2 give to each process.
bool has_launcher() {
  constexpr std::array names{"OMPI_COMM_WORLD_SIZE", "PMIX_RANK", "PMI_RANK"};
  return std::any_of(names.begin(), names.end(), is_set);
}

std::unique_ptr<RankProcesses>& job() {
  static std::unique_ptr<RankProcesses> joined;
  return joined;
}

/// The processes that end a job are asked by the library; a library that does not come back is not waited for.
void end_after(const std::string& line) {
  fmt::print(stderr, "rocmforge: {}\n", line);
  std::fflush(stderr);
  constexpr unsigned most_seconds = 2;
  alarm(most_seconds);
  if (job() != nullptr) {
    job()->end_job(exit_rank);
  }
  _exit(exit_rank);
}

void join() {
  if (job() != nullptr) {
    return;
  }
  if (!has_launcher()) {
    throw UsageError("--split tensor: start the program with mpirun -n N or srun, or take threads: --ranks N");
  }
  job() = std::make_unique<RankProcesses>(end_after);
  if (job()->count() == 1) {
    const char* const size = std::getenv("PMI_SIZE");
    throw UsageError(size != nullptr && std::string(size) != "1"
                         ? "--split tensor: started by the launcher of another MPI; Open MPI is supported alone"
                         : "--split tensor: there is one process, mpirun -n N starts several");
  }
}

}  // namespace

void take_rank(const std::string& path, EngineOptions& options) {
  if (!options.as_process) {
    return;
  }
  join();
  options.model.processes = job().get();
  if (job()->rank() > 0) {
    std::signal(SIGINT, SIG_IGN);  // rank 0 ends its requests first, then all ranks
    std::signal(SIGTERM, SIG_IGN);
    spdlog::set_level(spdlog::level::off);  // rank 0 warns for all
    follow_model(path, options);
    throw FollowedToEnd();
  }
}

}  // namespace rocmforge::app
