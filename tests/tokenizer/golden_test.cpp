#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <cstring>
#include <tuple>
#include <unordered_map>

#include "tokenizer/pre_tokenizer.h"
#include "tokenizer/random_text.h"
#include "tokenizer/vocabulary_files.h"

namespace rocmforge::test {
namespace {

std::vector<std::string> split_at(const std::string& text, const std::string& separator) {
  std::vector<std::string> parts;
  std::size_t begin = 0;
  for (std::size_t end = text.find(separator); end != std::string::npos; end = text.find(separator, begin)) {
    parts.push_back(text.substr(begin, end - begin));
    begin = end + separator.size();
  }
  parts.push_back(text.substr(begin));
  return parts;
}

/// The published cases: one text, one line of ids.
void expect_cases(const std::string& name) {
  const auto tokenizer = load_golden(name);
  const std::vector<std::string> texts = split_at(read_golden("cases.txt"), "\n__ggml_vocab_test__\n");
  const std::vector<std::string> lines = split_at(read_golden(name + ".ids"), "\n");
  int cases = 0;
  for (std::size_t i = 0; i + 1 < lines.size(); ++i) {
    std::istringstream line(lines[i]);
    const std::vector<std::int32_t> expected((std::istream_iterator<std::int32_t>(line)), {});
    EXPECT_EQ(tokenizer->encode(texts[i], {.add_special = false}), expected)
        << name << ": " << testing::PrintToString(texts[i]);
    EXPECT_EQ(tokenizer->decode(expected), texts[i]);
    ++cases;
  }
  EXPECT_EQ(cases, 46);
}

TEST(Golden, CasesOfGpt2) { expect_cases("gpt-2"); }
TEST(Golden, CasesOfDeepseekCoder) { expect_cases("deepseek-coder"); }
TEST(Golden, CasesOfLlama) { expect_cases("llama-spm"); }
TEST(Golden, CasesOfPhi3) { expect_cases("phi-3"); }

std::string escaped(const std::string& text) {
  std::string shown;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    shown += byte >= 0x20 && byte < 0x7F
                 ? std::string(1, c)
                 : "\\x" + std::string(1, "0123456789abcdef"[byte >> 4]) + "0123456789abcdef"[byte & 15];
  }
  return shown;
}

/// Random strings against the hashes of Hugging Face's results: ids, then, with a pre-tokenizer, the lengths of the pieces.
/// Each string must also decode to itself if the vocabulary has all bytes.
void expect_random(const Tokenizer& tokenizer, const std::string& file, const PreTokenizer* pre = nullptr,
                   bool has_all_bytes = true) {
  const std::string hashes = read_golden(file + ".hashes");
  const std::size_t count = hashes.size() / sizeof(std::uint32_t);
  ASSERT_EQ(count, 10000u);
  std::size_t matched = 0;
  for (std::size_t i = 0; i < count; ++i) {
    std::uint32_t expected = 0;
    std::memcpy(&expected, hashes.data() + i * sizeof(expected), sizeof(expected));
    const std::string text = RandomText(i).make();
    const std::vector<std::int32_t> ids = tokenizer.encode(text, {.add_special = false});
    std::vector<std::int32_t> result = ids;
    for (const std::string_view piece : pre == nullptr ? std::vector<std::string_view>() : pre->split(text)) {
      result.push_back(static_cast<std::int32_t>(piece.size()));
    }
    const bool same = hash_ids(result) == expected;
    matched += same ? 1 : 0;
    if (!same && i - matched < 5) {
      ADD_FAILURE() << file << " string " << i << " (tools/goldens/tokenizer_golden.py --show " << file << " " << i
                    << "): \"" << escaped(text) << "\"\ngives " << testing::PrintToString(result);
    }
    if (has_all_bytes && text.find("\u2581") == std::string::npos) {
      ASSERT_EQ(tokenizer.decode(ids), text);
    }
  }
  EXPECT_EQ(matched, count) << file;
}

TEST(Golden, RandomStringsOfGpt2) { expect_random(*load_golden("gpt-2"), "gpt-2"); }
TEST(Golden, RandomStringsOfDeepseekCoder) { expect_random(*load_golden("deepseek-coder"), "deepseek-coder"); }
TEST(Golden, RandomStringsOfLlama) { expect_random(*load_golden("llama-spm"), "llama-spm"); }
TEST(Golden, RandomStringsOfPhi3) { expect_random(*load_golden("phi-3"), "phi-3"); }

/// Llama's vocabulary as Gemma 4 has its own: with merges, all ways to write a token as two, those of the best scores first.
std::shared_ptr<const Tokenizer> load_marked() {
  Vocabulary vocabulary = load_golden("llama-spm")->vocabulary();
  std::unordered_map<std::string, std::int32_t> ids;
  for (std::size_t id = 0; id < vocabulary.tokens.size(); ++id) {
    if (vocabulary.types[id] == TokenType::normal || vocabulary.types[id] == TokenType::user_defined) {
      ids.emplace(vocabulary.tokens[id], static_cast<std::int32_t>(id));
    }
  }
  std::vector<std::tuple<float, std::int32_t, std::int32_t>> merges;
  for (const auto& [text, id] : ids) {
    for (std::size_t i = 1; i < text.size(); ++i) {
      const auto left = ids.find(text.substr(0, i)), right = ids.find(text.substr(i));
      if (left != ids.end() && right != ids.end()) {
        merges.emplace_back(-vocabulary.scores[static_cast<std::size_t>(id)], left->second, right->second);
      }
    }
  }
  std::ranges::sort(merges);
  for (const auto& [score, left, right] : merges) {
    vocabulary.merges.push_back(vocabulary.tokens[static_cast<std::size_t>(left)] + " " +
                                vocabulary.tokens[static_cast<std::size_t>(right)]);
  }
  vocabulary.model = TokenizerModel::marked_bpe;
  return Tokenizer::create(std::move(vocabulary));
}

TEST(Golden, RandomStringsOfGemma4) { expect_random(*load_marked(), "gemma4"); }

/// A vocabulary without some bytes: letters, white space, and such that begin and continue characters; a SentencePiece one
/// without these letters and all bytes. Tokens that contain them can't be formed by merges. As LACKING in
/// tools/goldens/tokenizer_golden.py.
std::shared_ptr<const Tokenizer> load_lacking(const std::string& name) {
  Vocabulary vocabulary = load_golden(name)->vocabulary();
  // How a byte-level vocabulary writes the bytes 'q', 'X', '7', tab, C3, E2, 9F and A9.
  std::vector<std::string> lost = {"q", "X", "7", "\u0109", "\u00C3", "\u00E2", "\u0141", "\u00A9"};
  if (vocabulary.model == TokenizerModel::spm) {
    lost = {"q", "X", "7", "\t", "<0x"};
  }
  const auto is_gone = [&](std::string_view text) {
    return std::ranges::any_of(lost, [&](const std::string& each) { return text.find(each) != std::string_view::npos; });
  };
  for (std::size_t id = 0; id < vocabulary.tokens.size(); ++id) {
    if (is_gone(vocabulary.tokens[id])) {
      vocabulary.types[id] = TokenType::unused;
    }
  }
  std::erase_if(vocabulary.merges, is_gone);
  return Tokenizer::create(std::move(vocabulary));
}

TEST(Golden, BytesThatGpt2sVocabularyLacks) { expect_random(*load_lacking("gpt-2"), "lacking.gpt-2", nullptr, false); }
TEST(Golden, BytesThatLlamasVocabularyLacks) {
  expect_random(*load_lacking("llama-spm"), "lacking.llama-spm", nullptr, false);
}

TEST(Golden, RandomStringsOfBert) { expect_random(*load_golden("bert-bge"), "bert-bge", nullptr, false); }
TEST(Golden, RandomStringsOfCasedBert) {
  Vocabulary vocabulary = load_golden("bert-bge")->vocabulary();
  vocabulary.lowercase = false;
  expect_random(*Tokenizer::create(std::move(vocabulary)), "cased.bert-bge", nullptr, false);
}

TEST(Golden, RandomStringsOfUnigram) { expect_random(*load_golden("unigram"), "unigram", nullptr, false); }
TEST(Golden, RandomStringsOfUnigramWithAllSpaces) {
  Vocabulary vocabulary = load_golden("unigram")->vocabulary();
  vocabulary.remove_extra_whitespaces = false;
  expect_random(*Tokenizer::create(std::move(vocabulary)), "spaces.unigram", nullptr, false);
}
TEST(Golden, RandomStringsOfUnigramWithoutPrefix) {
  Vocabulary vocabulary = load_golden("unigram")->vocabulary();
  vocabulary.add_space_prefix = false;
  expect_random(*Tokenizer::create(std::move(vocabulary)), "plain.unigram", nullptr, false);
}

struct PreCase {
  const char* pre;   ///< name under test
  const char* file;  ///< golden file of its kind
};

void PrintTo(const PreCase& each, std::ostream* stream) { *stream << each.pre; }

class PreTokenizers : public testing::TestWithParam<PreCase> {};

TEST_P(PreTokenizers, RandomStrings) {
  const PreTokenizer pre(pre_tokenizer_rules(GetParam().pre));
  expect_random(*gpt2_with(GetParam().pre), GetParam().file, &pre);
}

INSTANTIATE_TEST_SUITE_P(
    Names, PreTokenizers,
    testing::Values(
        PreCase{"llama-bpe", "pre.llama-bpe"}, PreCase{"glm4", "pre.llama-bpe"}, PreCase{"qwen2", "pre.qwen2"},
        PreCase{"bailingmoe2", "pre.qwen2"}, PreCase{"qwen35", "pre.qwen35"}, PreCase{"gpt-4o", "pre.gpt-4o"},
        PreCase{"tekken", "pre.tekken"}, PreCase{"kimi-k2", "pre.kimi-k2"}, PreCase{"deepseek-llm", "pre.deepseek-llm"},
        PreCase{"deepseek-coder", "pre.deepseek-coder"}, PreCase{"deepseek-v3", "pre.deepseek-v3"},
        PreCase{"starcoder", "pre.starcoder"}, PreCase{"smollm", "pre.starcoder"}, PreCase{"command-r", "pre.starcoder"},
        PreCase{"falcon", "pre.falcon"}, PreCase{"gpt-2", "pre.gpt-2"}, PreCase{"phi-2", "pre.gpt-2"},
        PreCase{"default", "pre.default"}, PreCase{"seed-coder", "pre.seed-coder"}, PreCase{"youtu", "pre.youtu"},
        PreCase{"bloom", "pre.bloom"}, PreCase{"viking", "pre.viking"}, PreCase{"minicpm5", "pre.minicpm5"},
        PreCase{"ufakzeka", "pre.ufakzeka"}, PreCase{"exaone-moe", "pre.exaone-moe"}, PreCase{"laguna", "pre.laguna"},
        PreCase{"spark2_5", "pre.spark2_5"}, PreCase{"chameleon", "pre.chameleon"}, PreCase{"jais-2", "pre.jais-2"},
        PreCase{"tiny_aya", "pre.tiny_aya"}, PreCase{"superbpe", "pre.superbpe"}, PreCase{"afmoe", "pre.afmoe"},
        PreCase{"granite-embed-multi-97m", "pre.gpt-4o"}, PreCase{"roberta-bpe", "pre.gpt-2"}),
    [](const auto& each) {
      std::string name = each.param.pre;
      std::erase_if(name, [](char c) { return std::isalnum(static_cast<unsigned char>(c)) == 0; });
      return name;
    });

TEST(Golden, KindsOfPreTokenizersDiffer) {
  // A wrong kind changes only token counts, which is easy to overlook. So each file must distinguish its kind from the
  // others.
  const std::vector<std::string> kinds = {
      "gpt-2",    "llama-bpe",    "qwen2",          "qwen35",      "gpt-4o",    "tekken",     "kimi-k2",
      "default",  "deepseek-llm", "deepseek-coder", "deepseek-v3", "starcoder", "falcon",     "seed-coder",
      "youtu",    "bloom",        "viking",         "minicpm5",    "ufakzeka",  "exaone-moe", "laguna",
      "spark2_5", "chameleon",    "jais-2",         "tiny_aya",    "superbpe",  "afmoe"};
  for (std::size_t i = 0; i < kinds.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      EXPECT_TRUE(read_golden("pre." + kinds[i] + ".hashes") != read_golden("pre." + kinds[j] + ".hashes"))
          << kinds[i] << " " << kinds[j];
    }
  }
}

}  // namespace
}  // namespace rocmforge::test
