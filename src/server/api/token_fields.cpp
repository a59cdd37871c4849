#include "server/api/token_fields.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <utility>

namespace rocmforge {
namespace {

constexpr std::size_t most_biases = 4096;
constexpr std::size_t most_stop_tokens = 128;
constexpr TextLimits bad_words{64, 256};

/// A number, or false for "never".
float read_bias_value(const Fields& fields, const Json& value) {
  if (value.is_boolean() && !value.get<bool>()) {
    return -std::numeric_limits<float>::infinity();
  }
  const double bias = value.is_number() ? value.get<double>() : std::nan("");
  if (!(bias >= -100.0 && bias <= 100.0)) {
    fields.fail("logit_bias", "has a value that is no number from -100 to 100");
  }
  return static_cast<float>(bias);
}

void set_bias(const Fields& fields, const ServedModel& model, std::int64_t token, float bias, Request& request) {
  if (token < 0 || token >= model.vocab) {
    fields.fail("logit_bias", fmt::format("names token {}, the vocabulary has {}", token, model.vocab));
  }
  request.sampling.logit_bias[static_cast<std::int32_t>(token)] = bias;
}

/// {"42": -100}, or pairs [[42, -100], ["text", false]].
void read_logit_bias(Fields& fields, const ServedModel& model, Request& request) {
  const Json* biases = fields.find("logit_bias");
  if (biases == nullptr) {
    return;
  }
  if (!biases->is_structured() || biases->size() > most_biases) {
    fields.fail("logit_bias", fmt::format("must be an object or an array of at most {} entries", most_biases));
  }
  if (biases->is_object()) {
    for (const auto& [key, value] : biases->items()) {
      std::int64_t token = -1;
      const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), token);
      if (error != std::errc() || end != key.data() + key.size()) {
        fields.fail("logit_bias", fmt::format("has a key '{}' that is no token id", key.substr(0, 40)));
      }
      set_bias(fields, model, token, read_bias_value(fields, value), request);
    }
    return;
  }
  for (const Json& pair : *biases) {
    if (!pair.is_array() || pair.size() != 2 || !(pair[0].is_number_integer() || pair[0].is_string())) {
      fields.fail("logit_bias", "has an entry that is no pair [token or text, value]");
    }
    const float bias = read_bias_value(fields, pair[1]);
    if (pair[0].is_number_integer()) {
      set_bias(fields, model, pair[0].get<std::int64_t>(), bias, request);
      continue;
    }
    for (const std::int32_t token : model.text().encode(pair[0].get<std::string>(), {.add_special = false})) {
      set_bias(fields, model, token, bias, request);
    }
  }
}

void read_stop_tokens(Fields& fields, const ServedModel& model, Request& request) {
  const Json* tokens = fields.array("stop_token_ids");
  if (tokens == nullptr) {
    return;
  }
  if (tokens->size() > most_stop_tokens) {
    fields.fail("stop_token_ids", fmt::format("holds {} tokens, at most {}", tokens->size(), most_stop_tokens));
  }
  for (const Json& token : *tokens) {
    const std::int64_t id = token.is_number_integer() ? token.get<std::int64_t>() : -1;
    if (id < 0 || id >= model.vocab) {
      fields.fail("stop_token_ids", fmt::format("must hold token ids, 0 to {}", model.vocab - 1));
    }
    request.stop_tokens.push_back(static_cast<std::int32_t>(id));
  }
}

/// Each text is forbidden with and without a blank before it, as tokens that stand inside of a text: tokenizers put a blank
/// of their own before what begins one.
void read_bad_words(Fields& fields, const ServedModel& model, Request& request) {
  const Json* words = fields.find("bad_words");
  if (words == nullptr) {
    return;
  }
  const auto encode = [&](const std::string& text) { return model.text().encode(text, {.add_special = false}); };
  const std::string before = "\n";
  const std::vector<std::int32_t> start = encode(before);
  for (const std::string& word : read_texts(fields, "bad_words", *words, bad_words)) {
    for (const std::string& text : {word, " " + word}) {
      std::vector<std::int32_t> tokens = encode(before + text);
      if (std::ranges::mismatch(start, tokens).in1 == start.end()) {
        tokens.erase(tokens.begin(), tokens.begin() + static_cast<std::ptrdiff_t>(start.size()));
      } else {
        tokens = encode(text);
      }
      if (!tokens.empty()) {
        request.sampling.bad_words.push_back(std::move(tokens));
      }
    }
  }
}

}  // namespace

std::string read_text(const Fields& fields, std::string_view name, const Json& value, std::size_t longest) {
  if (!value.is_string()) {
    fields.fail(name, "must be a string or an array of strings");
  }
  const auto& text = value.get_ref<const std::string&>();
  if (text.empty() || text.size() > longest) {
    fields.fail(name, fmt::format("holds a string of {} bytes, must be 1 to {}", text.size(), longest));
  }
  return text;
}

std::vector<std::string> read_texts(const Fields& fields, std::string_view name, const Json& value, TextLimits limits) {
  if (!value.is_array()) {
    fields.fail(name, "must be an array of strings");
  }
  if (value.size() > limits.most) {
    fields.fail(name, fmt::format("holds {} strings, at most {}", value.size(), limits.most));
  }
  std::vector<std::string> texts;
  for (const Json& text : value) {
    texts.push_back(read_text(fields, name, text, limits.longest));
  }
  return texts;
}

void read_token_fields(Fields& fields, const ServedModel& model, Request& request) {
  read_logit_bias(fields, model, request);
  read_stop_tokens(fields, model, request);
  read_bad_words(fields, model, request);
  const auto least = fields.integer("min_tokens", 0, std::int64_t{1} << 30);
  request.sampling.min_tokens = static_cast<std::int32_t>(least.value_or(0));
}

}  // namespace rocmforge
