#include "cluster/simulation.h"

#include <algorithm>
#include <memory>
#include <queue>
#include <span>
#include <unordered_map>
#include <vector>

namespace rocmforge::cluster {
namespace {

/// A user sends, or a replica's step ends.
struct Event {
  double time = 0.0;
  std::uint64_t order = 0;  ///< of events at one time
  bool is_user = false;
  std::int32_t index = 0;

  friend bool operator>(const Event& a, const Event& b) { return a.time != b.time ? a.time > b.time : a.order > b.order; }
};

struct OpenRequest {
  std::int32_t user = 0;
  double sent = 0.0;
};

/// The value below which `share` of them are.
double quantile(std::vector<double>& values, double share) {
  if (values.empty()) {
    return 0.0;
  }
  const auto rank = static_cast<std::ptrdiff_t>(share * static_cast<double>(values.size() - 1));
  std::ranges::nth_element(values, values.begin() + rank);
  return values[static_cast<std::size_t>(rank)];
}

class Simulation {
 public:
  explicit Simulation(const Options& options) : options_(options), balancer_(options.policy, options.replicas) {
    for (std::int32_t i = 0; i < options.replicas; ++i) {
      replicas_.push_back(std::make_unique<Replica>(options.size, options.cost));
    }
    loads_.resize(static_cast<std::size_t>(options.replicas));
    Random seeds(options.seed);
    const std::int32_t shares = options.users_of_replicas > 0 ? options.users_of_replicas : options.replicas;
    add_users(UserKind::agent, shares * options.mix.agents, seeds);
    add_users(UserKind::chat, shares * options.mix.chats, seeds);
    add_users(UserKind::batch, shares * options.mix.batches, seeds);
  }

  Result run() {
    while (!events_.empty()) {
      const Event event = events_.top();
      events_.pop();
      now_ = event.time;
      if (event.is_user) {
        send(event.index);
      } else {
        end_step(event.index);
      }
    }
    return conclude();
  }

 private:
  void add_users(UserKind kind, std::int32_t count, Random& seeds) {
    for (std::int32_t i = 0; i < count; ++i) {
      users_.emplace_back(kind, seeds.next());
      push(users_.back().pause(), true, static_cast<std::int32_t>(users_.size()) - 1);
    }
  }

  void push(double time, bool is_user, std::int32_t index) { events_.push({time, ++order_, is_user, index}); }

  void send(std::int32_t user) {
    if (now_ > options_.seconds) {
      return;
    }
    for (TraceRequest& request : users_[static_cast<std::size_t>(user)].send()) {
      const RequestId id = ++last_id_;
      open_[id] = {user, now_};
      ++result_.requests;
      result_.prompt_tokens += static_cast<std::int64_t>(request.prompt.size());
      const std::int32_t chosen = balancer_.choose(request.key, loads_);
      ++loads_[static_cast<std::size_t>(chosen)];
      replicas_[static_cast<std::size_t>(chosen)]->submit(id, std::move(request));
      begin_step(chosen);
    }
  }

  void begin_step(std::int32_t index) {
    Replica& replica = *replicas_[static_cast<std::size_t>(index)];
    if (!replica.is_stepping() && replica.has_work()) {
      push(now_ + replica.begin_step(), false, index);
      ++result_.steps;
    }
  }

  void end_step(std::int32_t index) {
    const ReplicaEvents events = replicas_[static_cast<std::size_t>(index)]->end_step();
    for (const RequestId id : events.first_tokens) {
      first_tokens_.push_back(now_ - open_.at(id).sent);
    }
    for (const ReplicaEvents::Answer& answer : events.answers) {
      --loads_[static_cast<std::size_t>(index)];
      finish(answer);
    }
    begin_step(index);
  }

  void finish(const ReplicaEvents::Answer& answer) {
    const auto found = open_.find(answer.id);
    if (found == open_.end()) {
      ++result_.answers_without_request;
      return;
    }
    ++result_.answers;
    result_.seconds = now_;
    result_.generated_tokens += static_cast<std::int64_t>(answer.tokens.size());
    const std::int32_t index = found->second.user;
    open_.erase(found);
    if (User& user = users_[static_cast<std::size_t>(index)]; user.answered(answer.tokens)) {
      push(now_ + user.pause(), true, index);
    }
  }

  Result conclude() {
    result_.generated_tokens -= result_.prompt_tokens;  // answers were counted with their prompts
    for (const auto& replica : replicas_) {
      result_.prefix_hits += replica->prefix_hits();
      result_.preemptions += replica->preemptions();
      result_.lost_blocks += replica->num_blocks() - replica->available_blocks();
    }
    result_.median_first_token = quantile(first_tokens_, 0.5);
    result_.late_first_token = quantile(first_tokens_, 0.99);
    return result_;
  }

  Options options_;
  Balancer balancer_;
  std::vector<std::unique_ptr<Replica>> replicas_;
  std::vector<std::int32_t> loads_;
  std::vector<User> users_;
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
  std::uint64_t order_ = 0;
  double now_ = 0.0;
  RequestId last_id_ = 0;
  std::unordered_map<RequestId, OpenRequest> open_;
  std::vector<double> first_tokens_;
  Result result_;
};

}  // namespace

Result simulate(const Options& options) { return Simulation(options).run(); }

}  // namespace rocmforge::cluster
