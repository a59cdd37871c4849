#include <fmt/format.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "command.h"
#include "commands/pull_model.h"
#include "engine/load_tokenizer.h"
#include "flags.h"
#include "terminal/text.h"
#include "usage_error.h"

namespace rocmforge::app {
namespace {

struct TokenizeFlags {
  ModelAndText words;
  std::string file;
  std::optional<std::string> decode;
  bool no_special = false;
  bool parse_special = false;
  bool json = false;
};

/// A piece as text, or as its bytes if it is only a part of a character.
nlohmann::ordered_json piece_json(const std::string& bytes) {
  if (is_utf8(bytes)) {
    return bytes;
  }
  return std::vector<int>(reinterpret_cast<const unsigned char*>(bytes.data()),
                          reinterpret_cast<const unsigned char*>(bytes.data()) + bytes.size());
}

int decode(const TokenizeFlags& flags, const Tokenizer& tokenizer) {
  const std::string ids_text = *flags.decode == "-" ? read_text("-") : *flags.decode;
  const auto ids = parse_integers(ids_text, "--decode", 0, tokenizer.size() - 1);
  const std::string text = tokenizer.decode(ids, !flags.no_special);
  if (flags.json) {
    print_json({{"ids", ids}, {"text", text}});
  } else {
    fmt::print("{}\n", text);
  }
  return 0;
}

int tokenize(const TokenizeFlags& flags) {
  const std::optional<std::string> given = flags.words.text();
  if (flags.decode && (given || !flags.file.empty())) {
    throw UsageError("--decode takes ids and there is a text as well: one of the two");
  }
  if (given && !flags.file.empty()) {
    throw UsageError("TEXT and --file: one of the two");
  }
  const GgufFile file(find_model(flags.words.model()));
  const auto tokenizer = load_tokenizer(file);
  if (tokenizer == nullptr) {
    throw Error(file.path().string() + ": the file has no tokenizer");
  }
  if (flags.decode) {
    return decode(flags, *tokenizer);
  }
  const std::string text = given && *given != "-" ? *given : read_text(flags.file.empty() ? "-" : flags.file);
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

Command tokenize_command() {
  auto flags = std::make_shared<TokenizeFlags>();
  Command command = {.name = "tokenize",
                     .summary = "Turn text into token ids, or ids into text",
                     .examples = {"rocmforge tokenize model.gguf \"Hello, world\"",
                                  "rocmforge tokenize forge-demo \"<|im_start|>user\" --parse-special --json",
                                  "rocmforge tokenize model.gguf -f book.txt --no-special",
                                  "rocmforge tokenize -m model.gguf --decode 72,101,108"},
                     .action = [flags] { return tokenize(*flags); }};
  flags->words.add_to(command, "TEXT", "Text; without it, or with -, standard input");
  auto& options = command.options;
  options.push_back({.names = "-f,--file", .target = &flags->file, .meaning = "Read the text from a file", .value = "FILE"});
  options.push_back({.names = "--decode",
                     .target = &flags->decode,
                     .meaning = "Print the text of these ids; -: ids on standard input",
                     .value = "IDS"});
  options.push_back({"--no-special", &flags->no_special, "Add no BOS or EOS; with --decode leave control tokens out"});
  options.push_back({"--parse-special", &flags->parse_special, "Control tokens written in the text become their ids"});
  options.push_back(json_option(flags->json));
  return command;
}

}  // namespace rocmforge::app
