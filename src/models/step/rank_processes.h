#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "models/step/mpi_library.h"

namespace rocmforge {

/// The processes that share a model, as one of them sees it: those that mpirun or srun has started, on one host or several.
/// Calls of the model's thread are collective: every rank makes the same ones in the same order.
///
/// A thread of each process tells the others twice a second that it lives. Rank 0 listens to all, the others to rank 0. What
/// says nothing for seconds has stopped, or its host has, and `on_failure` is told so, once: it ends the job and this
/// process. Until then other threads wait where they are.
class RankProcesses {
 public:
  using OnFailure = std::function<void(const std::string& line)>;

  /// Joins the others, and waits for all of them. Throws Error where there is no Open MPI, or it can't be used.
  explicit RankProcesses(OnFailure on_failure);
  /// Waits until all ranks leave.
  ~RankProcesses();
  RankProcesses(const RankProcesses&) = delete;
  RankProcesses& operator=(const RankProcesses&) = delete;

  [[nodiscard]] std::int32_t rank() const { return rank_; }
  [[nodiscard]] std::int32_t count() const { return count_; }
  /// Those on this rank's host.
  [[nodiscard]] std::int32_t on_this_host() const { return on_this_host_; }
  /// Whether these may run on the same processors; else the launcher has bound each to some.
  [[nodiscard]] bool share_processors() const { return share_processors_; }

  /// Copies `data` of rank 0 to all others.
  void broadcast(std::span<std::byte> data);
  /// The parts of all ranks one after another, each of part.size() bytes.
  void gather_on_all(std::span<const std::byte> part, std::span<std::byte> all) { gather_on_all(part, all, steps_); }
  void send(std::int32_t to, std::span<const std::byte> data);
  void receive(std::int32_t from, std::span<std::byte> data);
  /// A short text of each rank, cut behind 1,000 bytes.
  std::vector<std::string> exchange(const std::string& text);

  /// Ends all processes of the job, this one too.
  [[noreturn]] void end_job(int code);
  /// Tells on_failure that this rank can't go on, unless a failure was told before.
  void fail(const std::string& line);

 private:
  /// What this rank knows of one to which it listens.
  struct Peer {
    std::int32_t rank = 0;
    int silence = 0;                       ///< intervals in which it said nothing
    MpiLibrary::Handle sending = nullptr;  ///< the last message to it, while it is under way
    char sent = 0;
    char received = 0;
  };
  using Begin = std::function<void(MpiLibrary::Handle*)>;

  void join();
  void meet_on_host();
  void gather_on_all(std::span<const std::byte> part, std::span<std::byte> all, MpiLibrary::Handle ranks);
  /// Begins an operation and waits until it is complete.
  void complete(const Begin& begin);
  bool is_complete(MpiLibrary::Handle* request);
  /// A failure was told: throws Error where the process does not end.
  [[noreturn]] static void wait_for_end();
  void watch();
  void watch_until_end();
  /// Tells the peer that this rank lives, and hears whether it does.
  void greet(Peer& peer);

  MpiLibrary mpi_;
  OnFailure on_failure_;
  std::int32_t rank_ = 0;
  std::int32_t count_ = 1;
  std::int32_t on_this_host_ = 1;
  bool share_processors_ = true;
  MpiLibrary::Handle steps_ = nullptr;  ///< the communicator of the model's thread
  MpiLibrary::Handle signs_ = nullptr;  ///< that of the thread that watches
  std::timed_mutex calls_;              ///< the library serves one thread at a time
  std::vector<Peer> peers_;
  std::atomic<bool> failed_{false};
  std::mutex ending_mutex_;
  std::condition_variable ending_changed_;
  bool ending_ = false;
  std::thread watcher_;
};

}  // namespace rocmforge
