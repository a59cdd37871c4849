#include "tokenizer/bpe_tokenizer.h"

#include "base/error.h"
#include "base/log.h"
#include "base/utf8.h"
#include "tokenizer/merge.h"

namespace rocmforge {
namespace {

// GPT-2's printable characters for bytes: 0x21..0x7E, 0xA1..0xAC and 0xAE..0xFF are the characters of the same number. The
// other 68 bytes are U+0100 and up, in increasing order.
constexpr bool stands_for_itself(unsigned byte) {
  return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
}

constexpr char32_t first_substitute = 0x100;

constexpr std::array<char32_t, 256> make_characters() {
  std::array<char32_t, 256> characters{};
  char32_t next = first_substitute;
  for (unsigned byte = 0; byte < 256; ++byte) {
    characters[byte] = stands_for_itself(byte) ? static_cast<char32_t>(byte) : next++;
  }
  return characters;
}

constexpr std::array<char32_t, 256> character_of_byte = make_characters();

/// The byte of a printable character, or -1.
constexpr std::array<std::int16_t, 0x144> make_bytes() {
  std::array<std::int16_t, 0x144> bytes{};
  bytes.fill(-1);
  for (unsigned byte = 0; byte < 256; ++byte) {
    bytes[character_of_byte[byte]] = static_cast<std::int16_t>(byte);
  }
  return bytes;
}

constexpr std::array<std::int16_t, 0x144> byte_of_character = make_bytes();

std::string printable(unsigned char byte) {
  std::string text;
  append_utf8(text, character_of_byte[byte]);
  return text;
}

/// The bytes of a text of printable characters. Characters that represent no byte are copied.
std::string bytes_of_printable(std::string_view text) {
  std::string bytes;
  for (std::size_t position = 0; position < text.size();) {
    const Utf8Unit unit = utf8_unit(text, position);
    const std::string_view character = text.substr(position, unit.length);
    position += unit.length;
    const char32_t code = unit.kind == Utf8Unit::Kind::character ? utf8_code_point(character) : char32_t{0xFFFF};
    const std::int16_t byte = code < byte_of_character.size() ? byte_of_character[code] : std::int16_t{-1};
    if (byte < 0) {
      bytes.append(character);
    } else {
      bytes.push_back(static_cast<char>(byte));
    }
  }
  return bytes;
}

}  // namespace

BpeTokenizer::BpeTokenizer(Vocabulary vocabulary)
    : Tokenizer(std::move(vocabulary)), rules_(pre_tokenizer_rules(vocabulary_.pre)), pre_tokenizer_(rules_) {
  if (vocabulary_.pre.empty() || vocabulary_.pre == "default") {
    log_warning("the model names no pre-tokenizer; 'default' cuts text differently from most models, which costs quality");
  }
  if (vocabulary_.merges.empty()) {
    throw Error("a byte-level BPE vocabulary needs merges, there are none");
  }
  merges_ = MergeTable(vocabulary_.merges, size(), [this](std::string_view text) { return find_mergeable(text); });
  find_byte_symbols();
  choose_special_tokens();
}

void BpeTokenizer::choose_special_tokens() {
  adds_bos_ = vocabulary_.add_bos.value_or(rules_.adds_bos);
  adds_eos_ = vocabulary_.add_eos.value_or(false);
  if ((adds_bos_ && vocabulary_.bos < 0) || (adds_eos_ && vocabulary_.eos < 0)) {
    log_warning("the tokenizer asks for a begin or end token that the model does not name; it is left out");
    adds_bos_ = adds_bos_ && vocabulary_.bos >= 0;
    adds_eos_ = adds_eos_ && vocabulary_.eos >= 0;
  }
}

void BpeTokenizer::find_byte_symbols() {
  int missing = 0;
  for (unsigned byte = 0; byte < 256; ++byte) {
    const std::string text = printable(static_cast<unsigned char>(byte));
    const std::int32_t id = find_mergeable(text);
    byte_symbols_[byte] = id >= 0 ? id : merges_.other_symbol(text);
    const bool in_utf8 = byte != 0xC0 && byte != 0xC1 && byte < 0xF5;
    missing += in_utf8 && id < 0 ? 1 : 0;
  }
  if (missing > 0) {
    log_warning("the vocabulary has no token for {} of the bytes that UTF-8 uses; text with them loses characters", missing);
  }
}

void BpeTokenizer::encode_text(std::string_view text, WorkBudget* budget, std::vector<std::int32_t>& ids) const {
  for (const std::string_view piece : pre_tokenizer_.split(text, budget)) {
    encode_piece(piece, budget, ids);
  }
}

void BpeTokenizer::encode_piece(std::string_view piece, WorkBudget* budget, std::vector<std::int32_t>& ids) const {
  if (rules_.ignore_merges) {
    std::string text;
    for (const char byte : piece) {
      append_utf8(text, character_of_byte[static_cast<unsigned char>(byte)]);
    }
    const std::int32_t id = find_mergeable(text);
    if (id >= 0) {
      ids.push_back(id);
      return;
    }
  }
  // A byte that is in no token and no merge is left out before merging, so that its neighbours can merge, as in the Hugging
  // Face library. It never becomes the unknown token, which is a control token in many files.
  std::string known;
  std::vector<MergeSymbol> symbols;
  symbols.reserve(piece.size());
  for (const char byte : piece) {
    const std::int32_t symbol = byte_symbols_[static_cast<unsigned char>(byte)];
    if (symbol >= 0) {
      append_symbol(symbols, known.size(), 1, symbol);
      known.push_back(byte);
    }
  }
  if (symbols.empty()) {
    return;
  }
  merge_symbols(symbols, budget,
                [this](const MergeSymbol& left, const MergeSymbol& right) { return merges_.join(left, right); });
  for (std::int32_t i = 0; i >= 0; i = symbols[static_cast<std::size_t>(i)].next) {
    const MergeSymbol& symbol = symbols[static_cast<std::size_t>(i)];
    if (symbol.value < size()) {
      ids.push_back(symbol.value);
    } else {
      append_bytes(std::string_view(known).substr(symbol.begin, symbol.length), ids);
    }
  }
}

void BpeTokenizer::append_bytes(std::string_view bytes, std::vector<std::int32_t>& ids) const {
  for (const char byte : bytes) {
    const std::int32_t symbol = byte_symbols_[static_cast<unsigned char>(byte)];
    if (symbol < size()) {
      ids.push_back(symbol);
    }
  }
}

std::string BpeTokenizer::ordinary_bytes(std::int32_t id) const {
  return bytes_of_printable(vocabulary_.tokens[static_cast<std::size_t>(id)]);
}

}  // namespace rocmforge
