#include "server/api/llama_server/tokenization.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "base/utf8.h"
#include "server/api/conversation_fields.h"
#include "server/api/json_pieces.h"
#include "server/api/message_generation.h"
#include "server/api/prompts.h"
#include "server/api/unserved_fields.h"

namespace rocmforge {
namespace {

using HeldIds = std::shared_ptr<const Ids>;

/// A token's text, or its bytes where they are no text of their own.
Json piece_of(const Tokenizer& tokenizer, std::int32_t id) {
  const std::string bytes = tokenizer.token_bytes(id, true);
  std::string rest = bytes;
  std::string text = take_utf8(rest, true);
  if (text == bytes) {
    return text;
  }
  Json piece = Json::array();
  for (const char byte : bytes) {
    piece.push_back(static_cast<unsigned char>(byte));
  }
  return piece;
}

/// The text of the ids as a JSON string.
TextPieces text_in_pieces(HeldIds ids, const std::shared_ptr<const Tokenizer>& tokenizer) {
  constexpr std::size_t step = 256;
  const auto decoder = std::make_shared<StreamDecoder>(tokenizer, true);
  const auto inside = [ids = std::move(ids), decoder, next = std::size_t{0}](std::string& out) mutable {
    const std::size_t end = std::min(next + step, ids->size());
    std::string text;
    for (; next < end; ++next) {
      text += decoder->add((*ids)[next]);
    }
    const bool goes_on = next < ids->size();
    out += escaped(goes_on ? text : text + decoder->finish());
    return goes_on;
  };
  return pieces_of({pieces_of("\""), inside, pieces_of("\"")});
}

/// Keeps the ids, and counts their memory, until the answer has been written.
HeldIds held(HttpExchange& exchange, Ids ids) {
  exchange.reading.keep(static_cast<std::int64_t>(ids.size() * sizeof(std::int32_t)));
  return std::make_shared<const Ids>(std::move(ids));
}

TextPieces ids_in_pieces(const HeldIds& ids) {
  return list_in_pieces(ids->size(), [ids](std::size_t i) { return fmt::format("{}", (*ids)[i]); });
}

/// llama-server's form.
void tokenize_content(Fields& fields, const std::shared_ptr<HttpExchange>& exchange, const Backend& backend) {
  const std::string content = fields.needed_text("content");
  const bool add_special = fields.boolean("add_special").value_or(false);
  const bool parse_special = fields.boolean("parse_special").value_or(true);
  const bool with_pieces = fields.boolean("with_pieces").value_or(false);
  finish_fields(fields, *exchange, backend);
  const HeldIds ids = held(*exchange, encode_text(exchange->reading, backend.model.text(), content,
                                                  {.add_special = add_special, .parse_special = parse_special}));
  TextPieces list = with_pieces ? list_in_pieces(ids->size(),
                                                 [ids, of = backend.model.tokenizer](std::size_t i) {
                                                   const std::int32_t id = (*ids)[i];
                                                   return to_text({{"id", id}, {"piece", piece_of(*of, id)}});
                                                 })
                                : ids_in_pieces(ids);
  exchange->send_pieces(with_member({{"tokens", nullptr}}, "tokens", std::move(list)));
}

Ids read_prompt_or_messages(Fields& fields, Reading& reading, const Backend& backend) {
  if (fields.has("messages")) {
    if (fields.has("prompt")) {
      fields.fail("prompt", "and messages can't both be given");
    }
    return encode_prompt(reading, backend.model.text(),
                         render_request(fields, read_conversation(fields, reading), reading, backend).prompt.segments);
  }
  const std::string prompt = fields.needed_text("prompt");
  const bool add_special = fields.boolean("add_special_tokens").value_or(true);
  return encode_text(reading, backend.model.text(), prompt, {.add_special = add_special, .parse_special = true});
}

/// vLLM's form.
void tokenize_prompt(Fields& fields, const std::shared_ptr<HttpExchange>& exchange, const Backend& backend) {
  const bool with_texts = fields.boolean("return_token_strs").value_or(false);
  Ids found = read_prompt_or_messages(fields, exchange->reading, backend);
  finish_fields(fields, *exchange, backend);
  const HeldIds ids = held(*exchange, std::move(found));
  TextPieces texts = with_texts ? list_in_pieces(ids->size(),
                                                 [ids, of = backend.model.tokenizer](std::size_t i) {
                                                   const auto id = static_cast<std::size_t>((*ids)[i]);
                                                   return to_text(of->vocabulary().tokens[id]);
                                                 })
                                : pieces_of("null");
  exchange->send_pieces(pieces_of(
      {pieces_of(fmt::format(R"({{"count":{},"max_model_len":{},"tokens":)", ids->size(), backend.model.context_length)),
       ids_in_pieces(ids), pieces_of(",\"token_strs\":"), std::move(texts), pieces_of("}")}));
}

/// The text of a special token; null for none.
Json text_of_token(const Vocabulary& vocabulary, std::int32_t id) {
  return id < 0 ? Json(nullptr) : Json(vocabulary.tokens[static_cast<std::size_t>(id)]);
}

/// The tokens that are recognised in raw text, by their ids.
Json added_tokens(const Vocabulary& vocabulary) {
  Json added = Json::object();
  for (std::size_t id = 0; id < vocabulary.tokens.size(); ++id) {
    const TokenType type = vocabulary.types[id];
    if (type == TokenType::control || type == TokenType::user_defined) {
      added[fmt::format("{}", id)] = {{"content", vocabulary.tokens[id]},
                                      {"lstrip", false},
                                      {"normalized", false},
                                      {"rstrip", false},
                                      {"single_word", false},
                                      {"special", type == TokenType::control}};
    }
  }
  return added;
}

}  // namespace

void serve_tokenize(const std::shared_ptr<HttpExchange>& exchange, const Backend& backend) {
  const Document document = exchange->take_json();
  Fields fields(document.root);
  static_cast<void>(backend.model.text());
  const bool has_content = fields.has("content");
  if (!has_content && !fields.has("prompt") && !fields.has("messages")) {
    fields.fail("content", "is missing, and so are prompt and messages");
  }
  if (!has_content) {
    return tokenize_prompt(fields, exchange, backend);
  }
  for (const std::string_view name : {"prompt", "messages"}) {
    if (fields.has(name)) {
      fields.fail(name, "and content can't both be given");
    }
  }
  tokenize_content(fields, exchange, backend);
}

void serve_detokenize(const std::shared_ptr<HttpExchange>& exchange, const Backend& backend) {
  const Document document = exchange->take_json();
  Fields fields(document.root);
  const Json* tokens = fields.array("tokens");
  if (tokens == nullptr) {
    fields.fail("tokens", "is missing");
  }
  Ids found = read_prompt(fields, "tokens", *tokens, backend.model, exchange->reading, {});
  static_cast<void>(backend.model.text());
  finish_fields(fields, *exchange, backend);
  const HeldIds ids = held(*exchange, std::move(found));
  const auto& tokenizer = backend.model.tokenizer;
  exchange->send_pieces(pieces_of({pieces_of("{\"content\":"), text_in_pieces(ids, tokenizer), pieces_of(",\"prompt\":"),
                                   text_in_pieces(ids, tokenizer), pieces_of("}")}));
}

void serve_tokenizer_info(const std::shared_ptr<HttpExchange>& exchange, const Backend& backend) {
  const Tokenizer& tokenizer = backend.model.text();
  const Vocabulary& vocabulary = tokenizer.vocabulary();
  const bool is_spm = vocabulary.model == TokenizerModel::spm;
  exchange->send_json(
      Json{{"tokenizer_class", is_spm ? "LlamaTokenizerFast" : "PreTrainedTokenizerFast"},
           {"vocab_size", tokenizer.size()},
           {"model_max_length", backend.model.context_length},
           {"add_bos_token", tokenizer.adds_bos()},
           {"add_eos_token", tokenizer.adds_eos()},
           {"bos_token", text_of_token(vocabulary, vocabulary.bos)},
           {"eos_token", text_of_token(vocabulary, vocabulary.eos)},
           {"unk_token", text_of_token(vocabulary, vocabulary.unknown)},
           {"pad_token", text_of_token(vocabulary, vocabulary.padding)},
           {"added_tokens_decoder", added_tokens(vocabulary)},
           {"chat_template",
            backend.model.templates == nullptr ? Json(nullptr) : Json(backend.model.templates->choose({}).source())}});
}

}  // namespace rocmforge
