#include "server/api/ollama/ollama.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <ctime>
#include <utility>
#include <vector>

#include "server/api/asked_grammar.h"
#include "server/api/message_generation.h"
#include "server/api/ollama/ollama_request.h"
#include "server/api/raw_prompts.h"

namespace rocmforge {
namespace {

std::string now_text() { return ollama_time(std::chrono::system_clock::to_time_t(std::chrono::system_clock::now())); }

std::int64_t nanoseconds(double seconds) { return static_cast<std::int64_t>(seconds * 1e9); }

/// Lines of JSON: pieces of text and reasoning, the calls, the counts.
class OllamaGeneration final : public MessageGeneration {
 public:
  /// `is_chat`: answers are messages, otherwise texts.
  OllamaGeneration(std::shared_ptr<HttpExchange> exchange, const Backend& backend, StreamOptions options, const Turn& turn,
                   bool is_chat, bool logprobs)
      : MessageGeneration(std::move(exchange), backend, options, "ollama-", turn, "", 1),
        is_chat_(is_chat),
        logprobs_(logprobs) {}

 protected:
  std::vector<Json> events(int index, const StepOutput& output) override {
    std::vector<Json> list;
    for (const AnswerDelta& delta : message(index).deltas()) {
      if (delta.kind == AnswerDelta::Kind::content) {
        list.push_back(line(delta.text, "", Json()));
      } else if (delta.kind == AnswerDelta::Kind::reasoning) {
        list.push_back(line("", delta.text, Json()));
      }
    }
    if (logprobs_ && !list.empty()) {
      list.back()["logprobs"] =
          std::move(chat_logprobs(take_logprobs(output.finish != FinishReason::none), model().text())["content"]);
    }
    if (output.finish != FinishReason::none) {
      if (Json calls = calls_json(); !calls.empty()) {
        list.push_back(line("", "", std::move(calls)));
      }
      Json last = line("", "", Json());
      end(last);
      list.push_back(std::move(last));
    }
    return list;
  }

  Json envelope() override { return nullptr; }
  [[nodiscard]] bool is_single() const override { return true; }
  Json entry(int index) override {
    Json whole = line(message(index).content(), message(index).reasoning(), calls_json());
    end(whole);
    if (logprobs_) {
      whole["logprobs"] = nullptr;
    }
    return whole;
  }
  [[nodiscard]] std::string_view logprobs_name() const override { return logprobs_ ? "logprobs" : ""; }
  TextPieces logprobs(int) override {
    return logprobs_ ? token_list_in_pieces(take_logprobs(true), model().tokenizer) : nullptr;
  }

  [[nodiscard]] bool says_done() const override { return false; }
  [[nodiscard]] StreamForm stream_form() const override { return StreamForm::lines; }
  [[nodiscard]] ErrorForm error_form() const override { return ollama_error; }

 private:
  std::vector<TokenLogprobs> take_logprobs(bool last) { return choice(0).logprobs.take(choice(0).text_bytes, last); }

  [[nodiscard]] Json line(const std::string& text, const std::string& thinking, Json calls) const {
    Json json = {{"model", model().id}, {"created_at", now_text()}};
    Json& answer = is_chat_ ? json["message"] : json;
    if (is_chat_) {
      answer["role"] = "assistant";
    }
    answer[is_chat_ ? "content" : "response"] = text;
    if (!thinking.empty()) {
      answer["thinking"] = thinking;
    }
    if (!calls.empty()) {
      answer["tool_calls"] = std::move(calls);
    }
    json["done"] = false;
    return json;
  }

  [[nodiscard]] Json calls_json() const {
    Json list = Json::array();
    for (const ToolCall& call : message(0).whole_calls()) {
      list.push_back({{"function", {{"name", call.name}, {"arguments", arguments_json(call)}}}});
    }
    return list;
  }

  void end(Json& json) {
    const RequestStats& stats = choice(0).stats;
    json["done"] = true;
    json["done_reason"] = finish_text(choice(0).finish);
    json["total_duration"] = nanoseconds(stats.prompt_seconds + stats.decode_seconds);
    json["load_duration"] = 0;
    json["prompt_eval_count"] = stats.prompt_tokens;
    json["prompt_eval_duration"] = nanoseconds(std::max(0.0, stats.prompt_seconds - stats.queue_seconds));
    json["eval_count"] = stats.generated_tokens;
    json["eval_duration"] = nanoseconds(stats.decode_seconds);
  }

  bool is_chat_;
  bool logprobs_;
};

/// Answers an empty prompt: it asks to load the model, which is already loaded.
void send_loaded(HttpExchange& exchange, const Backend& backend, bool is_chat) {
  Json json = {{"model", backend.model.id}, {"created_at", now_text()}};
  if (is_chat) {
    json["message"] = {{"role", "assistant"}, {"content", ""}};
  } else {
    json["response"] = "";
  }
  json["done"] = true;
  json["done_reason"] = "load";
  exchange.send_json(json);
}

/// Reads the rest of a request and answers it.
void answer(const std::shared_ptr<HttpExchange>& exchange, const Backend& backend, Fields& fields, Turn turn, bool is_chat) {
  turn.request.logprobs = read_logprobs(fields);
  const StreamOptions options = finish_turn(fields, turn, *exchange, backend, ollama_fields);
  auto generation =
      std::make_shared<OllamaGeneration>(exchange, backend, options, turn, is_chat, turn.request.logprobs >= 0);
  generation->start(std::move(turn.request), 1);
}

/// A text that is continued, or with a suffix the text before a gap.
Turn read_raw(Fields& fields, const OllamaText& text, Request request, Reading& reading, const Backend& backend) {
  Turn turn{.request = std::move(request)};
  turn.format.splits_reasoning = false;
  turn.request.prompt = encode_raw_prompt(fields, text.prompt, text.suffix, backend.model, reading);
  read_sampling(fields, backend.model, turn.request);
  turn.request.constraint =
      constrain(read_answer_grammar(fields, reading, text.conversation.format), backend.instance->grammars(), reading);
  return turn;
}

Json description_of(const ServedModel& model) {
  return {{"name", model.id},
          {"model", model.id},
          {"size", model.details.value("size", std::int64_t{0})},
          {"details", ollama_details(model.details)}};
}

}  // namespace

Json ollama_error(const ApiError& error) { return {{"error", error.message}}; }

Json ollama_details(const Json& meta) {
  const std::string family = meta.value("architecture", "");
  const double parameters = meta.value("n_params", 0.0);
  return {{"parent_model", ""},
          {"format", "gguf"},
          {"family", family},
          {"families", Json::array({family})},
          {"parameter_size",
           parameters >= 1e9 ? fmt::format("{:.1f}B", parameters / 1e9) : fmt::format("{:.1f}M", parameters / 1e6)}};
}

std::string ollama_time(std::time_t time) { return fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(time)); }

void serve_ollama_chat(const std::shared_ptr<HttpExchange>& exchange, const Backend& backend) {
  const Document document = exchange->take_json();
  Fields fields(document.root);
  Conversation conversation = read_ollama_chat(fields, exchange->reading);
  if (conversation.messages.empty()) {
    return send_loaded(*exchange, backend, true);
  }
  Request request = new_request(backend.model);
  read_ollama_options(fields, request);
  answer(exchange, backend, fields,
         read_turn(fields, std::move(conversation), std::move(request), exchange->reading, backend), true);
}

void serve_ollama_generate(const std::shared_ptr<HttpExchange>& exchange, const Backend& backend) {
  const Document document = exchange->take_json();
  Fields fields(document.root);
  OllamaText text = read_ollama_text(fields, exchange->reading);
  if (!text.is_raw && text.conversation.messages.empty()) {
    return send_loaded(*exchange, backend, false);
  }
  Request request = new_request(backend.model);
  read_ollama_options(fields, request);
  Turn turn = text.is_raw ? read_raw(fields, text, std::move(request), exchange->reading, backend)
                          : read_turn(fields, std::move(text.conversation), std::move(request), exchange->reading, backend);
  answer(exchange, backend, fields, std::move(turn), false);
}

void serve_ollama_tags(const std::shared_ptr<HttpExchange>& exchange, const Backend& backend) {
  Json model = description_of(backend.model);
  model["modified_at"] = ollama_time(static_cast<std::time_t>(backend.model.created));
  exchange->send_json({{"models", Json::array({std::move(model)})}});
}

void serve_ollama_ps(const std::shared_ptr<HttpExchange>& exchange, const Backend& backend) {
  Json model = description_of(backend.model);
  model["context_length"] = backend.model.context_length;
  exchange->send_json({{"models", Json::array({std::move(model)})}});
}

void serve_ollama_show(const std::shared_ptr<HttpExchange>& exchange, const Backend& backend) {
  const ServedModel& model = backend.model;
  const std::string family = model.details.value("architecture", "");
  Json capabilities = Json::array({model.is_encoder ? "embedding" : "completion"});
  if (model.tokenizer != nullptr && fills_gaps(model.tokenizer->vocabulary())) {
    capabilities.push_back("insert");
  }
  if (model.images) {
    capabilities.push_back("vision");
  }
  if (model.templates != nullptr && !model.is_encoder) {
    const ChatAbilities& abilities = model.templates->choose({}).abilities();
    capabilities.push_back("tools");
    if (abilities.thinking_switch) {
      capabilities.push_back("thinking");
    }
  }
  exchange->send_json({{"modelfile", ""},
                       {"parameters", ""},
                       {"template", model.templates == nullptr ? "" : model.templates->choose({}).source()},
                       {"details", ollama_details(model.details)},
                       {"model_info",
                        {{"general.architecture", family},
                         {"general.parameter_count", model.details.value("n_params", std::int64_t{0})},
                         {family + ".context_length", model.details.value("n_ctx_train", 0)},
                         {family + ".embedding_length", model.hidden}}},
                       {"capabilities", std::move(capabilities)},
                       {"modified_at", ollama_time(static_cast<std::time_t>(model.created))}});
}

}  // namespace rocmforge
