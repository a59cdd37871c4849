#pragma once

#include <chrono>
#include <compare>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "grammar/token_constraint.h"
#include "schedule/pages/token_span.h"
#include "schedule/sampling_params.h"

namespace rocmforge {

using RequestId = std::uint64_t;
struct PreparedImage;  // of the models
struct PreparedSound;  // likewise

/// What an encoder makes the rows of some tokens of.
using EncoderInput = std::variant<std::shared_ptr<const PreparedImage>, std::shared_ptr<const PreparedSound>>;

enum class FinishReason {
  none,     ///< still running
  stop,     ///< an end-of-generation token or a stop string
  length,   ///< max_tokens reached
  context,  ///< the context is full
  cancelled,
  timeout,  ///< Request::deadline has passed
  error,
};

std::string_view name(FinishReason reason);

/// What happens to a sequence at the model's context length.
enum class ContextPolicy {
  stop,   ///< finish with FinishReason::context
  shift,  ///< drop the older half after `keep` tokens, recompute the rest and go on; reported in the output
};

/// How the hidden states of a text become one vector.
enum class Pooling {
  mean,  ///< of all tokens
  last,  ///< of the last token
  cls,   ///< of the first token
};

std::string_view name(Pooling pooling);

/// The most log probabilities that a request may ask for with each token.
constexpr std::int32_t max_logprobs = 20;

/// A LoRA adapter of the engine, and what its part of each product is multiplied by.
struct AdapterScale {
  std::int32_t id = 0;
  float scale = 1.0f;
  std::int32_t from = 0;  ///< the token of the prompt from which on it acts; found by the engine

  friend auto operator<=>(const AdapterScale&, const AdapterScale&) = default;
};

struct Request {
  std::vector<std::int32_t> prompt{};
  std::vector<TokenSpan> spans{};      ///< of the prompt, ascending: tokens of images and recordings
  std::vector<EncoderInput> inputs{};  ///< [spans]
  SamplingParams sampling{};
  std::int32_t max_tokens = -1;             ///< -1: until an end token or the context's end; 0: only the prompt is computed
  std::vector<std::string> stop{};          ///< text at which the answer ends (the text itself is not part of the answer)
  std::vector<std::int32_t> stop_tokens{};  ///< tokens that end the answer as an end token does, also with ignore_eos
  bool ignore_eos = false;
  ContextPolicy context_policy = ContextPolicy::stop;
  std::int32_t keep = 0;      ///< prompt tokens that a shift never drops
  std::int32_t priority = 0;  ///< lower ones run first; equal ones by clients in turn, then by arrival
  std::uint64_t client = 0;   ///< the client that sent it
  std::int32_t slot = -1;     ///< that names its conversation when it has ended; -1: one is chosen
  std::string cache_salt{};   ///< prefixes are shared with requests of the same salt alone
  /// That change the model for it; empty: those that the engine uses where a request names none. Prefixes are shared with
  /// requests of the same adapters and scales alone, up to the first token where one acts.
  std::optional<std::vector<AdapterScale>> adapters{};
  /// Where adapters begin within the prompt, ascending, of one token each; made by the engine. Their contents tell which act
  /// from there on.
  std::vector<TokenSpan> adapter_marks{};

  /// -1: none; 0 to max_logprobs: the log probability of each drawn token, and of that many of the most likely ones. Natural
  /// logarithms of the model's own distribution: before bias, penalties, filters, temperature and constraint.
  std::int32_t logprobs = -1;
  /// If `logprobs` is not -1: lists the log probabilities of these tokens in place of the most likely ones'.
  std::vector<std::int32_t> logprobs_of{};
  /// Returns the logits from which each token is drawn, before bias, penalties, filters, temperature and constraint.
  bool logits = false;
  /// As `logprobs` for every token of the prompt but the first.
  std::int32_t prompt_logprobs = -1;
  /// Constrains the answer; null: no constraint. Each sequence uses a clone. Under a constraint an end token always
  /// ends the answer.
  std::shared_ptr<const TokenConstraint> constraint{};
  /// The result is the pooled hidden state of the prompt after the final norm, and no text.
  std::optional<Pooling> embedding{};
  /// The request ends with FinishReason::timeout at the first step after this.
  std::optional<std::chrono::steady_clock::time_point> deadline{};
  bool deadline_is_for_first_token = false;  ///< the deadline no longer counts once a token was drawn

  /// Whether the host reads logits or hidden states of a drawn token.
  [[nodiscard]] bool wants_raw_logits() const { return logits || logprobs >= 0; }
};

/// Why a request was refused.
enum class RequestError {
  none,
  invalid,     ///< a parameter is wrong
  too_long,    ///< it never fits
  queue_full,  ///< it may be sent again later
  no_memory,   ///< likewise
};

/// RequestError::none: the request was accepted, and the message is empty.
struct RequestRefusal {
  RequestError error = RequestError::none;
  std::string message{};  ///< one line

  [[nodiscard]] explicit operator bool() const { return error != RequestError::none; }
};

}  // namespace rocmforge
