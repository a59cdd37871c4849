#include "tokenizer/chat_format.h"

#include <array>

#include "base/error.h"

namespace rocmforge {
namespace {

struct NamedFormat {
  ChatFormat format;
  std::string_view name;
};

constexpr std::array<NamedFormat, 7> formats = {{{ChatFormat::chatml, "chatml"},
                                                 {ChatFormat::llama2, "llama2"},
                                                 {ChatFormat::llama3, "llama3"},
                                                 {ChatFormat::mistral, "mistral"},
                                                 {ChatFormat::phi3, "phi3"},
                                                 {ChatFormat::gemma, "gemma"},
                                                 {ChatFormat::zephyr, "zephyr"}}};

/// Pieces under construction; neighbours of one kind become one piece.
class Pieces {
 public:
  void mark(std::string_view text) { append(text, true); }
  void content(std::string_view text) { append(text, false); }
  std::vector<PromptPiece> take() { return std::move(pieces_); }

 private:
  void append(std::string_view text, bool is_template) {
    if (text.empty()) {
      return;
    }
    if (pieces_.empty() || pieces_.back().is_template != is_template) {
      pieces_.push_back({"", is_template});
    }
    pieces_.back().text += text;
  }
  std::vector<PromptPiece> pieces_;
};

constexpr std::string_view white_space = " \t\n\r\v\f";

std::string_view trim_end(std::string_view text) { return text.substr(0, text.find_last_not_of(white_space) + 1); }

/// Without white space at the ends, as the templates' `trim` leaves it.
std::string_view trim(std::string_view text) {
  const std::size_t first = text.find_first_not_of(white_space);
  return first == std::string_view::npos ? "" : trim_end(text.substr(first));
}

/// The messages after an optional first system message, which must ask and answer in turn.
std::span<const ChatMessage> turns_of(ChatFormat format, std::span<const ChatMessage> messages) {
  const auto turns = !messages.empty() && messages[0].role == "system" ? messages.subspan(1) : messages;
  for (std::size_t i = 0; i < turns.size(); ++i) {
    if (turns[i].role != (i % 2 == 0 ? "user" : "assistant")) {
      throw Error("chat format '" + std::string(name(format)) +
                  "': after an optional system message, user and assistant must take turns, but message " +
                  std::to_string(i + 1 + messages.size() - turns.size()) + " is of '" + turns[i].role + "'");
    }
  }
  return turns;
}

std::string_view system_of(std::span<const ChatMessage> messages) {
  return !messages.empty() && messages[0].role == "system" ? std::string_view(messages[0].content) : "";
}

/// One header and one end mark around every message.
struct Frame {
  std::string_view before_role, after_role, end;
  bool trims = false;
};

void render_framed(const Frame& frame, std::span<const ChatMessage> messages, bool add_generation_prompt, Pieces& pieces) {
  const auto header = [&](std::string_view role) {
    pieces.mark(frame.before_role);
    pieces.mark(role);
    pieces.mark(frame.after_role);
  };
  for (const ChatMessage& message : messages) {
    header(message.role);
    pieces.content(frame.trims ? trim(message.content) : message.content);
    pieces.mark(frame.end);
  }
  if (add_generation_prompt) {
    header("assistant");
  }
}

void render_phi3(std::span<const ChatMessage> messages, bool add_generation_prompt, Pieces& pieces) {
  const bool empty_system = !messages.empty() && messages[0].role == "system" && messages[0].content.empty();
  render_framed({"<|", "|>\n", "<|end|>\n"}, empty_system ? messages.subspan(1) : messages, add_generation_prompt, pieces);
  if (!add_generation_prompt) {
    pieces.mark("<|endoftext|>");
  }
}

void render_llama2(std::span<const ChatMessage> messages, Pieces& pieces) {
  const std::string_view system = system_of(messages);
  bool first = true;
  for (const ChatMessage& turn : turns_of(ChatFormat::llama2, messages)) {
    if (turn.role == "assistant") {
      pieces.mark(" ");
      pieces.content(trim(turn.content));
      pieces.mark(" </s>");
      continue;
    }
    pieces.mark(first ? "[INST] " : "<s>[INST] ");
    if (first && !system.empty()) {
      pieces.mark("<<SYS>>\n");
      pieces.content(system);
      pieces.mark("\n<</SYS>>\n\n");
    }
    // With a system text the template trims both as one, so that only the end of the question is at an end.
    pieces.content(first && !system.empty() ? trim_end(turn.content) : trim(turn.content));
    pieces.mark(" [/INST]");
    first = false;
  }
}

void render_mistral(std::span<const ChatMessage> messages, Pieces& pieces) {
  const auto turns = turns_of(ChatFormat::mistral, messages);
  for (std::size_t i = 0; i < turns.size(); ++i) {
    if (turns[i].role == "assistant") {
      pieces.content(turns[i].content);
      pieces.mark("</s>");
      continue;
    }
    pieces.mark("[INST]");
    if (i + 1 == turns.size() && !system_of(messages).empty()) {
      pieces.content(system_of(messages));
      pieces.mark("\n\n");
    }
    pieces.content(turns[i].content);
    pieces.mark("[/INST]");
  }
}

void render_gemma(std::span<const ChatMessage> messages, bool add_generation_prompt, Pieces& pieces) {
  std::string_view system = system_of(messages);
  for (const ChatMessage& turn : turns_of(ChatFormat::gemma, messages)) {
    pieces.mark(turn.role == "user" ? "<start_of_turn>user\n" : "<start_of_turn>model\n");
    if (!system.empty()) {
      pieces.content(system);
      pieces.mark("\n\n");
      system = "";
    }
    pieces.content(trim(turn.content));
    pieces.mark("<end_of_turn>\n");
  }
  if (add_generation_prompt) {
    pieces.mark("<start_of_turn>model\n");
  }
}

}  // namespace

std::string_view name(ChatFormat format) {
  for (const NamedFormat& each : formats) {
    if (each.format == format) {
      return each.name;
    }
  }
  throw LogicError("a chat format without a name");
}

std::optional<ChatFormat> chat_format_from_name(std::string_view name) {
  for (const NamedFormat& each : formats) {
    if (each.name == name) {
      return each.format;
    }
  }
  return std::nullopt;
}

std::optional<ChatFormat> detect_chat_format(std::string_view chat_template) {
  const auto has = [chat_template](std::string_view mark) { return chat_template.find(mark) != std::string_view::npos; };
  if (has("<|im_start|>")) {
    return ChatFormat::chatml;
  }
  if (has("<|start_header_id|>")) {
    return ChatFormat::llama3;
  }
  if (has("<start_of_turn>")) {
    return ChatFormat::gemma;
  }
  if (has("[INST]")) {
    return has("<<SYS>>") ? ChatFormat::llama2 : ChatFormat::mistral;
  }
  if (has("<|user|>") && has("<|assistant|>")) {
    if (has("<|end|>")) {
      return ChatFormat::phi3;
    }
    if (has("eos_token") || has("</s>")) {
      return ChatFormat::zephyr;
    }
  }
  return std::nullopt;
}

std::vector<PromptPiece> render_chat(ChatFormat format, std::span<const ChatMessage> messages, bool add_generation_prompt) {
  for (const ChatMessage& message : messages) {
    if (message.role != "system" && message.role != "user" && message.role != "assistant") {
      throw Error("unknown role '" + message.role + "'; known are system, user and assistant");
    }
  }
  Pieces pieces;
  switch (format) {
    case ChatFormat::chatml:
      render_framed({"<|im_start|>", "\n", "<|im_end|>\n"}, messages, add_generation_prompt, pieces);
      break;
    case ChatFormat::llama3:
      render_framed({"<|start_header_id|>", "<|end_header_id|>\n\n", "<|eot_id|>", true}, messages, add_generation_prompt,
                    pieces);
      break;
    case ChatFormat::zephyr:
      render_framed({"<|", "|>\n", "</s>\n"}, messages, add_generation_prompt, pieces);
      break;
    case ChatFormat::phi3:
      render_phi3(messages, add_generation_prompt, pieces);
      break;
    case ChatFormat::llama2:
      render_llama2(messages, pieces);
      break;
    case ChatFormat::mistral:
      render_mistral(messages, pieces);
      break;
    case ChatFormat::gemma:
      render_gemma(messages, add_generation_prompt, pieces);
      break;
  }
  return pieces.take();
}

std::vector<std::int32_t> encode_pieces(const Tokenizer& tokenizer, std::span<const PromptPiece> pieces) {
  std::vector<Tokenizer::TextPart> parts;
  for (const PromptPiece& piece : pieces) {
    parts.push_back({piece.text, piece.is_template});
  }
  std::vector<std::int32_t> ids = tokenizer.encode(parts, /*add_special=*/false);
  const std::int32_t bos = tokenizer.vocabulary().bos;
  if (tokenizer.adds_bos() && (ids.empty() || ids.front() != bos)) {
    ids.insert(ids.begin(), bos);
  }
  return ids;
}

}  // namespace rocmforge
