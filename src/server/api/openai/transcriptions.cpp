#include "server/api/openai/transcriptions.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "base/json_document.h"
#include "base/utf8.h"
#include "server/api/message_generation.h"
#include "server/api/multipart.h"
#include "server/api/unserved_fields.h"

namespace rocmforge {
namespace {

enum class TranscriptForm { json, text, verbose };

struct TranscriptAsked {
  Turn turn{};
  StreamOptions options{};
  TranscriptForm form = TranscriptForm::json;
  std::string language{};
};

class TranscriptGeneration final : public MessageGeneration {
 public:
  TranscriptGeneration(std::shared_ptr<HttpExchange> exchange, const Backend& backend, const TranscriptAsked& asked)
      : MessageGeneration(std::move(exchange), backend, asked.options, "trsc-", asked.turn, "", 1),
        form_(asked.form),
        language_(asked.language),
        seconds_(asked.turn.sound_seconds) {}

 protected:
  std::vector<Json> events(int index, const StepOutput&) override {
    std::vector<Json> list;
    for (const AnswerDelta& delta : message(index).deltas()) {
      if (delta.kind == AnswerDelta::Kind::content) {
        list.push_back({{"type", "transcript.text.delta"}, {"delta", delta.text}});
      }
    }
    return list;
  }
  std::vector<Json> last_events() override {
    return {{{"type", "transcript.text.done"}, {"text", message(0).content()}, {"usage", counts()}}};
  }
  Json envelope() override { return nullptr; }
  [[nodiscard]] bool is_single() const override { return true; }
  Json entry(int index) override {
    if (form_ == TranscriptForm::json) {
      return {{"text", message(index).content()}, {"usage", counts()}};
    }
    return {{"task", "transcribe"},
            {"language", language_},
            {"duration", seconds_},
            {"text", message(index).content()},
            {"usage", counts()}};
  }
  TextPieces entry_in_pieces(int index) override {
    return form_ == TranscriptForm::text ? pieces_of(message(index).content() + "\n") : Generation::entry_in_pieces(index);
  }
  [[nodiscard]] std::string_view content_type() const override {
    return form_ == TranscriptForm::text ? "text/plain; charset=utf-8" : Generation::content_type();
  }

 private:
  [[nodiscard]] Json counts() const {
    const Json all = usage();
    return {{"type", "tokens"},
            {"input_tokens", all["prompt_tokens"]},
            {"output_tokens", all["completion_tokens"]},
            {"total_tokens", all["total_tokens"]}};
  }

  TranscriptForm form_;
  std::string language_;
  double seconds_;
};

/// A field's text as the value that JSON would have for it: the fields of a form are texts, also numbers among them.
Json value_of(const FormPart& part) {
  constexpr std::array<std::string_view, 4> texts = {"model", "language", "prompt", "response_format"};
  constexpr std::size_t longest_number = 64;
  std::string text(part.content);
  std::string held;
  static_cast<void>(replace_invalid_utf8(text, held));
  if (!held.empty()) {
    throw ApiError(400, part.name.substr(0, 64) + " is not in UTF-8", part.name.substr(0, 64));
  }
  if (std::ranges::find(texts, part.name) == texts.end() && text.size() <= longest_number) {
    if (JsonDocument read = read_json(text); read.problem.empty() && !read.value.is_structured()) {
      return std::move(read.value);
    }
  }
  return text;
}

struct TranscriptFields {
  Json fields = Json::object();
  std::optional<std::string_view> file{};
};

/// A field whose name ends with "[]" is an array of all that have it; of others the last counts.
TranscriptFields fields_of(const std::vector<FormPart>& parts) {
  TranscriptFields read;
  for (const FormPart& part : parts) {
    if (part.name == "file") {
      if (read.file) {
        throw ApiError(400, "file is given twice", "file");
      }
      read.file = part.content;
    } else if (part.name.ends_with("[]")) {
      Json& list = read.fields[part.name.substr(0, part.name.size() - 2)];
      list = list.is_array() ? std::move(list) : Json::array();
      list.push_back(value_of(part));
    } else {
      read.fields[part.name] = value_of(part);
    }
  }
  if (!read.file) {
    throw ApiError(400, "file is missing", "file");
  }
  return read;
}

/// What the model is asked.
std::string question(const std::string& language, const std::string& prompt) {
  std::string text = "Transcribe the recording word for word. Write nothing but the transcript.";
  if (!language.empty()) {
    text += fmt::format(" Its language is {}.", language);
  }
  return prompt.empty() ? text : fmt::format("{} What is known about it: {}", text, prompt);
}

/// A language's code or name.
std::string read_language(Fields& fields) {
  constexpr std::size_t longest = 32;
  const std::string language = fields.text("language").value_or("");
  const auto is_right = [](char c) { return c == '-' || c == ' ' || ((c | 32) >= 'a' && (c | 32) <= 'z'); };
  if (language.size() > longest || !std::ranges::all_of(language, is_right)) {
    fields.fail("language", "must be a language's code or name, of at most 32 letters");
  }
  return language;
}

TranscriptForm read_form_of_answer(Fields& fields) {
  const std::string name = fields.choice("response_format", {"json", "text", "verbose_json"}).value_or("json");
  return name == "json" ? TranscriptForm::json : name == "text" ? TranscriptForm::text : TranscriptForm::verbose;
}

Turn read_turn_of(Fields& fields, std::string_view file, const std::string& language, Reading& reading,
                  const Backend& backend) {
  reading.hold(static_cast<std::int64_t>(file.size()));
  SoundPart sound{.url = {}, .field = "file", .bytes = std::make_shared<const std::string>(file)};
  std::vector<Part> parts = {std::move(sound), TextPart{question(language, fields.text("prompt").value_or(""))}};
  TurnRequest asked{.conversation = {.messages = {{.role = Role::user, .content = std::move(parts)}}},
                    .request = new_request(backend.model)};
  asked.request.sampling.temperature = 0.0f;
  read_sampling(fields, backend.model, asked.request);
  return make_turn(std::move(asked), *backend.instance, reading);
}

}  // namespace

void serve_transcription(const std::shared_ptr<HttpExchange>& exchange, const Backend& backend) {
  const HttpRequest& request = exchange->request;
  const TranscriptFields form =
      fields_of(read_form(request.header("Content-Type"), request.body, &exchange->reading.budget));
  Fields fields(form.fields);
  TranscriptAsked asked;
  asked.language = read_language(fields);
  asked.form = read_form_of_answer(fields);
  fields.refuse_unless("timestamp_granularities", Json::array({Json::array()}), "the model tells no times");
  fields.ignore_unless("include", Json::array({Json::array()}));
  fields.ignore({"chunking_strategy"});
  asked.turn = read_turn_of(fields, *form.file, asked.language, exchange->reading, backend);
  asked.options = finish_turn(fields, asked.turn, *exchange, backend, {.has_stream_options = false});
  auto generation = std::make_shared<TranscriptGeneration>(exchange, backend, asked);
  generation->start(std::move(asked.turn.request), 1);
}

}  // namespace rocmforge
