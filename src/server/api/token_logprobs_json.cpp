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

Json token_entry(const TokenLogprobs& token, const Tokenizer& tokenizer) {
  Json entry = token_fields(tokenizer, token.token, token.logprob, false);
  Json top = Json::array();
  for (const TokenLogprob& other : token.top) {
    top.push_back(token_fields(tokenizer, other.token, other.logprob, true));
  }
  entry["top_logprobs"] = std::move(top);
  return entry;
}

/// Null for a token without a probability.
Json top_by_text(const TokenLogprobs& token, const Tokenizer& tokenizer) {
  if (std::isnan(token.logprob)) {
    return nullptr;
  }
  Json top = Json::object();
  for (const TokenLogprob& other : token.top) {
    top.emplace(token_key(tokenizer, other.token), logprob_value(other.logprob));  // of equal texts the first stays
  }
  return top;
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

Json chat_logprobs(const std::vector<TokenLogprobs>& tokens, const Tokenizer& tokenizer) {
  Json content = Json::array();
  for (const TokenLogprobs& token : tokens) {
    content.push_back(token_entry(token, tokenizer));
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
    tops.push_back(top_by_text(token, tokenizer));
  }
  return {{"tokens", std::move(texts)},
          {"token_logprobs", std::move(values)},
          {"top_logprobs", std::move(tops)},
          {"text_offset", std::move(offsets)}};
}

TextPieces token_list_in_pieces(std::vector<TokenLogprobs> tokens, std::shared_ptr<const Tokenizer> tokenizer) {
  const auto held = std::make_shared<const std::vector<TokenLogprobs>>(std::move(tokens));
  return list_in_pieces(held->size(), [held, tokenizer = std::move(tokenizer)](std::size_t i) {
    return to_text(token_entry((*held)[i], *tokenizer));
  });
}

TextPieces chat_logprobs_in_pieces(std::vector<TokenLogprobs> tokens, std::shared_ptr<const Tokenizer> tokenizer) {
  return with_member({{"content", nullptr}, {"refusal", nullptr}}, "content",
                     token_list_in_pieces(std::move(tokens), std::move(tokenizer)));
}

TextPieces completion_logprobs_in_pieces(std::vector<TokenLogprobs> tokens, std::shared_ptr<const Tokenizer> tokenizer) {
  const auto held = std::make_shared<const std::vector<TokenLogprobs>>(std::move(tokens));
  const auto list = [&](const auto& value) {
    return list_in_pieces(held->size(),
                          [held, tokenizer, value = value](std::size_t i) mutable { return value((*held)[i], *tokenizer); });
  };
  const auto text = [](const TokenLogprobs& token, const Tokenizer& of) {
    return to_text(Json(token_text(of, token.token, false)));
  };
  const auto logprob = [](const TokenLogprobs& token, const Tokenizer&) { return to_text(logprob_value(token.logprob)); };
  const auto top = [](const TokenLogprobs& token, const Tokenizer& of) { return to_text(top_by_text(token, of)); };
  const auto offset = [at = std::size_t{0}](const TokenLogprobs& token, const Tokenizer& of) mutable {
    const std::size_t begin = at;
    at += characters(token_text(of, token.token, false));
    return fmt::format("{}", begin);
  };
  return pieces_of({pieces_of("{\"tokens\":"), list(text), pieces_of(",\"token_logprobs\":"), list(logprob),
                    pieces_of(",\"top_logprobs\":"), list(top), pieces_of(",\"text_offset\":"), list(offset),
                    pieces_of("}")});
}

}  // namespace rocmforge
