#include "server/api/sampling_fields.h"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <cmath>
#include <limits>

#include "schedule/sampling_numbers.h"
#include "server/api/adapter_fields.h"
#include "server/api/api_error.h"
#include "server/api/sampler_order.h"
#include "server/api/token_fields.h"

namespace rocmforge {
namespace {

constexpr std::size_t most_stops = 16;
constexpr std::size_t longest_stop = 1024;
constexpr std::size_t most_breakers = 32;
constexpr std::size_t longest_breaker = 64;
constexpr std::size_t longest_salt = 256;

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
  out["samplers"] = sampler_order_json(params);
  return out;
}

Request new_request(const ServedModel& model) {
  Request request;
  request.sampling = model.sampling;
  request.max_tokens = -1;
  return request;
}

void read_stop(Fields& fields, std::string_view name, Request& request) {
  if (const Json* stop = fields.find(name)) {
    request.stop = stop->is_array() ? read_texts(fields, name, *stop, {most_stops, longest_stop})
                                    : std::vector{read_text(fields, name, *stop, longest_stop)};
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
  if (!fields.was_asked_for("samplers")) {
    read_sampler_order(fields, request.sampling);
  }
  read_token_fields(fields, model, request);
  read_stop(fields, fields.has(api.stop) ? api.stop : "stop", request);
  if (const Json* breakers = fields.find("dry_sequence_breakers")) {
    request.sampling.dry_breakers = read_texts(fields, "dry_sequence_breakers", *breakers, {most_breakers, longest_breaker});
  }
  request.ignore_eos = fields.boolean("ignore_eos").value_or(false);
  request.priority = static_cast<std::int32_t>(fields.integer("priority", -1000, 1000).value_or(0));
  request.slot = static_cast<std::int32_t>(fields.integer("id_slot", -1, model.parallel - 1).value_or(-1));
  request.cache_salt = fields.text("cache_salt").value_or("");
  if (request.cache_salt.size() > longest_salt) {
    fields.fail("cache_salt", fmt::format("has {} bytes, at most {}", request.cache_salt.size(), longest_salt));
  }
  read_adapters(fields, model, request);
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
