#include <algorithm>

#include "base/error.h"
#include "tokenizer/pre_tokenizer.h"

namespace rocmforge {
namespace {

// The expressions are those of the models' own tokenizer files, in the order in which those apply them.

constexpr std::string_view gpt2 = R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

#define CONTRACTION R"((?i:'s|'t|'re|'ve|'m|'ll|'d))"
#define SYMBOLS_AND_SPACE R"( ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"
constexpr std::string_view llama3 = CONTRACTION R"(|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|)" SYMBOLS_AND_SPACE;
constexpr std::string_view qwen2 = CONTRACTION R"(|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}|)" SYMBOLS_AND_SPACE;
// Seed: symbols do not take line ends with them. MiniCPM 5: digits are cut before.
constexpr std::string_view seed =
    CONTRACTION R"(|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}\r\n]+|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view minicpm = CONTRACTION R"(|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}+|)" SYMBOLS_AND_SPACE;
// Jais 2 cuts white space into runs of powers of two. Within such a run, after a character that is no line end, there is no
// line end left: the condition says so, because a search for one at every cut would take quadratic time.
constexpr std::string_view jais2 = CONTRACTION
    R"(|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|(?:(?<!\s)|(?<=[\r\n]))\s*[\r\n]+|\s{512}(?!\S)|)"
    R"(\s{256}(?!\S)|\s{128}(?!\S)|\s{64}(?!\S)|\s{32}(?!\S)|\s{16}(?!\S)|\s{8}(?!\S)|\s{4}(?!\S)|\s{1,2}(?!\S)|\s)";
constexpr std::string_view ufakzeka = R"([^\r\n\p{L}\p{N}]?\p{L}+|\p{N}|)" SYMBOLS_AND_SPACE;
// EXAONE MoE joins words.
constexpr std::string_view exaone_moe =
    CONTRACTION R"(|[^\r\n\p{L}\p{N}]?(?:\p{L}\p{M}*+(?: \p{L}\p{M}*+)*+)++|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]?|\s*[\r\n]|)"
                R"(\s+(?!\S)|\s+)";
constexpr std::string_view qwen35 =
    CONTRACTION R"(|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

// First words with any number of upper-case letters and then lower-case letters, then words of upper-case letters. Letters
// without case belong to both classes.
#define UPPER R"([\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}])"
#define LOWER R"([\p{Ll}\p{Lm}\p{Lo}\p{M}])"
#define LEAD R"([^\r\n\p{L}\p{N}]?)"
#define CASED_END R"( ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)"
constexpr std::string_view gpt4o =
    LEAD UPPER "*" LOWER "+" CONTRACTION "?|" LEAD UPPER "+" LOWER "*" CONTRACTION R"(?|\p{N}{1,3}|)" CASED_END;
constexpr std::string_view youtu =
    LEAD UPPER "*" LOWER "+" CONTRACTION "?|" LEAD UPPER "+" LOWER "*" CONTRACTION R"(?|\p{N}|)" CASED_END;
constexpr std::string_view tekken = LEAD UPPER "*" LOWER "+|" LEAD UPPER "+" LOWER R"(*|\p{N}|)" CASED_END;
// Chinese characters (Unicode's script Han) form words of their own. The letter classes without them are the complement of
// all other categories.
#define HAN                                                                                                     \
  R"(\x{2E80}-\x{2E99}\x{2E9B}-\x{2EF3}\x{2F00}-\x{2FD5}\x{3005}\x{3007}\x{3021}-\x{3029}\x{3038}-\x{303B})"    \
  R"(\x{3400}-\x{4DBF}\x{4E00}-\x{9FFF}\x{F900}-\x{FA6D}\x{FA70}-\x{FAD9}\x{16FE2}\x{16FE3}\x{16FF0}\x{16FF1})" \
  R"(\x{20000}-\x{2A6DF}\x{2A700}-\x{2B739}\x{2B740}-\x{2B81D}\x{2B820}-\x{2CEA1}\x{2CEB0}-\x{2EBE0})"          \
  R"(\x{2EBF0}-\x{2EE5D}\x{2F800}-\x{2FA1D}\x{30000}-\x{3134A}\x{31350}-\x{323AF})"
#define UPPER_BUT_HAN R"([^\p{Ll}\p{N}\p{P}\p{S}\p{Z}\p{C})" HAN "]"
#define LOWER_BUT_HAN R"([^\p{Lu}\p{Lt}\p{N}\p{P}\p{S}\p{Z}\p{C})" HAN "]"
constexpr std::string_view kimi = "[" HAN "]+|" LEAD UPPER_BUT_HAN "*" LOWER_BUT_HAN "+" CONTRACTION "?|" LEAD UPPER_BUT_HAN
                                  "+" LOWER_BUT_HAN "*" CONTRACTION R"(?|\p{N}{1,3}|)" SYMBOLS_AND_SPACE;
#undef HAN
#undef UPPER_BUT_HAN
#undef LOWER_BUT_HAN
#undef CONTRACTION
#undef SYMBOLS_AND_SPACE
#undef UPPER
#undef LOWER
#undef LEAD
#undef CASED_END

constexpr std::string_view line_ends = R"([\r\n])";
constexpr std::string_view deepseek_cjk = R"([\x{4E00}-\x{9FA5}\x{800}-\x{4E00}\x{AC00}-\x{D7FF}]+)";
constexpr std::string_view deepseek_letters =
    R"(\s?[)"
    R"(A-Za-z\x{B5}\x{C0}-\x{D6}\x{D8}-\x{F6}\x{F8}-\x{1BA}\x{1BC}-\x{1BF}\x{1C4}-\x{293}\x{295}-\x{2AF})"
    R"(\x{370}-\x{373}\x{376}\x{377}\x{37B}-\x{37D}\x{37F}\x{386}\x{388}-\x{38A}\x{38C}\x{38E}-\x{3A1})"
    R"(\x{3A3}-\x{3F5}\x{3F7}-\x{481}\x{48A}-\x{52F}\x{531}-\x{556}\x{10A0}-\x{10C5}\x{13A0}-\x{13F5})"
    R"(\x{13F8}-\x{13FD}\x{1C90}-\x{1CBA}\x{1CBD}-\x{1CBF}\x{1D00}-\x{1D2B}\x{1D6B}-\x{1D77})"
    R"(\x{1D79}-\x{1D9A}\x{1E00}-\x{1F15}\x{1F18}-\x{1F1D}\x{1F20}-\x{1F45}\x{1F48}-\x{1F4D})"
    R"(\x{1F50}-\x{1F57}\x{1F59}\x{1F5B}\x{1F5D}\x{1F5F}-\x{1F7D}\x{1F80}-\x{1FB4}\x{1FB6}-\x{1FBC}\x{1FBE})"
    R"(\x{1FC2}-\x{1FC4}\x{1FC6}-\x{1FCC}\x{1FD0}-\x{1FD3}\x{1FD6}-\x{1FDB}\x{1FE0}-\x{1FEC})"
    R"(\x{1FF2}-\x{1FF4}\x{1FF6}-\x{1FFC}\x{2102}\x{2107}\x{210A}-\x{2113}\x{2115}\x{2119}-\x{211D}\x{2124})"
    R"(\x{2126}\x{2128}\x{212A}-\x{212D}\x{212F}-\x{2134}\x{2139}\x{213C}-\x{213F}\x{2145}-\x{2149}\x{214E})"
    R"(\x{2183}\x{2184}\x{2C00}-\x{2C7B}\x{2C7E}-\x{2CE4}\x{2CEB}-\x{2CEE}\x{2CF2}\x{2CF3}\x{A640}-\x{A66D})"
    R"(\x{A680}-\x{A69B}\x{A722}-\x{A76F}\x{A771}-\x{A787}\x{A78B}-\x{A78E}\x{AB70}-\x{ABBF})"
    R"(\x{FB00}-\x{FB06}\x{FB13}-\x{FB17}\x{FF21}-\x{FF3A}\x{FF41}-\x{FF5A}\x{10400}-\x{1044F})"
    R"(\x{104B0}-\x{104D3}\x{104D8}-\x{104FB}\x{10C80}-\x{10CB2}\x{10CC0}-\x{10CF2}\x{118A0}-\x{118DF})"
    R"(\x{1E900}-\x{1E943})"
    R"(]+)";
constexpr std::string_view deepseek_punctuation =
    R"(\s?[!-/:-~\x{FF01}-\x{FF0F}\x{FF1A}-\x{FF5E}\x{2018}-\x{201F}\x{3000}-\x{3002}]+)";
// Equivalent to "\s+$", but it tries only the start of a run of spaces: "\s+$" takes quadratic time.
constexpr std::string_view trailing_space = R"((?<!\s)\s++\z)";
constexpr std::string_view deepseek3_cjk = R"([\x{4E00}-\x{9FA5}\x{3040}-\x{309F}\x{30A0}-\x{30FF}]+)";
constexpr std::string_view deepseek3 =
    R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+|)"
    R"( ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

constexpr std::string_view spark = R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+|)"
                                   R"( ?[\p{P}\p{S}]+|[\r\n]|\s+(?!\S)|\s+)";
constexpr std::string_view youtu_scripts =
    R"([\x{AC00}-\x{D7A3}\x{3131}-\x{318E}]+|)"
    R"([\x{FF01}\x{2026}\x{201C}\x{201D}\x{2018}\x{2019}\x{2014}\x{FF1A}\x{FF1B}\x{FF0C}\x{3001}-\x{303F}\x{FE30}-\x{FE4F}]+|)"
    R"([\x{3105}-\x{312F}]+|[\x{4E00}-\x{9FA5}\x{3040}-\x{309F}\x{30A0}-\x{30FF}]+)";
constexpr std::string_view bloom = R"( ?[^(\s|.,!?\x{2026}\x{3002}\x{FF0C}\x{3001}\x{964}\x{6D4}\x{60C})]+)";

// Groups of three digits, counted from a number's end. Files say \d{1,3}(?=(?:\d{3})*\b), which reads on to the number's end
// in every group. Here a number is cut off first, then from its start, where one condition finds the length of the first
// group. A number before a character of a word is not cut: these are Oniguruma's, which the files' expressions are made for.
#define AFTER_NUMBERS(digit) R"(\A)" digit R"({1,3}?(?=(?:)" digit R"({3})*+\z)|\G(?!\A))" digit "{3}"
constexpr std::string_view groups_of_numbers = AFTER_NUMBERS(R"(\p{N})");
constexpr std::string_view groups_of_digits = AFTER_NUMBERS(R"(\p{Nd})");
#undef AFTER_NUMBERS
constexpr std::string_view lone_digits =
    R"((?<!\p{Nd})\p{Nd}++(?![\p{L}\p{M}\p{Nd}\p{Nl}\p{Pc}\x{24B6}-\x{24E9}\x{1F130}-\x{1F149}\x{1F150}-\x{1F169})"
    R"(\x{1F170}-\x{1F189}]))";
// Of a piece of numbers, cut before each group of three digits: (?=(\d{3})+(?!\d)) in the files. What is no digit stays with
// the group before it and the first digits after it.
#define TO_GROUPS R"((?=(?:\p{Nd}{3})*+(?!\p{Nd})))"
#define NO_DIGITS R"((?:\P{Nd}++\p{Nd}{0,2}?)" TO_GROUPS ")*+"
constexpr std::string_view before_groups =
    R"(\A(?:\p{Nd}{1,3}?)" TO_GROUPS ")?+" NO_DIGITS R"(|\G(?!\A)\p{Nd}{3})" NO_DIGITS;
#undef TO_GROUPS
#undef NO_DIGITS

// Scripts that write no spaces, Chinese and Hangul.
constexpr std::string_view afmoe_scripts =
    R"([\x{4E00}-\x{9FFF}\x{3400}-\x{4DBF}\x{F900}-\x{FAFF}\x{3040}-\x{30FF}\x{FF65}-\x{FF9F}\x{2F00}-\x{2FDF})"
    R"(\x{E40}-\x{EFF}\x{1780}-\x{17FF}\x{1000}-\x{109F}\x{AA60}-\x{AA7F}\x{A9E0}-\x{A9FF}\x{AC00}-\x{D7AF})"
    R"(\x{1100}-\x{11FF}]+)";

constexpr std::string_view digit = R"(\p{N})";
constexpr std::string_view digits = R"(\p{N}+)";
constexpr std::string_view digits_by_three = R"(\p{N}{1,3})";
constexpr std::string_view three_digits = "[0-9][0-9][0-9]";

std::vector<PreTokenizerRules> all_rules() {
  return {
      {{"default"}, {R"([\p{P}\$\+<=>\^~\|]+)", gpt2, digits, three_digits}},
      {{"gpt-2", "phi-2", "mpt", "olmo", "jais", "trillion", "granite-docling", "gigachat", "a.x-4.0", "mellum", "exaone4",
        "jina-es", "jina-de", "jina-v2-es", "jina-v2-de", "jina-v1-en", "jina-v2-code", "roberta-bpe", "modern-bert"},
       {gpt2}},
      {{"llama-bpe", "llama3", "llama-v3", "falcon3", "falcon-h1", "pixtral", "lfm2", "midm-2.0", "jina-v5-nano"},
       {llama3},
       /*ignore_merges=*/true,
       /*adds_bos=*/true},
      {{"glm4", "glm5"}, {llama3}, /*ignore_merges=*/true},
      {{"chatglm-bpe", "dbrx", "smaug-bpe"}, {llama3}},
      {{"jais-2"}, {jais2}},
      {{"minicpm5"}, {digits_by_three, minicpm}, /*ignore_merges=*/true},
      {{"seed-coder"}, {seed}},
      {{"ufakzeka"}, {ufakzeka}},
      {{"exaone-moe"}, {exaone_moe}},
      {{"laguna"}, {R"([^\n]+|\n+)", qwen2}},
      {{"qwen2", "deepseek-r1-qwen", "stablelm2", "hunyuan", "solar-open", "grok-2", "megrez", "kormo", "openpangu",
        "bailingmoe", "bailingmoe2", "llada-moe", "f2llmv2"},
       {qwen2}},
      {{"qwen35"}, {qwen35}},
      {{"gpt-4o", "llama4", "kanana2", "minimax-m2", "talkie"}, {gpt4o}},
      {{"granite-embed-multi-97m"}, {gpt4o}, /*ignore_merges=*/true},
      {{"tiny_aya", "cohere2moe"}, {lone_digits, groups_of_digits, gpt4o}},
      {{"superbpe"}, {digits, before_groups}},
      {{"afmoe"}, {digits, groups_of_numbers, afmoe_scripts, deepseek3}},
      {{"youtu"}, {youtu_scripts, youtu}, /*ignore_merges=*/true},
      {{"bloom", "poro-chat", "gpt3-finnish"}, {bloom}},
      {{"viking"}, {bloom, digit}},
      {{"kimi-k2"}, {kimi}},
      {{"tekken"}, {tekken}, /*ignore_merges=*/true, /*adds_bos=*/true},
      {{"deepseek-llm"}, {line_ends, deepseek_letters, deepseek_punctuation, trailing_space, deepseek_cjk, digits}},
      {{"deepseek-coder"}, {line_ends, R"(\s?\p{L}+)", R"(\s?\p{P}+)", deepseek_cjk, digit}},
      {{"deepseek-v3", "hunyuan-dense", "joyai-llm", "hy_v4"}, {digits_by_three, deepseek3_cjk, deepseek3}},
      {{"spark2_5"}, {digits_by_three, deepseek3_cjk, spark, digit}},
      {{"chameleon"},
       {"<sentinel:[0-9]+>", "IMGIMG[A-I]{1,4}Z", R"([\t\n]|    |  )", digit, R"([\p{P}!-/:-@\[-`{-~])", gpt2},
       /*ignore_merges=*/false,
       /*adds_bos=*/true},
      {{"starcoder", "refact", "command-r", "cohere2_moe", "smollm", "codeshell", "exaone", "minerva-7b", "mellum2"},
       {digit, gpt2}},
      {{"falcon"}, {R"([\p{P}\$\+<=>\^~\|`]+)", gpt2, three_digits}},
  };
}

}  // namespace

std::vector<std::string_view> pre_tokenizer_names() {
  std::vector<std::string_view> names;
  for (const PreTokenizerRules& rules : all_rules()) {
    names.insert(names.end(), rules.names.begin(), rules.names.end());
  }
  return names;
}

PreTokenizerRules pre_tokenizer_rules(std::string_view name) {
  const std::string_view wanted = name.empty() ? "default" : name;
  std::string known;
  for (PreTokenizerRules& rules : all_rules()) {
    if (std::find(rules.names.begin(), rules.names.end(), wanted) != rules.names.end()) {
      return std::move(rules);
    }
    for (const std::string_view each : rules.names) {
      known.append(known.empty() ? "" : ", ").append(each);
    }
  }
  throw Error("unknown pre-tokenizer '" + std::string(name) + "'; known are " + known);
}

}  // namespace rocmforge
