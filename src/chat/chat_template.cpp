#include "chat/chat_template.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>

#include "base/error.h"
#include "chat/answer_start.h"
#include "chat/chat_adaptation.h"
#include "chat/chat_format.h"
#include "chat/jinja/json_text.h"
#include "chat/jinja/template.h"

namespace rocmforge {
namespace {

using nlohmann::ordered_json;

/// Templates write roles into control tokens ("<|user|>"). Roles of this list are safe there.
bool is_usual_role(std::string_view role) {
  constexpr std::array<std::string_view, 7> roles = {"system", "developer", "user",   "assistant",
                                                     "tool",   "function",  "ipython"};
  return std::ranges::find(roles, role) != roles.end();
}

jinja::Value message_value(const ordered_json& message) {
  jinja::Value value = jinja::from_json(message);
  const auto role = message.find("role");
  if (role == message.end() || !role->is_string() || !is_usual_role(role->get_ref<const std::string&>())) {
    return value;
  }
  jinja::Mapping mapping = *value.mapping();
  mapping.set("role", jinja::Value::text(jinja::Text(role->get_ref<const std::string&>(), true)));
  return jinja::Value(std::make_shared<const jinja::Mapping>(std::move(mapping)));
}

jinja::Value messages_value(const ordered_json& messages) {
  if (!messages.is_array()) {
    throw Error("messages: an array is needed");
  }
  std::vector<jinja::Value> values;
  for (const ordered_json& message : messages) {
    if (!message.is_object()) {
      throw Error(fmt::format("messages[{}]: an object is needed", values.size()));
    }
    values.push_back(message_value(message));
  }
  return jinja::Value(std::make_shared<const jinja::Sequence>(jinja::Sequence::Kind::list, std::move(values)));
}

std::vector<ChatSegment> segments_of(const jinja::Text& text) {
  std::vector<ChatSegment> segments;
  std::size_t begin = 0;
  for (const jinja::Text::Run& run : text.runs()) {
    segments.push_back({text.bytes().substr(begin, run.end - begin), run.from_template});
    begin = run.end;
  }
  return segments;
}

/// The name of the undefined variable that the error reports, or "".
std::string undefined_name(const jinja::TemplateError& error) {
  constexpr std::string_view end = "' is undefined";
  const std::string& message = error.message();
  const bool is_it = message.starts_with('\'') && message.ends_with(end) && message.size() > end.size() + 1;
  return is_it ? message.substr(1, message.size() - end.size() - 1) : "";
}

std::string token_text(const Tokenizer& tokenizer, std::int32_t id) {
  return id < 0 ? "" : tokenizer.vocabulary().tokens[static_cast<std::size_t>(id)];
}

ChatTemplate with_tokens(std::string source, const Tokenizer& tokenizer) {
  const Vocabulary& vocabulary = tokenizer.vocabulary();
  return ChatTemplate(std::move(source), token_text(tokenizer, vocabulary.bos), token_text(tokenizer, vocabulary.eos));
}

/// A text that stands in nothing that the caller has given: it has a longer run of a character.
std::string unused_mark(const ChatRequest& request) {
  constexpr char repeated = '=';
  std::size_t longest = 0;
  for (const ordered_json* given : {&request.messages, &request.tools, &request.arguments}) {
    std::size_t run = 0;
    for (const char c : given->dump(-1, ' ', false, ordered_json::error_handler_t::replace)) {
      run = c == repeated ? run + 1 : 0;
      longest = std::max(longest, run);
    }
  }
  return "[" + std::string(longest + 1, repeated) + "]";
}

/// What the template's texts for images and recordings replace; "" where it needs none.
MediaTexts marks_of(const ChatRequest& request, const MediaTexts& texts) {
  if (texts.image.empty() && texts.sound.empty()) {
    return {};
  }
  const std::string mark = unused_mark(request);
  return {.image = texts.image.empty() ? "" : mark, .sound = texts.sound.empty() ? "" : "[" + mark + "]"};
}

/// Puts the template's `text` in the place of each mark.
std::vector<ChatSegment> with_text_for(std::vector<ChatSegment> segments, const std::string& mark, const std::string& text) {
  if (mark.empty()) {
    return segments;
  }
  std::vector<ChatSegment> out;
  for (ChatSegment& segment : segments) {
    std::size_t begin = 0;
    for (std::size_t at = segment.text.find(mark); at != std::string::npos; at = segment.text.find(mark, begin)) {
      out.push_back({segment.text.substr(begin, at - begin), segment.from_template});
      out.push_back({text, true});
      begin = at + mark.size();
    }
    segment.text.erase(0, begin);
    out.push_back(std::move(segment));
  }
  std::erase_if(out, [](const ChatSegment& segment) { return segment.text.empty(); });
  return out;
}

}  // namespace

std::tm local_time() {
  const std::time_t now = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
  std::tm local{};
  localtime_r(&now, &local);
  return local;
}

std::string text_of(std::span<const ChatSegment> segments) {
  std::string text;
  for (const ChatSegment& segment : segments) {
    text += segment.text;
  }
  return text;
}

bool ChatAbilities::takes_parts(std::string_view role) const {
  return (role == "user" && parts.user) || (role == "system" && parts.system) || (role == "assistant" && parts.assistant) ||
         (role == "tool" && parts.tool);
}

std::vector<std::int32_t> encode_chat(const Tokenizer& tokenizer, std::span<const ChatSegment> segments,
                                      WorkBudget* budget) {
  std::vector<Tokenizer::TextPart> parts;
  for (const ChatSegment& segment : segments) {
    parts.push_back({segment.text, segment.from_template});
  }
  std::vector<std::int32_t> ids = tokenizer.encode(parts, /*add_special=*/false, budget);
  const std::int32_t bos = tokenizer.vocabulary().bos;
  if (tokenizer.adds_bos() && (ids.empty() || ids.front() != bos)) {
    ids.insert(ids.begin(), bos);
  }
  return ids;
}

ChatTemplate::ChatTemplate(std::string source, std::string bos, std::string eos)
    : source_(std::move(source)),
      bos_(std::move(bos)),
      eos_(std::move(eos)),
      template_(with_context("chat template", [this] { return std::make_shared<const jinja::Template>(source_); })),
      abilities_(find_abilities()) {}

std::vector<ChatSegment> ChatTemplate::render(const ChatRequest& request) const {
  return render(request, jinja::Limits{.budget = request.budget});
}

std::vector<ChatSegment> ChatTemplate::render(const ChatRequest& request, const jinja::Limits& limits) const {
  jinja::Mapping variables;
  variables.set("messages", messages_value(request.messages));
  variables.set("tools", jinja::from_json(request.tools));
  if (source_.find("xml_tools") != std::string::npos && request.tools.is_array()) {
    variables.set("xml_tools", jinja::from_json(request.tools));  // SmolLM3's name for tools that are called in JSON
  }
  variables.set("documents", jinja::Value(jinja::None{}));
  variables.set("add_generation_prompt", jinja::Value::boolean(request.add_generation_prompt));
  for (const auto& [name, text] : {std::pair("bos_token", &bos_), std::pair("eos_token", &eos_)}) {
    if (!text->empty()) {
      variables.set(name, jinja::Value::text(jinja::Text(*text, true)));
    }
  }
  if (!request.arguments.is_null() && !request.arguments.is_object()) {
    throw Error("chat_template_kwargs: an object is needed");
  }
  for (const auto& [name, value] : request.arguments.items()) {
    if (name == "messages" || name == "tools" || name == "add_generation_prompt") {
      throw Error(fmt::format("chat_template_kwargs: '{}' is given by the request itself", name));
    }
    variables.set(name, jinja::from_json(value));
  }
  return with_context("chat template", [&] {
    try {
      return segments_of(template_->render(variables, request.clock, limits));
    } catch (const jinja::TemplateError& error) {
      if (const std::string name = undefined_name(error); !name.empty() && !error.raised()) {
        throw jinja::TemplateError(
            error.position(),
            fmt::format("'{}' is undefined: the template needs it; chat_template_kwargs can set it", name));
      }
      throw;
    }
  });
}

ChatPrompt ChatTemplate::prompt(ChatRequest request) const {
  const MediaTexts texts{.image = abilities_.images.user ? "" : request.image_text,
                         .sound = abilities_.sounds ? "" : request.sound_text};
  const MediaTexts media = marks_of(request, texts);
  adapt(request, abilities_, media);
  const ReasoningMarks marks = reasoning_marks();
  const auto render_media = [&](const ChatRequest& each) {
    return with_text_for(with_text_for(render(each), media.sound, texts.sound), media.image, texts.image);  // the longer one
  };
  if (continues_answer(request)) {
    ChatPrompt continued = continue_answer(std::move(request), source_, marks, render_media);
    continued.in_channels = has_channels();
    return continued;
  }
  ChatPrompt prompt{.segments = render_media(request), .reasoning = marks};
  prompt.in_channels = prompt.header_is_open = has_channels();
  prompt.reasoning_is_open = request.add_generation_prompt && ends_inside_reasoning(text_of(prompt.segments), marks);
  return prompt;
}

ReasoningMarks ChatTemplate::reasoning_marks() const { return reasoning_marks_of(source_); }

bool ChatTemplate::has_channels() const { return has_answer_channels(source_); }

ChatAbilities ChatTemplate::find_abilities() const {
  return probe_abilities(source_, [this](const ChatRequest& request) -> std::optional<std::string> {
    try {
      return text_of(render(request, jinja::Limits{.steps = probe_steps}));
    } catch (const Error&) {
      return std::nullopt;  // a template that refuses a conversation lacks the ability that it tests
    }
  });
}

std::optional<ChatTemplates> ChatTemplates::of_model(const Tokenizer& tokenizer) {
  const Vocabulary& vocabulary = tokenizer.vocabulary();
  if (vocabulary.chat_template.empty()) {
    const bool has_marks = tokenizer.find("<|im_start|>") >= 0 && tokenizer.find("<|im_end|>") >= 0;
    return has_marks ? std::optional(of_source(std::string(*builtin_chat_template("chatml")), tokenizer)) : std::nullopt;
  }
  std::optional<ChatTemplate> tool_use;
  if (!vocabulary.tool_use_template.empty()) {
    tool_use = with_tokens(vocabulary.tool_use_template, tokenizer);
  }
  return ChatTemplates(with_tokens(vocabulary.chat_template, tokenizer), std::move(tool_use));
}

ChatTemplates ChatTemplates::of_source(std::string source, const Tokenizer& tokenizer) {
  return {with_tokens(std::move(source), tokenizer), std::nullopt};
}

const ChatTemplate& ChatTemplates::choose(const ChatRequest& request) const {
  return tool_use_.has_value() && request.tools.is_array() && !request.tools.empty() ? *tool_use_ : base_;
}

}  // namespace rocmforge
