#include "server/api/token_logprobs_json.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/utf8.h"

namespace rocmforge {
namespace {

/// Impossible tokens would be -inf, which JSON has no number for.
constexpr double least_logprob = -9999.0;

Json logprob_value(float logprob) {
  if (std::isnan(logprob)) {
    return nullptr;
  }
  return std::max(static_cast<double>(logprob), least_logprob);
}

Json token_fields(const Tokenizer& tokenizer, std::int32_t token, float logprob, bool special) {
  Json bytes = Json::array();
  for (const char byte : tokenizer.token_bytes(token, special)) {
    bytes.push_back(static_cast<unsigned char>(byte));
  }
  return {{"id", token},
          {"token", token_text(tokenizer, token, special)},
          {"logprob", logprob_value(logprob)},
          {"bytes", std::move(bytes)}};
}

/// A key for the token that no other has: "bytes:\\xe2\\x80" for what is no text of its own.
std::string token_key(const Tokenizer& tokenizer, std::int32_t token) {
  const std::string bytes = tokenizer.token_bytes(token, true);
  std::string rest = bytes;
  if (take_utf8(rest, true) == bytes) {
    return bytes;
  }
  std::string key = "bytes:";
  for (const char byte : bytes) {
    key += fmt::format("\\x{:02x}", static_cast<unsigned char>(byte));
  }
  return key;
}

std::size_t characters(std::string_view text) {
  return static_cast<std::size_t>(
      std::ranges::count_if(text, [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; }));
}

}  // namespace

std::string token_text(const Tokenizer& tokenizer, std::int32_t token, bool special) {
  std::string bytes = tokenizer.token_bytes(token, special);
  return take_utf8(bytes, true);
}

void PendingLogprobs::add(TokenLogprobs logprobs, std::size_t bytes) {
  entries_.push_back({std::move(logprobs), end_, end_ + bytes});
  end_ += bytes;
}

std::vector<TokenLogprobs> PendingLogprobs::take(std::size_t text_bytes, bool last) {
  std::vector<TokenLogprobs> taken;
  auto entry = entries_.begin();
  for (; entry != entries_.end() && (entry->end <= text_bytes || (last && entry->begin < text_bytes)); ++entry) {
    taken.push_back(std::move(entry->logprobs));
  }
  entries_.erase(entries_.begin(), last ? entries_.end() : entry);
  return taken;
}

Json chat_logprobs(const std::vector<TokenLogprobs>& tokens, const Tokenizer& tokenizer) {
  Json content = Json::array();
  for (const TokenLogprobs& token : tokens) {
    Json entry = token_fields(tokenizer, token.token, token.logprob, false);
    Json top = Json::array();
    for (const TokenLogprob& other : token.top) {
      top.push_back(token_fields(tokenizer, other.token, other.logprob, true));
    }
    entry["top_logprobs"] = std::move(top);
    content.push_back(std::move(entry));
  }
  return {{"content", std::move(content)}, {"refusal", nullptr}};
}

Json completion_logprobs(const std::vector<TokenLogprobs>& tokens, const Tokenizer& tokenizer, std::size_t& text_offset) {
  Json texts = Json::array();
  Json values = Json::array();
  Json tops = Json::array();
  Json offsets = Json::array();
  for (const TokenLogprobs& token : tokens) {
    const std::string text = token_text(tokenizer, token.token, false);
    texts.push_back(text);
    values.push_back(logprob_value(token.logprob));
    offsets.push_back(text_offset);
    text_offset += characters(text);
    if (std::isnan(token.logprob)) {
      tops.push_back(nullptr);
      continue;
    }
    Json top = Json::object();
    for (const TokenLogprob& other : token.top) {
      top.emplace(token_key(tokenizer, other.token), logprob_value(other.logprob));  // of equal texts the first stays
    }
    tops.push_back(std::move(top));
  }
  return {{"tokens", std::move(texts)},
          {"token_logprobs", std::move(values)},
          {"top_logprobs", std::move(tops)},
          {"text_offset", std::move(offsets)}};
}

}  // namespace rocmforge
