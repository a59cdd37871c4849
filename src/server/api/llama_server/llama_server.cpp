#include "server/api/llama_server/llama_server.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "server/api/asked_grammar.h"
#include "server/api/prompts.h"
#include "server/api/raw_prompts.h"
#include "server/api/token_logprobs_json.h"
#include "server/api/unserved_fields.h"

namespace rocmforge {
namespace {

/// The fields of an answer that are wanted, each by its path ("timings/prompt_n") and under the last name in it.
std::vector<std::string> read_response_fields(Fields& fields) {
  constexpr std::size_t most = 64;
  const Json* paths = fields.array("response_fields");
  if (paths == nullptr) {
    return {};
  }
  const bool texts = std::ranges::all_of(*paths, [](const Json& path) { return path.is_string(); });
  if (!texts || paths->size() > most) {
    fields.fail("response_fields", fmt::format("must be an array of at most {} strings", most));
  }
  return paths->get<std::vector<std::string>>();
}

Json chosen_fields(const Json& answer, const std::vector<std::string>& paths) {
  Json chosen = Json::object();
  for (std::string_view path : paths) {
    const Json* value = &answer;
    std::string name;
    while (value != nullptr && !path.empty()) {
      name = path.substr(0, path.find('/'));
      path.remove_prefix(std::min(path.size(), name.size() + 1));
      const auto found = value->is_object() ? value->find(name) : value->end();
      value = value->is_object() && found != value->end() ? &*found : nullptr;
    }
    if (value != nullptr && !name.empty()) {
      chosen[name] = *value;
    }
  }
  return chosen;
}

struct NativeOptions {
  StreamOptions stream;
  int count = 1;  ///< answers to each prompt
  bool probabilities = false;
  bool list = false;  ///< several prompts were given: the answer is an array
  bool return_tokens = false;
  std::vector<std::string> response_fields;  ///< none: all
  Json settings;                             ///< as they were understood
  std::vector<Json> prompts;                 ///< as they were sent
};

class NativeGeneration final : public Generation {
 public:
  NativeGeneration(std::shared_ptr<HttpExchange> exchange, const Backend& backend, NativeOptions options)
      : Generation(std::move(exchange), backend, options.stream, "gen-"), options_(std::move(options)) {}

 protected:
  void take(int index, StepOutput& output) override {
    stops_.resize(choices().size());
    if (!output.stop.empty()) {
      stops_[static_cast<std::size_t>(index)] = output.stop;
    }
  }

  std::vector<Json> events(int index, const StepOutput& output) override {
    std::vector<Json> list;
    if (!output.text.empty()) {
      const Ids tokens = std::exchange(choice(index).tokens, {});
      list.push_back({{"index", index}, {"content", output.text}, {"tokens", tokens}, {"stop", false}, {"id", id()}});
      add_probabilities(index, list.back());
    }
    if (output.finish != FinishReason::none) {
      list.push_back(result(index, ""));
    }
    return list;
  }

  Json envelope() override { return nullptr; }
  [[nodiscard]] bool is_single() const override { return !options_.list; }
  Json entry(int index) override { return result(index, choice(index).text); }
  [[nodiscard]] std::string_view logprobs_name() const override {
    return options_.probabilities ? "completion_probabilities" : "";
  }
  TextPieces logprobs(int index) override {
    return options_.probabilities
               ? token_list_in_pieces(choice(index).logprobs.take(choice(index).text_bytes, true), model().tokenizer)
               : nullptr;
  }

  [[nodiscard]] std::int64_t own_bytes() const override {
    std::size_t bytes = 0;
    for (const Json& prompt : options_.prompts) {
      bytes += prompt.is_string() ? prompt.get_ref<const std::string&>().size() : 0;
      for (const Json& part : prompt.is_array() ? prompt : Json::array()) {
        bytes += 2 * sizeof(Json) + (part.is_string() ? part.get_ref<const std::string&>().size() : 0);
      }
    }
    return static_cast<std::int64_t>(bytes);
  }
  [[nodiscard]] bool says_done() const override { return false; }

 private:
  [[nodiscard]] std::string_view stop_type(int index) {
    switch (choice(index).finish) {
      case FinishReason::stop:
        return stops_[static_cast<std::size_t>(index)].empty() ? "eos" : "word";
      case FinishReason::cancelled:
        return "cancelled";
      default:
        return "limit";
    }
  }

  Json result(int index, const std::string& content) {
    const Choice& state = choice(index);
    const bool with_tokens = options_.return_tokens && !options().stream;
    Json json = {{"index", index},
                 {"content", content},
                 {"tokens", with_tokens ? Json(state.tokens) : Json::array()},
                 {"id", id()},
                 {"stop", true},
                 {"model", model().id},
                 {"tokens_predicted", state.stats.generated_tokens},
                 {"tokens_evaluated", state.stats.prompt_tokens},
                 {"tokens_cached", state.stats.cached_tokens},
                 {"generation_settings", options_.settings},
                 {"prompt", options_.prompts[static_cast<std::size_t>(index / options_.count)]},
                 {"has_new_line", content.find('\n') != std::string::npos},
                 {"truncated", state.finish == FinishReason::context},
                 {"stop_type", stop_type(index)},
                 {"stopping_word", stops_[static_cast<std::size_t>(index)]},
                 {"timings", timings_json(state.stats)}};
    if (!options().stream && options_.probabilities) {  // a stream has sent them with their texts
      json["completion_probabilities"] = nullptr;
    }
    return options_.response_fields.empty() ? json : chosen_fields(json, options_.response_fields);
  }

  /// Adds those of the tokens whose text has arrived since the last call.
  void add_probabilities(int index, Json& json) {
    if (options_.probabilities) {
      Choice& state = choice(index);
      const bool last = state.finish != FinishReason::none;
      Json list = chat_logprobs(state.logprobs.take(state.text_bytes, last), model().text());
      json["completion_probabilities"] = std::move(list["content"]);
    }
  }

  NativeOptions options_;
  std::vector<std::string> stops_;  ///< that ended the answers
};

Json settings_of(const Request& request, const ServedModel& model) {
  Json settings = {{"n_ctx", model.context_length}, {"n_predict", request.max_tokens}};
  settings.update(sampling_json(request.sampling));
  settings.update({{"stop", request.stop}, {"ignore_eos", request.ignore_eos}});
  return settings;
}

}  // namespace

void start_llama_completion(Fields& fields, const std::shared_ptr<HttpExchange>& exchange, const Backend& backend,
                            LlamaPrompts prompts) {
  NativeOptions options;
  options.prompts = std::move(prompts.sent);
  Request request = new_request(backend.model);
  read_sampling(fields, backend.model, request);
  request.constraint =
      constrain(read_answer_grammar(fields, exchange->reading), backend.instance->grammars(), exchange->reading);
  options.stream = read_stream(fields);
  options.count = read_count(fields, 128);
  if (const auto number = fields.integer("n_probs", 0, max_logprobs); number && *number > 0) {
    request.logprobs = static_cast<std::int32_t>(*number);
    options.probabilities = true;
  }
  options.return_tokens = fields.boolean("return_tokens").value_or(false);
  options.response_fields = read_response_fields(fields);
  request.max_tokens = read_max_tokens(fields, -1);
  finish_fields(fields, *exchange, backend);
  options.settings = settings_of(request, backend.model);
  std::vector<Request> requests;
  for (std::size_t number = 0; number < options.prompts.size(); ++number) {
    requests.push_back(request);
    prompts.give(number, requests.back());
  }
  const int count = options.count;
  options.list = prompts.is_list || count > 1;
  auto generation = std::make_shared<NativeGeneration>(exchange, backend, std::move(options));
  generation->start(std::move(requests), count);
}

void serve_llama_completion(const std::shared_ptr<HttpExchange>& exchange, const Backend& backend) {
  const Document document = exchange->take_json();
  Fields fields(document.root);
  const std::vector<const Json*> values = prompt_values(fields, "prompt", true);
  LlamaPrompts prompts;
  prompts.is_list = values.front() != fields.find("prompt");
  const Tokenizer::EncodeOptions rules = read_raw_rules(fields);
  std::vector<RawPrompt> read;
  for (const Json* value : values) {
    const std::string path = path_of_prompt(read.size(), prompts.is_list);
    read.push_back(read_raw_prompt(fields, path, *value, backend.model, exchange->reading, rules));
    prompts.sent.push_back(value->is_object() ? value->at("prompt_string") : *value);  // without images
  }
  ImageAllowance allowance;
  prompts.give = [&](std::size_t number, Request& request) {
    give_prompt(request, std::move(read[number]), backend.model, allowance, exchange->reading);
  };
  start_llama_completion(fields, exchange, backend, std::move(prompts));
}

}  // namespace rocmforge
