// Any bytes must give a grammar or an Error, within a budget of work and on a small stack; with a grammar, a text can always
// continue until it ends or a limit is exceeded.
#include <pthread.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/work_budget.h"
#include "grammar/gbnf_parser.h"
#include "grammar/grammar_constraint.h"
#include "grammar/json_schema.h"

namespace {

using namespace rocmforge;

std::shared_ptr<const TokenTrie> make_trie() {
  Vocabulary vocabulary;
  vocabulary.model = TokenizerModel::spm;
  const auto add = [&](std::string text, TokenType type) {
    vocabulary.tokens.push_back(std::move(text));
    vocabulary.types.push_back(type);
    vocabulary.scores.push_back(0);
  };
  add("<unk>", TokenType::unknown);
  add("</s>", TokenType::control);
  vocabulary.unknown = 0;
  vocabulary.eos = 1;
  constexpr const char* digits = "0123456789ABCDEF";
  for (unsigned byte = 0; byte < 256; ++byte) {
    add(std::string("<0x") + digits[byte / 16] + digits[byte % 16] + ">", TokenType::byte);
  }
  for (const char* text : {"ab", "abc", "aa", "aaaa", "{\"", "\":", "\",\"", "}}", "]]", "00", "\u00e9", "e\u20ac", "true",
                           "\"\"", "\\u0", "\n\n"}) {
    add(text, TokenType::normal);
  }
  return std::make_shared<const TokenTrie>(*Tokenizer::create(std::move(vocabulary)));
}

void write_text(TokenConstraint& constraint, const TokenTrie& trie, std::span<const std::uint8_t> choices) {
  std::vector<std::uint32_t> mask(trie.mask_words());
  std::unique_ptr<TokenConstraint> fork;
  for (const std::uint8_t choice : choices) {
    constraint.allowed(mask);
    std::vector<std::int32_t> tokens;
    for (std::int32_t token = 0; token < trie.size(); ++token) {
      if ((mask[static_cast<std::size_t>(token) / 32] >> (token % 32) & 1) != 0) {
        tokens.push_back(token);
      }
    }
    check(!tokens.empty(), "a token is allowed");
    const std::int32_t token = tokens[choice % tokens.size()];
    constraint.accept(token);
    if (trie.is_end(token)) {
      check(constraint.finished(), "a text that has ended is finished");
      return;
    }
    if (choice == 7) {
      fork = constraint.clone();
    }
  }
}

/// A number of repetitions from a byte: 1 to 100,000.
std::size_t times(std::uint8_t byte) { return std::min<std::size_t>(std::size_t{1} << (byte % 18), 100'000); }

/// Each pair of bytes is a piece of GBNF and its number of repetitions.
std::string gbnf_at_scale(std::span<const std::uint8_t> bytes) {
  constexpr std::array<std::string_view, 26> pieces = {
      "root ::= ", "\na ::= ", "\nb ::= ", "\n",  "a ", "b ", "\"x\" ", "\"\" ", "[a-z]",  "[^\"]", ". ", "( ",     ") ",
      "| ",        "()* ",     "(a?)",     "(|)", "*",  "?",  "+",      "{2,9}", "{,999}", "\"",    "[",  "\u00e9", "#"};
  constexpr std::size_t longest = 300'000;
  std::string text = "root ::= ";
  for (std::size_t i = 0; i + 1 < bytes.size(); i += 2) {
    const std::string_view piece = pieces[bytes[i] % pieces.size()];
    for (std::size_t count = times(bytes[i + 1]); count > 0 && text.size() < longest; --count) {
      text += piece;
    }
  }
  return text;
}

using Json = nlohmann::ordered_json;

/// Appends a member without comparing it with earlier ones. The first members are never moved, because the library would
/// copy them, level by level.
constexpr std::size_t most_unmoved = 10;
void append(Json& object, std::string name, Json&& value) {
  std::vector<Json::object_t::value_type>& members = object.get_ref<Json::object_t&>();
  if (members.empty()) {
    members.reserve(most_unmoved);
  }
  members.emplace_back(std::move(name), std::move(value));
}

Json object_with(std::string name, Json&& value) {
  Json object = Json::object();
  append(object, std::move(name), std::move(value));
  return object;
}

Json list_with(Json&& value) {
  Json list = Json::array();
  list.get_ref<Json::array_t&>().push_back(std::move(value));
  return list;
}

/// `schema` inside another one.
Json wrapped(Json&& schema, std::uint8_t how) {
  switch (how % 8) {
    case 6:
      return object_with("patternProperties", object_with("^a+", std::move(schema)));
    case 7:
      return object_with("propertyNames", std::move(schema));
    case 0:
      return object_with("items", std::move(schema));
    case 1:
      return object_with("properties", object_with("a", std::move(schema)));
    case 2:
      return object_with("additionalProperties", std::move(schema));
    case 3:
      return object_with("prefixItems", list_with(std::move(schema)));
    default:
      return object_with(how % 8 == 4 ? "allOf" : "anyOf", list_with(std::move(schema)));
  }
}

std::string repeated(std::string_view piece, std::size_t count) {
  std::string text;
  while (count-- > 0) {
    text += piece;
  }
  return text;
}

/// Definitions of which each is the next one, inside `how`.
Json chain(std::size_t count, std::uint8_t how) {
  Json definitions = Json::object();
  for (std::size_t i = 0; i < count; ++i) {
    append(definitions, "d" + std::to_string(i), wrapped(object_with("$ref", "#/$defs/d" + std::to_string(i + 1)), how));
  }
  append(definitions, "d" + std::to_string(count), Json::object());
  Json schema = object_with("$ref", "#/$defs/d0");
  append(schema, "$defs", std::move(definitions));
  return schema;
}

Json list_of(std::size_t count, const Json& part) {
  Json list = Json::array();
  list.get_ref<Json::array_t&>().assign(count, part);
  return list;
}

/// Each three bytes extend the schema: what is added or what it is nested in, how often, and in which form.
Json schema_at_scale(std::span<const std::uint8_t> bytes) {
  Json schema = Json::object();
  std::size_t left = 200'000;
  for (std::size_t i = 0; i + 2 < bytes.size(); i += 3) {
    const std::size_t count = std::min(times(bytes[i + 1]), left);
    const std::uint8_t form = bytes[i + 2];
    left -= count;
    if (schema.size() + 2 > most_unmoved) {  // a step adds two members at most
      schema = object_with("items", std::move(schema));
    }
    switch (bytes[i] % 14) {
      case 0:
        for (std::size_t depth = 0; depth < count; ++depth) {
          schema = wrapped(std::move(schema), form);
        }
        break;
      case 1:
        schema = object_with("properties", object_with(repeated(form % 2 == 0 ? "n" : "\u00e9", count), std::move(schema)));
        break;
      case 2: {
        Json properties = Json::object();
        for (std::size_t name = 0; name < count; ++name) {
          append(properties, "p" + std::to_string(name), form % 2 == 0 ? Json(true) : Json::object());
        }
        schema = object_with("properties", std::move(properties));
        break;
      }
      case 3:
        schema = object_with(form % 3 == 0 ? "allOf" : form % 3 == 1 ? "anyOf" : "oneOf", list_of(count, Json::object()));
        break;
      case 4:
        schema = object_with(form % 2 == 0 ? "enum" : "required", list_of(count, "v"));
        break;
      case 5: {
        constexpr std::array<std::string_view, 8> pieces = {"(", "a|", "[^\\d]", "(a)", ".", "a{1,20}", "\\w", "(b?)"};
        schema = object_with("pattern", repeated(pieces[form % pieces.size()], std::min<std::size_t>(count, 900)));
        break;
      }
      case 6:
        schema = chain(count, form);
        break;
      case 7:
        append(schema, form % 2 == 0 ? "minLength" : "maxItems", Json(count));
        break;
      case 8:
        append(schema, form % 2 == 0 ? "minimum" : "maximum", Json(1.0 / static_cast<double>(count + 3)));
        break;
      case 9: {
        Json patterns = Json::object();
        for (std::size_t number = 0; number < count; ++number) {
          append(patterns, (form % 2 == 0 ? "^a*" : "b") + std::to_string(number), Json(true));
        }
        append(schema, "patternProperties", std::move(patterns));
        break;
      }
      case 10:
        append(schema, "multipleOf", form % 2 == 0 ? Json(count) : Json(1.0 / static_cast<double>(count + 3)));
        break;
      case 11: {
        Json values = Json::array();
        for (std::size_t number = 0; number < count; ++number) {
          values.get_ref<Json::array_t&>().push_back(form % 3 == 0 ? Json(number) : Json(std::to_string(number * form)));
        }
        Json items = object_with("enum", std::move(values));
        append(schema, form % 2 == 0 ? "items" : "not", std::move(items));
        append(schema, "uniqueItems", true);
        break;
      }
      case 12:
        append(schema, "$id", repeated("a/", form % 40));
        append(schema, "format", form % 2 == 0 ? "email" : "date");
        break;
      default:
        append(schema, "required", list_of(1 + form % 3, "a"));
        break;
    }
  }
  return schema;
}

struct Input {
  const std::uint8_t* data;
  std::size_t size;
};

void run(const Input& input) {
  static const std::shared_ptr<const TokenTrie> trie = make_trie();
  // The first byte is the kind of the rest. After a zero byte come the choices among the allowed tokens.
  const std::span all(input.data + 1, input.size - 1);
  const auto end = static_cast<std::size_t>(std::find(all.begin(), all.end(), std::uint8_t{0}) - all.begin());
  const std::span part = all.first(end);
  const std::string text(part.begin(), part.end());
  const std::span choices = all.subspan(std::min(all.size(), end + 1));
  WorkBudget budget(400'000, "compiling the grammar");
  try {
    Grammar grammar;
    if (input.data[0] % 4 == 1) {
      const Json schema = Json::parse(text, nullptr, false);
      if (schema.is_discarded()) {
        return;
      }
      grammar = json_schema_grammar(schema, budget);
    } else if (input.data[0] % 4 == 3) {
      grammar = json_schema_grammar(schema_at_scale(part), budget);
    } else {
      grammar = parse_gbnf(input.data[0] % 4 == 0 ? text : gbnf_at_scale(part), budget);
    }
    const auto constraint = make_grammar_constraint(GrammarMatcher::create(std::move(grammar), trie, budget));
    write_text(*constraint, *trie, choices);
  } catch (const Error&) {  // refused with a reason: right
  }
}

void* run_on_thread(void* input) {
  run(*static_cast<const Input*>(input));
  return nullptr;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0 || size > 4096) {
    return 0;
  }
  // Recursion for each level of a text would overflow this stack. Sanitizers make frames several times larger.
  Input input{data, size};
  pthread_attr_t attributes;
  pthread_t thread{};
  check(pthread_attr_init(&attributes) == 0 && pthread_attr_setstacksize(&attributes, 512 << 10) == 0 &&
            pthread_create(&thread, &attributes, run_on_thread, &input) == 0,
        "a thread for the input");
  pthread_join(thread, nullptr);
  pthread_attr_destroy(&attributes);
  return 0;
}
