#include "cluster/trace.h"

#include <utility>

namespace rocmforge::cluster {
namespace {

constexpr std::int32_t vocabulary = 32000;

std::int32_t token_of(std::uint64_t number) { return static_cast<std::int32_t>(number % vocabulary); }

}  // namespace

std::uint64_t Random::next() {
  std::uint64_t mixed = state_ += 0x9e3779b97f4a7c15u;
  mixed = (mixed ^ mixed >> 30) * 0xbf58476d1ce4e5b9u;
  mixed = (mixed ^ mixed >> 27) * 0x94d049bb133111ebu;
  return mixed ^ mixed >> 31;
}

std::int32_t Random::between(std::int32_t least, std::int32_t most) {
  return least + static_cast<std::int32_t>(next() % static_cast<std::uint64_t>(most - least + 1));
}

double Random::around(double mean) { return 2.0 * mean * static_cast<double>(next() >> 11) * 0x1p-53; }

UserShape shape_of(UserKind kind) {
  switch (kind) {
    case UserKind::agent:
      return {.systems = 4,
              .system_tokens = 1500,
              .least_text = 50,
              .most_text = 400,
              .least_answer = 30,
              .most_answer = 150,
              .requests = 12,
              .pause_seconds = 1.0};
    case UserKind::chat:
      return {.systems = 4,
              .system_tokens = 200,
              .least_text = 20,
              .most_text = 200,
              .least_answer = 50,
              .most_answer = 300,
              .requests = 6,
              .pause_seconds = 8.0};
    case UserKind::batch:
      return {.systems = 8,
              .system_tokens = 500,
              .least_text = 200,
              .most_text = 1000,
              .least_answer = 20,
              .most_answer = 60,
              .requests = 16,
              .pause_seconds = 10.0};
  }
  return {};
}

User::User(UserKind kind, std::uint64_t seed) : kind_(kind), shape_(shape_of(kind)), random_(seed) {}

void User::begin() {
  text_.clear();
  sent_ = 0;
  key_ = random_.next();
  const auto system = static_cast<std::uint64_t>(random_.between(1, shape_.systems));
  Random of_system(system << 8 | static_cast<std::uint64_t>(kind_));
  for (std::int32_t i = 0; i < shape_.system_tokens; ++i) {
    text_.push_back(token_of(of_system.next()));
  }
}

void User::add_text(std::vector<std::int32_t>& tokens, std::int32_t count) {
  for (std::int32_t i = 0; i < count; ++i) {
    tokens.push_back(token_of(random_.next()));
  }
}

TraceRequest User::request_of(std::vector<std::int32_t> prompt) {
  return {.prompt = std::move(prompt),
          .answer_tokens = random_.between(shape_.least_answer, shape_.most_answer),
          .priority = kind_ == UserKind::batch ? 1 : 0,
          .key = key_};
}

std::vector<TraceRequest> User::send() {
  std::vector<TraceRequest> requests;
  if (kind_ == UserKind::batch || sent_ == 0 || sent_ == shape_.requests) {
    begin();
  }
  const std::int32_t count = kind_ == UserKind::batch ? shape_.requests : 1;
  for (std::int32_t i = 0; i < count; ++i) {
    std::vector<std::int32_t> prompt = text_;
    add_text(prompt, random_.between(shape_.least_text, shape_.most_text));
    requests.push_back(request_of(std::move(prompt)));
  }
  sent_ += count;
  missing_ = count;
  return requests;
}

bool User::answered(std::span<const std::int32_t> tokens) {
  if (kind_ != UserKind::batch) {
    text_.assign(tokens.begin(), tokens.end());
  }
  return --missing_ == 0;
}

}  // namespace rocmforge::cluster
