#include "load/load_client.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <random>
#include <string_view>

#include "base/error.h"
#include "base/json_document.h"
#include "base/printable.h"
#include "terminal/text.h"
#include "usage_error.h"

namespace rocmforge::app {
namespace {

using json = nlohmann::ordered_json;

json member(const json& object, const char* key) {
  return object.is_object() && object.contains(key) ? object.at(key) : json();
}

std::int32_t count_of(const json& object, const char* key) {
  const json count = member(object, key);
  return count.is_number_integer() ? count.get<std::int32_t>() : 0;
}

/// The message of an error, in any of the forms that servers use.
std::string message_of(const std::string& body) {
  const json answer = read_json(body).value;
  for (const json& message :
       {member(member(answer, "error"), "message"), member(answer, "message"), member(answer, "error")}) {
    if (message.is_string()) {
      return printable(message.get<std::string>());
    }
  }
  constexpr std::size_t most_shown = 200;
  return printable(body.substr(0, most_shown));
}

std::string body_of(const LoadTarget& target, const LoadRequest& request) {
  std::mt19937_64 random(request.seed);
  // Control tokens and single bytes are at the start and at the end of vocabularies.
  std::uniform_int_distribution<std::int32_t> id(target.vocab / 4, target.vocab * 3 / 4);
  std::vector<std::int32_t> prompt(static_cast<std::size_t>(request.prompt_tokens));
  std::ranges::generate(prompt, [&] { return id(random); });
  json body = {{"model", target.model},
               {"prompt", std::move(prompt)},
               {"max_tokens", request.output_tokens},
               {"ignore_eos", true},
               {"temperature", 0},
               {"stream", true},
               {"stream_options", {{"include_usage", true}}}};
  for (const std::int32_t token : target.forbidden) {
    body["logit_bias"][std::to_string(token)] = -100;
  }
  return body.dump();
}

HttpOrigin origin_of(const LoadTarget& target) {
  try {
    return HttpOrigin::parse(target.url);
  } catch (const Error& error) {
    throw UsageError(error.what());
  }
}

HttpHeaders headers_of(const LoadTarget& target, bool has_body) {
  HttpHeaders headers;
  if (has_body) {
    headers.emplace_back("Content-Type", "application/json");
  }
  if (!target.api_key.empty()) {
    headers.emplace_back("Authorization", "Bearer " + target.api_key);
  }
  return headers;
}

/// Whether the text of a JSON object has a member of this name that is an object itself. JSON strings have escaped quotes,
/// so that no string contains the quoted name.
bool has_object(std::string_view text, std::string_view quoted_name) {
  std::size_t at = text.find(quoted_name);
  if (at == std::string_view::npos) {
    return false;
  }
  at = text.find_first_not_of(" :", at + quoted_name.size());
  return at != std::string_view::npos && text[at] == '{';
}

/// Parses a streamed answer as it arrives.
class Reader {
 public:
  Reader(const LoadRequest& request, LoadSample& sample, LoadClock clock)
      : request_(request), sample_(sample), clock_(clock) {}

  /// False when the client leaves.
  bool read(std::string_view piece) {
    // Lines may end with CR LF; inside JSON a CR is escaped.
    std::ranges::copy_if(piece, std::back_inserter(pending_), [](char letter) { return letter != '\r'; });
    std::size_t from = 0;
    for (std::size_t end = pending_.find("\n\n"); end != std::string::npos; end = pending_.find("\n\n", from)) {
      take(std::string_view(pending_).substr(from, end - from));
      from = end + 2;
      if (request_.drop_after >= 0 && std::ssize(sample_.pieces) > request_.drop_after && !finished_) {
        sample_.dropped = true;
        return false;
      }
    }
    pending_.erase(0, from);
    return true;
  }

  [[nodiscard]] bool finished() const { return finished_; }

 private:
  // Only the necessary events are parsed: the generator may run on the same machine as the server that it measures.
  void take(std::string_view event) {
    if (!event.starts_with("data:")) {
      return;
    }
    event.remove_prefix(std::min(event.find_first_not_of(' ', 5), event.size()));
    if (event == "[DONE]") {
      finished_ = true;
    } else if (has_object(event, "\"error\"") || has_object(event, "\"usage\"")) {
      take_numbers(event);
    } else {
      sample_.pieces.push_back(clock_.now());
    }
  }

  void take_numbers(std::string_view event) {
    const json chunk = read_json(event).value;
    if (!member(chunk, "error").is_null()) {
      sample_.error = "error in the stream: " + message_of(std::string(event));
      return;
    }
    const json usage = member(chunk, "usage");
    sample_.prompt_tokens = count_of(usage, "prompt_tokens");
    sample_.output_tokens = count_of(usage, "completion_tokens");
    sample_.cached_tokens = count_of(member(usage, "prompt_tokens_details"), "cached_tokens");
    if (!member(chunk, "choices").empty()) {
      sample_.pieces.push_back(clock_.now());
    }
  }

  const LoadRequest& request_;
  LoadSample& sample_;
  LoadClock clock_;
  std::string pending_;
  bool finished_ = false;
};

}  // namespace

LoadClient::LoadClient(const LoadTarget& target, LoadClock clock)
    : target_(&target), clock_(clock), connection_(origin_of(target), target.timeout_seconds) {}

LoadSample LoadClient::send(const LoadRequest& request) {
  LoadSample sample;
  Reader reader(request, sample, clock_);
  std::string refusal;
  const std::string body = body_of(*target_, request);
  sample.start = request.due > 0.0 ? request.due : clock_.now();
  try {
    const HttpCall call = {
        .method = "POST", .target = "/v1/completions", .headers = headers_of(*target_, true), .body = body};
    const int status = connection_.request(call, [&](const HttpAnswer& head, std::string_view piece) {
      if (head.status != 200) {
        refusal += piece;
        return true;
      }
      return reader.read(piece);
    });
    if (status != 200) {
      sample.error = fmt::format("{}: {}", status, message_of(refusal));
    } else if (sample.dropped) {
      sample.output_tokens = static_cast<std::int32_t>(sample.pieces.size());
    } else if (sample.error.empty() && (!reader.finished() || sample.pieces.empty())) {
      sample.error = "the stream ended early";
    }
  } catch (const Error& error) {
    sample.error = error.what();
  }
  sample.end = clock_.now();
  return sample;
}

void find_model_of(LoadTarget& target) {
  StreamingClient connection(origin_of(target), target.timeout_seconds);
  std::string text;
  const HttpCall call = {.method = "GET", .target = "/v1/models", .headers = headers_of(target, false)};
  const int status = connection.request(call, [&](const HttpAnswer&, std::string_view piece) {
    text += piece;
    return true;
  });
  if (status != 200) {
    throw Error(fmt::format("{} answers {} to /v1/models: {}", target.url, status, message_of(text)));
  }
  const json list = member(read_json(text).value, "data");
  const json model = list.is_array() && !list.empty() ? list.front() : json();
  const json id = member(model, "id");
  if (!id.is_string()) {
    throw Error(fmt::format("{} names no model at /v1/models", target.url));
  }
  target.model = id.get<std::string>();
  if (target.vocab == 0) {
    target.vocab = count_of(member(model, "meta"), "n_vocab");
  }
  if (target.vocab < 1) {
    throw Error(fmt::format("{} does not say how many tokens its model knows; give --vocab", target.url));
  }
}

}  // namespace rocmforge::app
