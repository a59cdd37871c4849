#include "server/api/openai/responses.h"

#include <fmt/format.h>

#include <optional>
#include <utility>
#include <vector>

#include "chat/conversation.h"
#include "chat/message_json.h"
#include "server/api/content_parts.h"
#include "server/api/message_generation.h"
#include "server/api/openai/response_store.h"
#include "server/api/openai/responses_request.h"

namespace rocmforge {
namespace {

using Text = ResponseStore::Text;

/// Fields of the request that the response repeats, as the rest of a JSON object with other members. They may be as large as
/// the request, and every stored response and several events of a stream have them: so they become text once, by the thread
/// that reads the request.
Text repeated(const Json& body) {
  Json json = {{"background", false},
               {"instructions", nullptr},
               {"max_output_tokens", nullptr},
               {"metadata", Json::object()},
               {"parallel_tool_calls", true},
               {"previous_response_id", nullptr},
               {"reasoning", {{"effort", nullptr}, {"summary", nullptr}}},
               {"service_tier", "default"},
               {"store", true},
               {"temperature", nullptr},
               {"text", {{"format", {{"type", "text"}}}}},
               {"tool_choice", "auto"},
               {"tools", Json::array()},
               {"top_p", nullptr},
               {"truncation", "disabled"},
               {"user", nullptr}};
  for (auto& [name, value] : json.items()) {
    if (const auto given = body.find(name); given != body.end() && !given->is_null()) {
      value = *given;
    }
  }
  const Document document(std::move(json));
  std::string text = json_text(document.root);
  text.front() = ',';
  return std::make_shared<const std::string>(std::move(text));
}

/// What a response continues, and what is stored of it.
struct Place {
  Text repeated;
  Text messages;  ///< of the conversation, a JSON array without its end, if it is to be stored
  bool is_stored = true;
  OfferedTools tools{};  ///< how calls of them look
};

/// The text of an object without its last brace.
std::string without_end(const Json& object) {
  std::string text = to_text(object);
  text.pop_back();
  return text;
}

/// A response of items: reasoning, text and calls in their order.
class ResponseGeneration final : public MessageGeneration {
 public:
  ResponseGeneration(std::shared_ptr<HttpExchange> exchange, const Backend& backend, StreamOptions options, const Turn& turn,
                     Place place)
      : MessageGeneration(std::move(exchange), backend, options, "resp_", turn, "", 1), place_(std::move(place)) {}

 protected:
  void take(int index, StepOutput& output) override {
    MessageGeneration::take(index, output);
    for (const AnswerDelta& delta : message(index).deltas()) {
      if (delta.kind == AnswerDelta::Kind::call || !is_open_ || kind_of(delta.kind) != kind_) {
        close_item("completed");
        open_item(delta);
      }
      if (delta.kind != AnswerDelta::Kind::call) {
        add_to_item(delta.text);
      }
    }
    if (output.finish != FinishReason::none) {
      close_item(output.finish == FinishReason::stop && !message(index).is_inside_call() ? "completed" : "incomplete");
    }
  }

  std::vector<Json> events(int index, const StepOutput&) override {
    std::vector<Json> list;
    if (!std::exchange(choice(index).begun, true)) {
      for (const char* type : {"response.created", "response.in_progress"}) {
        list.push_back(event(type, {{"response", response("in_progress", Json::array())}}));
      }
    }
    for (auto& [type, more] : std::exchange(news_, {})) {
      list.push_back(event(type, std::move(more)));
    }
    return list;
  }

  TextPieces long_event(const Json& event) override {
    const auto response = event.find("response");
    return response == event.end() ? nullptr : with_member(event, "response", with_repeated(*response));
  }

  std::vector<Json> last_events() override {
    Json whole = complete();
    const std::string type = fmt::format("response.{}", whole["status"].get_ref<const std::string&>());
    return {event(type, {{"response", std::move(whole)}})};
  }

  [[nodiscard]] Json error_event(const ApiError& error) override {
    Json failed = response("failed", items_);
    failed["error"] = {{"code", error.status >= 500 ? "server_error" : "invalid_prompt"}, {"message", error.message}};
    return event("response.failed", {{"response", std::move(failed)}});
  }

  Json envelope() override { return nullptr; }
  [[nodiscard]] bool is_single() const override { return true; }
  Json entry(int) override { return complete(); }
  TextPieces entry_in_pieces(int) override { return with_repeated(complete()); }

  [[nodiscard]] std::int64_t own_bytes() const override {
    return MessageGeneration::own_bytes() + static_cast<std::int64_t>(place_.repeated->size() + place_.messages->size());
  }
  [[nodiscard]] bool says_done() const override { return false; }
  [[nodiscard]] StreamForm stream_form() const override { return StreamForm::named_events; }

 private:
  enum class Kind { message, reasoning, call };

  static Kind kind_of(AnswerDelta::Kind kind) {
    switch (kind) {
      case AnswerDelta::Kind::content:
        return Kind::message;
      case AnswerDelta::Kind::reasoning:
        return Kind::reasoning;
      case AnswerDelta::Kind::call:
      case AnswerDelta::Kind::arguments:
        break;
    }
    return Kind::call;
  }

  [[nodiscard]] Json event(std::string_view type, Json more) {
    Json json = {{"type", type}, {"sequence_number", sequence_number_++}};
    json.update(more);
    return json;
  }
  /// Another event of the open item.
  void tell(std::string_view type, Json more) {
    if (options().stream) {
      Json json = {{"item_id", item_["id"]}, {"output_index", items_.size()}};
      json.update(more);
      news_.emplace_back(type, std::move(json));
    }
  }
  void tell_of_item(std::string_view type) {
    if (options().stream) {
      news_.emplace_back(type, Json{{"output_index", items_.size()}, {"item", item_}});
    }
  }

  [[nodiscard]] bool is_function_call() const { return item_["type"] == "function_call"; }
  [[nodiscard]] Json part() const {
    if (kind_ == Kind::reasoning) {
      return {{"type", "reasoning_text"}, {"text", text_}};
    }
    return {{"type", "output_text"}, {"text", text_}, {"annotations", Json::array()}, {"logprobs", Json::array()}};
  }
  /// "response.output_text.delta"
  [[nodiscard]] std::string text_event(std::string_view what) const {
    return fmt::format("response.{}.{}", kind_ == Kind::reasoning ? "reasoning_text" : "output_text", what);
  }

  void open_item(const AnswerDelta& delta) {
    kind_ = kind_of(delta.kind);
    const std::string_view type = kind_ == Kind::message ? "message" : kind_ == Kind::reasoning ? "reasoning" : "";
    const std::string_view prefix = kind_ == Kind::message ? "msg" : kind_ == Kind::reasoning ? "rs" : "fc";
    is_open_ = true;
    text_.clear();
    item_ = {{"type", type},
             {"id", fmt::format("{}_{}{:02}", prefix, id().substr(id().find('_') + 1), items_.size())},
             {"status", "in_progress"}};
    if (kind_ == Kind::call) {
      called_ = delta.text;
      item_.update(place_.tools.item(called_, delta.id, ""));
    } else if (kind_ == Kind::message) {
      item_.update({{"role", "assistant"}, {"content", Json::array()}});
    } else {
      item_.update({{"summary", Json::array()}, {"content", Json::array()}});
    }
    tell_of_item("response.output_item.added");
    if (kind_ != Kind::call) {
      tell("response.content_part.added", {{"content_index", 0}, {"part", part()}});
    }
  }

  void add_to_item(const std::string& text) {
    text_ += text;
    if (kind_ == Kind::call) {
      if (is_function_call()) {  // other arguments are known at their end
        tell("response.function_call_arguments.delta", {{"delta", text}});
      }
      return;
    }
    Json more = {{"content_index", 0}, {"delta", text}};
    if (kind_ == Kind::message) {
      more["logprobs"] = Json::array();
    }
    tell(text_event("delta"), std::move(more));
  }

  void close_item(std::string_view status) {
    if (!std::exchange(is_open_, false)) {
      return;
    }
    if (kind_ == Kind::call) {
      close_call();
    } else {
      item_["content"] = Json::array({part()});
      Json more = {{"content_index", 0}, {"text", text_}};
      if (kind_ == Kind::message) {
        more["logprobs"] = Json::array();
      }
      tell(text_event("done"), std::move(more));
      tell("response.content_part.done", {{"content_index", 0}, {"part", part()}});
    }
    item_["status"] = status;
    tell_of_item("response.output_item.done");
    items_.push_back(item_);
  }

  void close_call() {
    item_.update(place_.tools.item(called_, string_of(item_, "call_id"), text_));
    if (is_function_call()) {
      tell("response.function_call_arguments.done", {{"name", item_["name"]}, {"arguments", text_}});
    } else if (item_["type"] == "custom_tool_call") {
      tell("response.custom_tool_call_input.delta", {{"delta", item_["input"]}});
      tell("response.custom_tool_call_input.done", {{"input", item_["input"]}});
    }
  }

  /// Without what it repeats of the request.
  [[nodiscard]] Json response(std::string_view status, Json output) {
    return {{"id", id()},       {"object", "response"},          {"created_at", created()}, {"status", status},
            {"error", nullptr}, {"incomplete_details", nullptr}, {"model", model().id},     {"output", std::move(output)}};
  }
  [[nodiscard]] TextPieces with_repeated(const Json& response) const {
    return pieces_of({pieces_of(without_end(response)), pieces_of(place_.repeated)});
  }

  /// The response at its end; it is stored from now on.
  [[nodiscard]] Json complete() {
    const bool whole = choice(0).finish == FinishReason::stop && !message(0).is_inside_call();
    Json json = response(whole ? "completed" : "incomplete", items_);
    if (!whole) {
      json["incomplete_details"] = {{"reason", "max_output_tokens"}};
    }
    const RequestStats& stats = choice(0).stats;
    json["usage"] = {{"input_tokens", stats.prompt_tokens},
                     {"input_tokens_details", cached_details(stats.cached_tokens, stats.host_tokens, stats.disk_tokens)},
                     {"output_tokens", stats.generated_tokens},
                     {"output_tokens_details", {{"reasoning_tokens", message(0).reasoning_tokens()}}},
                     {"total_tokens", stats.prompt_tokens + stats.generated_tokens}};
    if (std::exchange(place_.is_stored, false)) {
      responses().add(id(), {.client = client(),
                             .owner = owner(),
                             .messages = place_.messages,
                             .answer = answer_as_message(),
                             .response = without_end(json),
                             .repeated = place_.repeated});
    }
    return json;
  }

  /// The end of the array of messages.
  [[nodiscard]] std::string answer_as_message() {
    const AnswerMessage& answer = message(0);
    Message kept = text_message(Role::assistant, answer.content());
    kept.reasoning = answer.reasoning();
    for (const ToolCall& call : answer.whole_calls()) {
      kept.calls.push_back({.id = call.id, .name = call.name, .arguments = call.arguments});
    }
    return fmt::format("{}{}]", place_.messages->size() > 1 ? "," : "", to_text(stored_json_of(kept)));
  }

  Place place_;
  std::vector<std::pair<std::string, Json>> news_;  ///< events of the last output, without their numbers
  std::int64_t sequence_number_ = 0;
  Json items_ = Json::array();  ///< that have ended
  Json item_;                   ///< the last one
  Kind kind_ = Kind::message;   ///< its kind
  std::string text_;            ///< its text or arguments
  std::string called_;          ///< the function that it calls, by the model's name
  bool is_open_ = false;
};

ApiError not_stored(const std::string& id, const std::string& param) {
  return ApiError(
      404, fmt::format("there is no response '{}': it was not stored, or has been dropped for later ones", id.substr(0, 64)),
      param);
}

/// The messages of the previous response.
std::vector<Message> earlier_messages(const Json& body, std::string_view owner, Reading& reading, const Backend& backend) {
  const auto previous = body.find("previous_response_id");
  if (previous == body.end() || previous->is_null()) {
    return {};
  }
  if (!previous->is_string()) {
    throw ApiError(400, "previous_response_id must be a string", "previous_response_id");
  }
  const std::string id = previous->get<std::string>();
  const auto entry = backend.responses.find(id, owner);
  if (entry == nullptr) {
    throw not_stored(id, "previous_response_id");
  }
  reading.hold(static_cast<std::int64_t>(entry->messages->size() + entry->answer.size()));
  const Document stored(read_json(*entry->messages + entry->answer, reading.cost()).value);
  std::vector<Message> messages;
  for (const Json& message : stored.root) {
    messages.push_back(message_of_json(message));
  }
  return messages;
}

/// The conversation without its instructions, which belong to one response only.
Text kept_messages(const std::vector<Message>& messages, bool has_instructions) {
  std::string text = "[";
  for (std::size_t i = has_instructions ? 1 : 0; i < messages.size(); ++i) {
    text += (text.size() > 1 ? "," : "") + to_text(stored_json_of(messages[i]));
  }
  return std::make_shared<const std::string>(std::move(text));
}

}  // namespace

void serve_response(const std::shared_ptr<HttpExchange>& exchange, const Backend& backend) {
  Reading& reading = exchange->reading;
  const Document document = exchange->take_json();
  const Json& body = document.root;
  reading.hold(reading.held());  // for storing it
  Fields fields(body);
  OfferedTools tools;
  Conversation conversation =
      read_responses(fields, earlier_messages(body, exchange->request.owner, reading, backend), tools, reading);
  show_media(fields, conversation, backend.model);  // those that nobody sees are not stored
  Place place{.repeated = repeated(body),
              .messages = std::make_shared<const std::string>(),
              .is_stored = fields.boolean("store").value_or(true),
              .tools = std::move(tools)};
  if (place.is_stored) {
    place.messages = kept_messages(conversation.messages, fields.has("instructions"));
  }
  Turn turn = read_turn(fields, std::move(conversation), new_request(backend.model), reading, backend, responses_fields);
  const StreamOptions options = finish_turn(fields, turn, *exchange, backend, responses_fields);
  auto generation = std::make_shared<ResponseGeneration>(exchange, backend, options, turn, std::move(place));
  generation->start(std::move(turn.request), 1);
}

void serve_response_input_tokens(const std::shared_ptr<HttpExchange>& exchange, const Backend& backend) {
  Reading& reading = exchange->reading;
  const Document document = exchange->take_json();
  Fields fields(document.root);
  OfferedTools tools;
  Conversation conversation =
      read_responses(fields, earlier_messages(document.root, exchange->request.owner, reading, backend), tools, reading);
  send_input_tokens(fields, std::move(conversation), *exchange, backend, {{"object", "response.input_tokens"}});
}

void serve_stored_response(const std::shared_ptr<HttpExchange>& exchange, const Backend& backend) {
  const std::string& id = exchange->request.path_part;
  const auto entry = backend.responses.find(id, exchange->request.owner);
  if (entry == nullptr) {
    throw not_stored(id, "");
  }
  exchange->reading.hold(
      static_cast<std::int64_t>(entry->bytes()));  // it may leave the store before the client has taken it
  exchange->send_pieces(pieces_of({pieces_of(Text(entry, &entry->response)), pieces_of(entry->repeated)}));
}

void serve_response_removal(const std::shared_ptr<HttpExchange>& exchange, const Backend& backend) {
  const std::string& id = exchange->request.path_part;
  if (!backend.responses.remove(id, exchange->request.owner)) {
    throw not_stored(id, "");
  }
  exchange->send_json({{"id", id}, {"object", "response"}, {"deleted", true}});
}

}  // namespace rocmforge
