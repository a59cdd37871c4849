#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "command.h"
#include "engine/load_tokenizer.h"
#include "model_path.h"
#include "text.h"
#include "usage_error.h"

namespace rocmforge::app {
namespace {

struct TokenizeFlags {
  std::string model;
  std::string text;
  std::string file;
  std::string decode;
  bool no_special = false;
  bool parse_special = false;
  bool json = false;
};

/// A piece as text, or as its bytes where it is only a part of a character.
nlohmann::ordered_json piece_json(const std::string& bytes) {
  if (is_utf8(bytes)) {
    return bytes;
  }
  return std::vector<int>(reinterpret_cast<const unsigned char*>(bytes.data()),
                          reinterpret_cast<const unsigned char*>(bytes.data()) + bytes.size());
}

int decode(const TokenizeFlags& flags, const Tokenizer& tokenizer) {
  const std::string ids_text = flags.decode == "-" ? read_text("-") : flags.decode;
  const auto ids = parse_integers(ids_text, "--decode", 0, tokenizer.size() - 1);
  const std::string text = tokenizer.decode(ids, !flags.no_special);
  if (flags.json) {
    print_json({{"ids", ids}, {"text", text}});
  } else {
    fmt::print("{}\n", text);
  }
  return 0;
}

int tokenize(const TokenizeFlags& flags, bool has_text, bool has_decode) {
  if (has_decode && (has_text || !flags.file.empty())) {
    throw UsageError("--decode takes ids and there is a text as well: one of the two");
  }
  if (has_text && !flags.file.empty()) {
    throw UsageError("TEXT and --file: one of the two");
  }
  const GgufFile file(find_model(flags.model));
  const auto tokenizer = load_tokenizer(file);
  if (tokenizer == nullptr) {
    throw Error(file.path().string() + ": the file has no tokenizer");
  }
  if (has_decode) {
    return decode(flags, *tokenizer);
  }
  const std::string text = has_text && flags.text != "-" ? flags.text : read_text(flags.file.empty() ? "-" : flags.file);
  const auto ids = tokenizer->encode(text, {.add_special = !flags.no_special, .parse_special = flags.parse_special});
  if (flags.json) {
    auto pieces = nlohmann::ordered_json::array();
    for (const std::int32_t id : ids) {
      pieces.push_back(piece_json(tokenizer->token_bytes(id, true)));
    }
    print_json({{"ids", ids}, {"pieces", pieces}});
    return 0;
  }
  for (const std::int32_t id : ids) {
    fmt::print("{:>7} {}\n", id, in_quotes(tokenizer->token_bytes(id, true)));
  }
  return 0;
}

}  // namespace

void add_tokenize(CLI::App& program, Action& action) {
  auto flags = std::make_shared<TokenizeFlags>();
  CLI::App* command = program.add_subcommand("tokenize", "Turn text into token ids, or ids into text");
  command->footer(
      "Examples:\n"
      "  rocmforge tokenize model.gguf \"Hello, world\"\n"
      "  rocmforge tokenize forge-demo \"<|im_start|>user\" --parse-special --json\n"
      "  rocmforge tokenize model.gguf -f book.txt --no-special\n"
      "  rocmforge tokenize model.gguf --decode 72,101,108");
  command->add_option("MODEL", flags->model, "GGUF file; without it the demo model")->type_name("");
  auto* text = command->add_option("TEXT", flags->text, "Text; without it, or with -, standard input")->type_name("");
  command->add_option("-f,--file", flags->file, "Read the text from a file")->type_name("FILE");
  auto* decode = command->add_option("--decode", flags->decode, "Print the text of these ids; -: ids on standard input")
                     ->type_name("IDS");
  command->add_flag("--no-special", flags->no_special, "Add no BOS or EOS; with --decode leave control tokens out");
  command->add_flag("--parse-special", flags->parse_special, "Control tokens written in the text become their ids");
  command->add_flag("--json", flags->json, "JSON");
  command->callback([flags, text, decode, &action] {
    action = [flags, has_text = text->count() > 0, has_decode = decode->count() > 0] {
      return tokenize(*flags, has_text, has_decode);
    };
  });
}

}  // namespace rocmforge::app
