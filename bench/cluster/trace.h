#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace rocmforge::cluster {

/// The same numbers on every machine and with every library: SplitMix64 (Steele, Lea and Flood 2014).
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}
  std::uint64_t next();
  /// Of [least, most].
  std::int32_t between(std::int32_t least, std::int32_t most);
  /// Of [0, 2 mean].
  double around(double mean);

 private:
  std::uint64_t state_;
};

enum class UserKind {
  agent,  ///< one request after another, each the last one's text with its answer and a tool's result behind it
  chat,   ///< likewise, with fewer tokens and longer pauses
  batch,  ///< many requests at once, which begin with the same instructions
};

/// Tokens and seconds of a kind of user.
struct UserShape {
  std::int32_t systems = 1;        ///< different beginnings among all users of the kind
  std::int32_t system_tokens = 0;  ///< of such a beginning
  std::int32_t least_text = 0;     ///< of what a request adds
  std::int32_t most_text = 0;
  std::int32_t least_answer = 0;
  std::int32_t most_answer = 0;
  std::int32_t requests = 1;   ///< of a conversation; of a batch, those that are sent at once
  double pause_seconds = 0.0;  ///< between an answer and the next request, on average
};

UserShape shape_of(UserKind kind);

/// What a user sends.
struct TraceRequest {
  std::vector<std::int32_t> prompt;
  std::int32_t answer_tokens = 0;
  std::int32_t priority = 0;  ///< Request::priority
  std::uint64_t key = 0;      ///< what a proxy knows its conversation by
};

/// Sends requests, waits for the answers, pauses, and goes on. A conversation that has all its requests is followed by a new
/// one.
class User {
 public:
  User(UserKind kind, std::uint64_t seed);

  /// What it sends now. It sends more when all of these are answered.
  std::vector<TraceRequest> send();
  /// One of its requests was answered; `tokens` are its prompt and the answer. Whether it was the last one that was missing.
  bool answered(std::span<const std::int32_t> tokens);
  /// Seconds until it sends again.
  double pause() { return random_.around(shape_.pause_seconds); }

 private:
  void begin();
  void add_text(std::vector<std::int32_t>& tokens, std::int32_t count);
  [[nodiscard]] TraceRequest request_of(std::vector<std::int32_t> prompt);

  UserKind kind_;
  UserShape shape_;
  Random random_;
  std::vector<std::int32_t> text_;  ///< of the conversation; of a batch, the instructions
  std::uint64_t key_ = 0;
  std::int32_t sent_ = 0;  ///< of this conversation
  std::int32_t missing_ = 0;
};

}  // namespace rocmforge::cluster
