#include "chat/answer_start.h"

#include <fmt/format.h>

#include <optional>
#include <string>

#include "base/blanks.h"
#include "base/error.h"
#include "chat/message_json.h"

namespace rocmforge {
namespace {

using nlohmann::ordered_json;

/// The text at the end of a message's content, which may consist of parts. Null when there is none.
std::string* last_text(ordered_json& message) {
  ordered_json& content = message["content"];
  if (content.is_array()) {
    return content.empty() ? nullptr : content.back()["text"].get_ptr<std::string*>();
  }
  return content.get_ptr<std::string*>();
}

/// A word that the conversation does not contain.
std::string unused_word(const ChatRequest& request) {
  const auto text_of_json = [](const ordered_json& json) {
    return json.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
  };
  const std::string held = text_of_json(request.messages) + text_of_json(request.tools) + text_of_json(request.arguments);
  std::string word = "ANSWER_GOES_ON_HERE";
  for (int number = 0; held.find(word) != std::string::npos; ++number) {
    word = fmt::format("ANSWER_GOES_ON_HERE_{}", number);
  }
  return word;
}

void cut(std::vector<ChatSegment>& segments, std::size_t size) {
  std::size_t begin = 0;
  for (std::size_t i = 0; i < segments.size(); ++i) {
    if (begin + segments[i].text.size() >= size) {
      segments[i].text.resize(size - begin);
      segments.resize(segments[i].text.empty() ? i : i + 1);
      return;
    }
    begin += segments[i].text.size();
  }
}

/// The prompt up to `word`. Empty when the template refuses the message or does not show its text.
std::optional<ChatPrompt> rendered_up_to(const ChatRequest& request, const std::string& word, std::string_view text,
                                         const ChatRenderer& render) {
  ChatPrompt prompt;
  try {
    prompt.segments = render(request);
  } catch (const Error&) {
    return std::nullopt;
  }
  const std::string whole = text_of(prompt.segments);
  std::size_t end = whole.rfind(word);
  if (end == std::string::npos || whole.find(trimmed(text, " \t\r\n\v\f")) == std::string::npos) {
    return std::nullopt;
  }
  if (whole.compare(end + word.size(), 1, " ") != 0) {  // the template removes white space
    const std::size_t last = whole.find_last_not_of(" \t\r\n\v\f", end == 0 ? 0 : end - 1);
    end = end == 0 || last == std::string::npos ? 0 : last + 1;
  }
  cut(prompt.segments, end);
  return prompt;
}

ChatPrompt behind_answer_prompt(ChatRequest request, std::string_view source, const ReasoningMarks& marks,
                                const ChatRenderer& render, const std::string& reasoning, const std::string& content) {
  request.messages.erase(request.messages.size() - 1);
  ChatPrompt prompt{.segments = render(request), .reasoning = marks};
  prompt.reasoning_is_open = ends_inside_reasoning(text_of(prompt.segments), marks);
  const auto add = [&](std::string_view text, bool from_template) {
    if (!text.empty()) {
      prompt.segments.push_back({std::string(text), from_template});
    }
  };
  if (!reasoning.empty() && !prompt.reasoning_is_open) {
    if (source.find(marks.begin) == std::string_view::npos) {
      throw Error("messages: the last message has reasoning, which the chat template does not support");
    }
    add(std::string(marks.begin) + "\n", true);
    prompt.reasoning_is_open = true;
  }
  add(reasoning, false);
  if (prompt.reasoning_is_open && !content.empty()) {
    add("\n" + std::string(marks.end) + "\n\n", true);
    prompt.reasoning_is_open = false;
  }
  add(content, false);
  return prompt;
}

}  // namespace

bool continues_answer(const ChatRequest& request) {
  return request.add_generation_prompt && request.continue_final_message && !request.messages.empty() &&
         string_of(request.messages.back(), "role") == "assistant" && !request.messages.back().contains("tool_calls");
}

ChatPrompt continue_answer(ChatRequest request, std::string_view source, const ReasoningMarks& marks,
                           const ChatRenderer& render) {
  const std::size_t count = request.messages.size();
  if (count > 1 && string_of(request.messages[count - 2], "role") == "assistant") {
    throw Error("messages: an answer can continue one assistant's message at the end, not several");
  }
  ChatRequest marked = request;
  marked.add_generation_prompt = false;
  ordered_json& last = marked.messages.back();
  std::string* text = last_text(last);
  const std::string content = text == nullptr ? "" : *text;
  const std::string reasoning = string_of(last, "reasoning_content");
  const bool in_reasoning = content.empty() && !reasoning.empty();
  const std::string word = unused_word(request);
  if (in_reasoning) {
    for (const std::string_view field : {"reasoning_content", "thinking", "reasoning"}) {
      if (string_of(last, field) == reasoning) {
        last[field] = reasoning + word + " ";
      }
    }
  } else if (text != nullptr) {
    *text += word + " ";
  }
  auto prompt = rendered_up_to(marked, word, in_reasoning ? reasoning : content, render);
  if (!prompt.has_value()) {
    return behind_answer_prompt(std::move(request), source, marks, render, reasoning, content);
  }
  prompt->reasoning = marks;
  prompt->reasoning_is_open = in_reasoning || ends_inside_reasoning(text_of(prompt->segments), marks);
  return *std::move(prompt);
}

bool ends_inside_reasoning(std::string_view prompt, const ReasoningMarks& marks) {
  // Seed-OSS adds this remark at the start of reasoning that may use no tokens.
  constexpr std::string_view remark = "<seed:cot_budget_reflect>";
  prompt = trimmed(prompt);
  prompt.remove_suffix(prompt.ends_with(remark) ? remark.size() : 0);
  return prompt.ends_with(marks.begin);
}

}  // namespace rocmforge
