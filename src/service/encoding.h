#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "chat/chat_template.h"
#include "service/reading.h"
#include "tokenizer/tokenizer.h"

namespace rocmforge {

using Ids = std::vector<std::int32_t>;

/// The ids of texts; counts their work and memory. Throws ServiceError and Error.
Ids encode_text(Reading& reading, const Tokenizer& tokenizer, std::string_view text,
                const Tokenizer::EncodeOptions& options);
/// Of the parts as one text, as Tokenizer::encode().
Ids encode_parts(Reading& reading, const Tokenizer& tokenizer, std::span<const Tokenizer::TextPart> parts, bool add_special);
Ids encode_pair(Reading& reading, const Tokenizer& tokenizer, std::string_view first, std::string_view second);
Ids encode_prompt(Reading& reading, const Tokenizer& tokenizer, std::span<const ChatSegment> segments);

}  // namespace rocmforge
