#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/tokenizer.h"

namespace rocmforge {

struct ChatMessage {
  std::string role;  ///< "system", "user" or "assistant"
  std::string content;
};

/// The conversation formats that are built in. Each gives what the model family's own template gives for plain
/// conversations, less the BOS, which encode_pieces adds, and without texts that a template makes up by itself (default
/// system prompts, dates). Where templates of a family differ:
/// - mistral is the form of the v3 and later templates, "[INST]text[/INST]", with the system text before the last question;
///   a SentencePiece tokenizer puts the spaces of older models in by itself;
/// - gemma has no system role: as in Gemma 3, the system text goes before the first question.
enum class ChatFormat { chatml, llama2, llama3, mistral, phi3, gemma, zephyr };

std::string_view name(ChatFormat format);
std::optional<ChatFormat> chat_format_from_name(std::string_view name);

/// The format a Jinja chat template produces, recognised by its marks; empty when it is none of ours.
std::optional<ChatFormat> detect_chat_format(std::string_view chat_template);

/// A piece of a rendered conversation. Control tokens are recognised in template pieces only, so that nothing a user
/// writes can become one.
struct PromptPiece {
  std::string text;
  bool is_template = false;
};

/// Throws Error for an unknown role or an order the format can't express.
std::vector<PromptPiece> render_chat(ChatFormat format, std::span<const ChatMessage> messages, bool add_generation_prompt);

/// The ids of a rendered conversation: BOS once where the model adds it and the template has none. Text is tokenized across
/// the borders of pieces as the whole would be; only control tokens keep to their piece.
std::vector<std::int32_t> encode_pieces(const Tokenizer& tokenizer, std::span<const PromptPiece> pieces);

}  // namespace rocmforge
