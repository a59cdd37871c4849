#include "models/step/rank_processes.h"

#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <chrono>
#include <climits>
#include <exception>
#include <utility>

#include "base/error.h"

namespace rocmforge {
namespace {

using namespace std::chrono_literals;

constexpr auto sign_interval = 500ms;
// Counted in intervals, so that one who was stopped, and goes on, does not take its own silence for that of others. Where
// rank 0 stops, the ranks behind it notice one after another, and the first that does ends the job.
constexpr int longest_silence = 12;
constexpr int tag = 1;
// In which on_failure ends the process.
constexpr auto longest_end = 10s;
constexpr std::size_t longest_text = 1000;

// How a wait begins: most are short. Then a rank sleeps, for longer once nothing has come for a while.
constexpr int polls_before_sleep = 2000;
constexpr int polls_before_long_sleep = 20000;

int count_of(std::size_t bytes) {
  if (bytes > static_cast<std::size_t>(INT_MAX)) {
    throw Error(fmt::format("{} bytes are too many for one message between ranks", bytes));
  }
  return static_cast<int>(bytes);
}

}  // namespace

RankProcesses::RankProcesses(OnFailure on_failure) : on_failure_(std::move(on_failure)) {
  join();
  for (std::int32_t other = rank_ == 0 ? 1 : 0; other < (rank_ == 0 ? count_ : 1); ++other) {
    peers_.push_back({.rank = other});
  }
  watcher_ = std::thread([this] { watch(); });
}

void RankProcesses::join() {
  int provided = 0;
  call(mpi_, mpi_.init_thread, nullptr, nullptr, MpiLibrary::serialized, &provided);
  if (provided < MpiLibrary::serialized) {
    throw Error(fmt::format("{} does not serve more than one thread", mpi_.library.path()));
  }
  call(mpi_, mpi_.comm_rank, mpi_.world, &rank_);
  call(mpi_, mpi_.comm_size, mpi_.world, &count_);
  call(mpi_, mpi_.comm_dup, mpi_.world, &steps_);
  call(mpi_, mpi_.comm_dup, mpi_.world, &signs_);
  meet_on_host();
}

void RankProcesses::meet_on_host() {
  MpiLibrary::Handle host = nullptr;
  call(mpi_, mpi_.comm_split_type, mpi_.world, MpiLibrary::type_shared, 0, mpi_.no_info, &host);
  call(mpi_, mpi_.comm_size, host, &on_this_host_);
  cpu_set_t own;
  CPU_ZERO(&own);
  static_cast<void>(sched_getaffinity(0, sizeof own, &own));
  std::vector<cpu_set_t> all(static_cast<std::size_t>(on_this_host_));
  gather_on_all(std::as_bytes(std::span(&own, 1)), std::as_writable_bytes(std::span(all)), host);
  share_processors_ = std::ranges::all_of(all, [&](const cpu_set_t& other) { return CPU_EQUAL(&other, &all[0]); });
}

RankProcesses::~RankProcesses() {
  try {
    exchange("");                    // a rank that still works hears those that wait for it
  } catch (const std::exception&) {  // the job has ended
  }
  {
    const std::scoped_lock lock(ending_mutex_);
    ending_ = true;
  }
  ending_changed_.notify_all();
  watcher_.join();
  if (!failed_.load()) {
    mpi_.finalize();
  }
}

void RankProcesses::complete(const Begin& begin) {
  MpiLibrary::Handle request = nullptr;
  {
    const std::scoped_lock lock(calls_);
    begin(&request);
  }
  for (int round = 0; !is_complete(&request); ++round) {
    if (failed_.load(std::memory_order_acquire)) {
      wait_for_end();
    }
    if (round < polls_before_sleep) {
      std::this_thread::yield();
    } else {
      std::this_thread::sleep_for(round < polls_before_long_sleep ? 20us : 1000us);
    }
  }
}

bool RankProcesses::is_complete(MpiLibrary::Handle* request) {
  const std::scoped_lock lock(calls_);
  int done = 0;
  call(mpi_, mpi_.test, request, &done, MpiLibrary::no_status);
  return done != 0;
}

void RankProcesses::broadcast(std::span<std::byte> data) {
  complete([&](MpiLibrary::Handle* request) {
    call(mpi_, mpi_.ibcast, data.data(), count_of(data.size()), mpi_.byte, 0, steps_, request);
  });
}

void RankProcesses::gather_on_all(std::span<const std::byte> part, std::span<std::byte> all, MpiLibrary::Handle ranks) {
  const int bytes = count_of(part.size());
  complete([&](MpiLibrary::Handle* request) {
    call(mpi_, mpi_.iallgather, part.data(), bytes, mpi_.byte, all.data(), bytes, mpi_.byte, ranks, request);
  });
}

void RankProcesses::send(std::int32_t to, std::span<const std::byte> data) {
  complete([&](MpiLibrary::Handle* request) {
    call(mpi_, mpi_.isend, data.data(), count_of(data.size()), mpi_.byte, to, tag, steps_, request);
  });
}

void RankProcesses::receive(std::int32_t from, std::span<std::byte> data) {
  complete([&](MpiLibrary::Handle* request) {
    call(mpi_, mpi_.irecv, data.data(), count_of(data.size()), mpi_.byte, from, tag, steps_, request);
  });
}

std::vector<std::string> RankProcesses::exchange(const std::string& text) {
  std::vector<char> own(longest_text + 1);
  std::copy_n(text.begin(), std::min(text.size(), longest_text), own.begin());
  std::vector<char> all(own.size() * static_cast<std::size_t>(count_));
  gather_on_all(std::as_bytes(std::span(own)), std::as_writable_bytes(std::span(all)));
  std::vector<std::string> texts;
  for (std::size_t first = 0; first < all.size(); first += own.size()) {
    texts.emplace_back(all.data() + first);
  }
  return texts;
}

void RankProcesses::end_job(int code) {
  // What holds the library may be stuck in it. Without the lock its call is worth a try all the same.
  const std::unique_lock lock(calls_, 500ms);
  mpi_.abort_job(mpi_.world, code);
  std::quick_exit(code);
}

void RankProcesses::fail(const std::string& line) {
  if (failed_.exchange(true)) {
    wait_for_end();
  }
  on_failure_(line);
}

void RankProcesses::wait_for_end() {
  std::this_thread::sleep_for(longest_end);
  throw Error("the ranks have ended");
}

void RankProcesses::watch() {
  try {
    watch_until_end();
  } catch (const Error& error) {
    fail(error.what());
  }
}

void RankProcesses::watch_until_end() {
  std::unique_lock lock(ending_mutex_);
  while (!ending_changed_.wait_for(lock, sign_interval, [this] { return ending_; }) && !failed_.load()) {
    lock.unlock();
    for (Peer& peer : peers_) {
      greet(peer);
      if (++peer.silence > longest_silence + std::max(rank_ - 1, 0)) {
        fail(fmt::format("rank {} has not been heard of for {} seconds: it has stopped, or its host can't be reached",
                         peer.rank,
                         std::chrono::duration_cast<std::chrono::seconds>(longest_silence * sign_interval).count()));
      }
    }
    lock.lock();
  }
}

void RankProcesses::greet(Peer& peer) {
  if (peer.sending == nullptr || is_complete(&peer.sending)) {
    const std::scoped_lock lock(calls_);
    call(mpi_, mpi_.isend, &peer.sent, 1, mpi_.byte, peer.rank, tag, signs_, &peer.sending);
  }
  for (int came = 1; came != 0;) {
    {
      const std::scoped_lock lock(calls_);
      call(mpi_, mpi_.iprobe, peer.rank, tag, signs_, &came, MpiLibrary::no_status);
    }
    if (came != 0) {
      complete([&](MpiLibrary::Handle* request) {
        call(mpi_, mpi_.irecv, &peer.received, 1, mpi_.byte, peer.rank, tag, signs_, request);
      });
      peer.silence = 0;
    }
  }
}

}  // namespace rocmforge
