#include "service/encoding.h"

#include <cstddef>

namespace rocmforge {
namespace {

/// The most bytes that encoding needs for each byte of a text while it runs: pieces, symbols and their candidates if
/// the text is a single word.
constexpr std::int64_t encoding_bytes = 48;

template <class Encode>
Ids encode_counted(Reading& reading, std::size_t text_bytes, const Encode& encode) {
  const std::int64_t before = reading.held();
  reading.hold(encoding_bytes * static_cast<std::int64_t>(text_bytes));
  Ids ids = encode();
  reading.keep(before + static_cast<std::int64_t>(ids.size() * sizeof(std::int32_t)));
  reading.release();
  return ids;
}

}  // namespace

Ids encode_text(Reading& reading, const Tokenizer& tokenizer, std::string_view text,
                const Tokenizer::EncodeOptions& options) {
  return encode_counted(reading, text.size(), [&] { return tokenizer.encode(text, options, &reading.budget); });
}

Ids encode_parts(Reading& reading, const Tokenizer& tokenizer, std::span<const Tokenizer::TextPart> parts,
                 bool add_special) {
  std::size_t bytes = 0;
  for (const Tokenizer::TextPart& part : parts) {
    bytes += part.text.size();
  }
  return encode_counted(reading, bytes, [&] { return tokenizer.encode(parts, add_special, &reading.budget); });
}

Ids encode_pair(Reading& reading, const Tokenizer& tokenizer, std::string_view first, std::string_view second) {
  return encode_counted(reading, first.size() + second.size(),
                        [&] { return tokenizer.encode_pair(first, second, &reading.budget); });
}

Ids encode_prompt(Reading& reading, const Tokenizer& tokenizer, std::span<const ChatSegment> segments) {
  std::size_t bytes = 0;
  for (const ChatSegment& segment : segments) {
    bytes += segment.text.size();
  }
  return encode_counted(reading, bytes, [&] { return encode_chat(tokenizer, segments, &reading.budget); });
}

}  // namespace rocmforge
