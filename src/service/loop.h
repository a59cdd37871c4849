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
#include "service/fair_shares.h"
#include "service/metrics.h"

namespace rocmforge {

/// One output of one answer of a submission.
struct Delivery {
  int choice = 0;
  StepOutput output{};
  double decode_seconds = 0.0;  ///< from the answer's first token to this output
};

/// Receives a submission's outputs, one at a time, on the loop's delivery thread. Must not block.
class OutputListener {
 public:
  virtual ~OutputListener() = default;
  virtual void on_output(Delivery delivery) = 0;
  /// The engine has accepted all requests of the submission. Comes before its outputs.
  virtual void on_accepted() {}
  /// There was no memory to take or handle an output. Later outputs of the submission are dropped. Must not throw.
  virtual void on_failure() noexcept = 0;
};

/// Owns the engine. One thread runs its steps while there is work, another delivers the outputs. Requests and
/// cancellations come from any thread and take effect between two steps.
///
/// A submission that runs out of memory fails alone. Ending an answer allocates nothing: the final event is allocated with
/// the submission.
class EngineLoop {
 public:
  using Ticket = std::uint64_t;  ///< of a submission; 0: none

  /// `capacity`: the most answers at once, running and waiting together; one client may have `client_share` percent of them
  /// beside others.
  EngineLoop(std::unique_ptr<Engine> engine, ServiceMetrics& metrics, std::int32_t capacity,
             std::int32_t client_share = 100);
  ~EngineLoop() { stop(); }
  EngineLoop(const EngineLoop&) = delete;
  EngineLoop& operator=(const EngineLoop&) = delete;

  /// `count` answers to each request; Delivery::choice is the request's index times `count` plus the answer's. Returns 0
  /// when there is no room for that many more answers of `client`, and after stop(). Throws std::bad_alloc; then nothing was
  /// submitted.
  Ticket submit(std::vector<Request> requests, int count, std::shared_ptr<OutputListener> listener,
                const std::string& client = "");
  /// Cancels running answers, delivers their end, and frees the engine. Later submissions get no ticket. Not from a
  /// listener.
  void stop();
  /// The answers end with FinishReason::cancelled. Answers that have ended are not changed.
  void cancel(Ticket ticket) noexcept;
  void cancel_all() noexcept;
  /// Runs `question` on the engine's thread between two steps. An exception of it is logged.
  /// After stop() it is dropped.
  void ask(std::function<void(Engine&)> question);

  /// Running and waiting answers.
  [[nodiscard]] std::int32_t in_flight() const { return static_cast<std::int32_t>(places_.used()); }
  [[nodiscard]] const FairShares& places() const { return places_; }
  /// Called, by a thread of its own, when a step does not end in its time: running answers have ended with an error, and no
  /// answer can be computed any more. To be set before the first submission.
  void on_abandoned(std::function<void(const std::string& line)> call);
  /// Why the engine no longer works; "" while it does.
  [[nodiscard]] std::string failure() const;

 private:
  using Clock = std::chrono::steady_clock;
  struct Event {
    std::shared_ptr<OutputListener> listener;
    Delivery delivery{};
    bool failed = false;    ///< instead of a delivery
    bool accepted = false;  ///< likewise
  };
  using Events = std::list<Event>;  // moved between lists without allocating
  struct Submission {
    Ticket ticket = 0;
    std::vector<Request> requests;
    int count = 1;
    std::shared_ptr<OutputListener> listener;
    std::string client;
    Clock::time_point came;
    Events ends{};                     ///< of answers that the engine has not been given yet
    Events acceptance{};               ///< the event that tells of it
    std::vector<RequestId> running{};  ///< has capacity for all
    std::int32_t longest = 0;          ///< tokens of the longest answer that has ended
    std::int64_t answers = 0;          ///< in all
  };
  using Submissions = std::map<Ticket, std::shared_ptr<Submission>>;
  /// An answer that was passed to the engine.
  struct Track {
    std::shared_ptr<Submission> submission;
    Events end;                   ///< the final event
    bool first_of_prompt = true;  ///< the prompt's numbers count once
    std::int32_t prompt_tokens = 0;
    std::optional<Clock::time_point> first_token{}, last_token{};
  };
  using Tracks = std::unordered_map<RequestId, Track>;

  void run();
  [[nodiscard]] bool has_failed() const;
  [[nodiscard]] bool is_abandoned() const;
  void start(const std::shared_ptr<Submission>& submission);
  void hand_to_engine(const std::shared_ptr<Submission>& submission);
  /// Undoes a submission for which there was no memory.
  void give_up(Submission& submission);
  void stop(const Submission& submission);
  void answer(const std::function<void(Engine&)>& question);
  void step();
  /// Marks the end of the engine's step. False when the step was given up meanwhile: then the answers belong to the thread
  /// that did so.
  bool step_ended();
  /// A step does not end in its time: ends all answers in place of the engine's thread, which waits for the step.
  void abandon(const std::string& line);
  static void end_with_failure(Event& event, const std::string& reason);
  /// Ends the answers of a submission that the engine was not given.
  void refuse(Submission& submission, const std::string& reason);
  void fail(const std::string& reason) noexcept;
  /// Counts the output and makes its event.
  void handle(StepOutput& output, Clock::time_point now, Events& events);
  void count_token(Track& track, Clock::time_point now);
  /// An answer has ended: appends its final event.
  void end(Tracks::iterator place, Events& events);
  void send(Events events);
  void deliver();
  static void hand_out(Event& event);

  std::unique_ptr<Engine> engine_;
  ServiceMetrics& metrics_;
  FairShares places_;  ///< of answers under way
  std::atomic<Ticket> last_ticket_{0};

  Tracks tracks_;  // only the engine's thread uses them

  mutable std::mutex mutex_;  // guards the members below
  std::condition_variable commands_came_;
  std::list<std::shared_ptr<Submission>> came_;
  Submissions open_;       ///< those that have not ended
  Submissions cancelled_;  ///< moved here from open_
  std::list<std::function<void(Engine&)>> questions_;
  bool stopping_ = false;
  bool has_failed_ = false;
  bool stepping_ = false;   ///< the engine's thread is in a step
  bool abandoned_ = false;  ///< that step has not ended in its time
  std::string failure_;
  std::function<void(const std::string& line)> on_abandoned_;

  std::mutex parcel_mutex_;  // guards the members below
  std::condition_variable parcels_changed_;
  Events parcels_;
  bool delivered_all_ = false;  ///< no more events will come

  std::jthread deliverer_;
  std::jthread runner_;
};

}  // namespace rocmforge
