#include "server/api/sampling_fields.h"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <cmath>
#include <limits>

#include "schedule/sampling_numbers.h"
#include "server/api/api_error.h"

namespace rocmforge {
namespace {

constexpr std::size_t most_stops = 16;
constexpr std::size_t longest_stop = 1024;
constexpr std::size_t most_biases = 4096;
constexpr std::size_t longest_salt = 256;

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

void read_number(Fields& fields, std::string_view name, const SamplingNumber& number, SamplingParams& params) {
  if (number.is_whole()) {
    const auto found = fields.integer(name, static_cast<std::int64_t>(number.least), static_cast<std::int64_t>(number.most));
    if (found) {
      number.set(params, static_cast<double>(*found));
    }
  } else if (const auto found = fields.number(name, number.least, number.most)) {
    number.set(params, *found);
  }
}

}  // namespace

Json sampling_json(const SamplingParams& params) {
  Json out = {{"seed", params.seed ? Json(*params.seed) : Json(-1)}};
  for (const SamplingNumber& number : sampling_numbers()) {
    const double value = number.get(params);
    out[std::string(number.name)] =
        number.is_whole() ? Json(static_cast<std::int64_t>(value)) : number_of(static_cast<float>(value));
  }
  return out;
}

Request new_request(const ServedModel& model) {
  Request request;
  request.sampling = model.sampling;
  request.max_tokens = -1;
  return request;
}

void read_stop(Fields& fields, std::string_view name, Request& request) {
  const Json* stop = fields.find(name);
  if (stop == nullptr) {
    return;
  }
  request.stop.clear();
  const auto add = [&](const Json& value) {
    if (!value.is_string()) {
      fields.fail(name, "must be a string or an array of strings");
    }
    const auto& text = value.get_ref<const std::string&>();
    if (text.empty() || text.size() > longest_stop) {
      fields.fail(name, fmt::format("holds a string of {} bytes, must be 1 to {}", text.size(), longest_stop));
    }
    request.stop.push_back(text);
  };
  if (!stop->is_array()) {
    return add(*stop);
  }
  if (stop->size() > most_stops) {
    fields.fail(name, fmt::format("holds {} strings, at most {}", stop->size(), most_stops));
  }
  for (const Json& value : *stop) {
    add(value);
  }
}

void read_sampling_numbers(Fields& fields, SamplingParams& params) {
  for (const SamplingNumber& number : sampling_numbers()) {
    read_number(fields, number.name, number, params);
  }
  // -1 asks for a random one.
  if (const auto seed =
          fields.integer("seed", std::numeric_limits<std::int64_t>::min(), std::numeric_limits<std::int64_t>::max());
      seed && *seed != -1) {
    params.seed = static_cast<std::uint64_t>(*seed);
  }
}

void read_sampling(Fields& fields, const ServedModel& model, Request& request, const ApiFields& api) {
  for (const SamplingNumber& number : sampling_numbers()) {
    if (number.name == "repeat_penalty") {
      read_number(fields, "repetition_penalty", number, request.sampling);  // the name others use
    }
  }
  read_sampling_numbers(fields, request.sampling);
  read_logit_bias(fields, model, request);
  read_stop(fields, fields.has(api.stop) ? api.stop : "stop", request);
  request.ignore_eos = fields.boolean("ignore_eos").value_or(false);
  request.priority = static_cast<std::int32_t>(fields.integer("priority", -1000, 1000).value_or(0));
  request.cache_salt = fields.text("cache_salt").value_or("");
  if (request.cache_salt.size() > longest_salt) {
    fields.fail("cache_salt", fmt::format("has {} bytes, at most {}", request.cache_salt.size(), longest_salt));
  }
  if (const std::string problem = request.sampling.validate(); !problem.empty()) {
    throw ApiError(400, problem);
  }
}

int read_count(Fields& fields, int most) {
  const auto count = static_cast<int>(fields.integer("n", 1, most).value_or(1));
  if (const auto best_of = fields.integer("best_of", 0, 20); best_of && *best_of > count) {
    fields.fail("best_of", fmt::format("is {}: more answers than n = {} are not drawn to choose from", *best_of, count));
  }
  return count;
}

StreamOptions read_stream(Fields& fields, const ApiFields& api) {
  StreamOptions options;
  options.stream = fields.boolean("stream").value_or(api.streams);
  options.timings_per_token = fields.boolean("timings_per_token").value_or(false);
  if (!api.has_stream_options) {
    fields.ignore({"stream_options"});
    return options;
  }
  if (const Json* object = fields.object("stream_options")) {
    Fields inner = fields.inner(*object, "stream_options.");
    options.include_usage = inner.boolean("include_usage").value_or(false);
    if (options.include_usage && !options.stream) {
      fields.fail("stream_options", "needs stream to be true");
    }
    inner.ignore({"include_obfuscation"});
    inner.ignore_unless("continuous_usage_stats", Json::array({false}));
    inner.finish();
  }
  return options;
}

std::int32_t read_max_tokens(Fields& fields, std::int32_t otherwise, bool takes_zero, const ApiFields& api) {
  std::int32_t most = otherwise;
  const std::array<std::string_view, 4> names = {"n_predict", "max_tokens", api.max_tokens, "max_completion_tokens"};
  const bool has_own = api.max_tokens != "max_tokens" && fields.has(api.max_tokens);
  for (const std::string_view name : names) {  // the last one counts
    if (has_own && name == "max_tokens") {
      fields.ignore({name});
      continue;
    }
    const auto given = fields.integer(name, -1, std::int64_t{1} << 30);
    if (given == 0 && !takes_zero && name != "n_predict") {
      fields.fail(name, "is 0, must be at least 1, or -1 for no limit");
    }
    if (name != "n_predict" || !api.limit_in_options || otherwise < 0) {
      most = static_cast<std::int32_t>(given.value_or(most));
    }
  }
  return most;
}

}  // namespace rocmforge
