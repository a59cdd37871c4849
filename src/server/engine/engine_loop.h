#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "engine/engine.h"
#include "server/fair_shares.h"
#include "server/metrics/server_metrics.h"

namespace rocmforge {

/// What a step brought one of a submission's answers.
struct Delivery {
  int choice = 0;
  StepOutput output{};
  std::optional<RequestStats> stats{};  ///< with the last output
  double decode_seconds = 0.0;          ///< from the answer's first token to this output
};

/// Receives a submission's outputs, one at a time, on the loop's delivery thread. Must not wait for anything.
class OutputListener {
 public:
  virtual ~OutputListener() = default;
  virtual void on_output(Delivery delivery) = 0;
  /// There was no memory to take or to handle an output. What still comes of the submission is of no use. Must not throw.
  virtual void on_failure() noexcept = 0;
};

/// Owns the engine: one thread runs its steps for as long as there is work, another hands out what they give. Requests and
/// cancellations come from any thread and take effect between two steps.
///
/// A submission that finds no memory on its way fails alone. To end an answer takes none: what tells of the end is made as
/// the submission comes.
class EngineLoop {
 public:
  using Ticket = std::uint64_t;  ///< of a submission; 0 is none

  /// `capacity`: so many answers may be under way, running and waiting together; `client_share` percent of them are one
  /// client's beside others.
  EngineLoop(std::unique_ptr<Engine> engine, ServerMetrics& metrics, std::int32_t capacity, std::int32_t client_share = 100);
  /// Cancels what runs and delivers that.
  ~EngineLoop();
  EngineLoop(const EngineLoop&) = delete;
  EngineLoop& operator=(const EngineLoop&) = delete;

  /// `count` answers to each request; Delivery::choice is the request's index times `count` plus the answer's. 0 when there
  /// is no room for that many more answers of `client`. Throws std::bad_alloc, and has taken nothing then.
  Ticket submit(std::vector<Request> requests, int count, std::shared_ptr<OutputListener> listener,
                const std::string& client = "");
  /// The answers end with FinishReason::cancelled. What has ended is left alone.
  void cancel(Ticket ticket) noexcept;
  void cancel_all() noexcept;
  /// Runs `question` on the engine's thread between two steps. What it throws is logged.
  void ask(std::function<void(Engine&)> question);

  /// Answers under way.
  [[nodiscard]] std::int32_t in_flight() const { return static_cast<std::int32_t>(places_.used()); }
  [[nodiscard]] const FairShares& places() const { return places_; }
  /// Why the engine no longer works, "" while it does.
  [[nodiscard]] std::string failure() const;

 private:
  using Clock = std::chrono::steady_clock;
  struct Parcel {
    std::shared_ptr<OutputListener> listener;
    Delivery delivery{};
    bool failed = false;  ///< instead of a delivery
  };
  using Parcels = std::list<Parcel>;  // passed on without memory
  struct Submission {
    Ticket ticket = 0;
    std::vector<Request> requests;
    int count = 1;
    std::shared_ptr<OutputListener> listener;
    std::string client;
    Clock::time_point came;
    Parcels ends{};                    ///< of answers that the engine has not been given yet
    std::vector<RequestId> running{};  ///< with room for all
    std::int32_t longest = 0;          ///< tokens of the longest that has ended
    std::int64_t answers = 0;          ///< in all
  };
  using Submissions = std::map<Ticket, std::shared_ptr<Submission>>;
  /// An answer that the engine has.
  struct Track {
    std::shared_ptr<Submission> submission;
    Parcels end;                  ///< one
    bool first_of_prompt = true;  ///< the prompt's numbers count once
    std::int32_t prompt_tokens = 0;
    std::optional<Clock::time_point> first_token{}, last_token{};
  };
  using Tracks = std::unordered_map<RequestId, Track>;

  void run();
  [[nodiscard]] bool has_failed() const;
  void start(const std::shared_ptr<Submission>& submission);
  void hand_to_engine(const std::shared_ptr<Submission>& submission);
  /// Takes back a submission for which there was no memory.
  void give_up(Submission& submission);
  void stop(const Submission& submission);
  void answer(const std::function<void(Engine&)>& question);
  void step();
  void fail(const std::string& reason) noexcept;
  /// Counts the output and packs it for its listener.
  void handle(StepOutput& output, Clock::time_point now, Parcels& parcels);
  void count_token(Track& track, Clock::time_point now);
  /// An answer has ended: its last parcel goes with the others.
  void end(Tracks::iterator place, Parcels& parcels);
  void send(Parcels parcels);
  void deliver();
  static void hand_out(Parcel& parcel);

  std::unique_ptr<Engine> engine_;
  ServerMetrics& metrics_;
  FairShares places_;  ///< of answers under way
  std::atomic<Ticket> last_ticket_{0};

  Tracks tracks_;  // the engine's thread alone

  mutable std::mutex mutex_;  // guards what follows
  std::condition_variable commands_came_;
  std::list<std::shared_ptr<Submission>> came_;
  Submissions open_;       ///< those that have not ended
  Submissions cancelled_;  ///< moved from there
  std::list<std::function<void(Engine&)>> questions_;
  bool stopping_ = false;
  bool has_failed_ = false;
  std::string failure_;

  std::mutex parcel_mutex_;  // guards what follows
  std::condition_variable parcels_changed_;
  Parcels parcels_;
  bool delivered_all_ = false;  ///< no more will come

  std::jthread deliverer_;
  std::jthread runner_;
};

}  // namespace rocmforge
