#include "engine/load_tokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"

namespace rocmforge::test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

/// The bytes of a GGUF file with metadata and no tensors.
class Metadata {
 public:
  Metadata& text(const std::string& key, const std::string& value) { return begin(key, 8).put_text(value); }
  Metadata& number(const std::string& key, std::uint32_t value) { return begin(key, 4).put(value); }
  Metadata& flag(const std::string& key, bool value) { return begin(key, 7).put(static_cast<std::uint8_t>(value)); }
  Metadata& texts(const std::string& key, const std::vector<std::string>& values) {
    begin(key, 9).put(std::uint32_t{8}).put(std::uint64_t{values.size()});
    for (const std::string& value : values) {
      put_text(value);
    }
    return *this;
  }
  template <class Value>
  Metadata& numbers(const std::string& key, std::uint32_t type, const std::vector<Value>& values) {
    begin(key, 9).put(type).put(std::uint64_t{values.size()});
    for (const Value value : values) {
      put(value);
    }
    return *this;
  }

  [[nodiscard]] std::shared_ptr<const Tokenizer> load() const {
    Metadata header;
    header.put(std::uint32_t{0x46554747}).put(std::uint32_t{3}).put(std::uint64_t{0}).put(std::uint64_t{count_});
    const std::string all = header.bytes_ + bytes_;
    return load_tokenizer(GgufFile::from_memory(std::as_bytes(std::span(all))));
  }
  [[nodiscard]] std::string error() const {
    try {
      static_cast<void>(load());
    } catch (const Error& error) {
      return error.what();
    }
    return "no error";
  }

 private:
  Metadata& begin(const std::string& key, std::uint32_t type) {
    ++count_;
    return put_text(key).put(type);
  }
  Metadata& put_text(const std::string& value) {
    put(std::uint64_t{value.size()});
    bytes_ += value;
    return *this;
  }
  template <class Value>
  Metadata& put(Value value) {
    bytes_.append(reinterpret_cast<const char*>(&value), sizeof(value));
    return *this;
  }

  std::string bytes_;
  std::uint64_t count_ = 0;
};

const std::string prefix = "tokenizer.ggml.";

Metadata bpe() {
  Metadata metadata;
  metadata.text("general.architecture", "llama")
      .text(prefix + "model", "gpt2")
      .text(prefix + "pre", "gpt-2")
      .texts(prefix + "tokens", {"a", "b", "ab", "<s>", "<e>", "<f>"})
      .numbers<std::int32_t>(prefix + "token_type", 5, {1, 1, 1, 3, 3, 3})
      .texts(prefix + "merges", {"a b"});
  return metadata;
}

Metadata spm() {
  Metadata metadata;
  metadata.text(prefix + "model", "llama")
      .texts(prefix + "tokens", {"<unk>", "<s>", "</s>", "▁", "a"})
      .numbers<float>(prefix + "scores", 6, {0, 0, 0, -1, -2})
      .numbers<std::int32_t>(prefix + "token_type", 5, {2, 3, 3, 1, 1});
  return metadata;
}

TEST(LoadTokenizer, ByteLevelBpe) {
  const auto tokenizer = bpe()
                             .number(prefix + "bos_token_id", 3)
                             .number(prefix + "eos_token_id", 4)
                             .number(prefix + "eot_token_id", 5)
                             .flag(prefix + "add_bos_token", true)
                             .flag(prefix + "add_eos_token", true)
                             .text("tokenizer.chat_template", "{{ messages }}")
                             .text("tokenizer.chat_template.rerank", "{query}")
                             .load();
  EXPECT_THAT(tokenizer->encode("ab", {}), ElementsAre(3, 2, 4));
  EXPECT_THAT(tokenizer->end_of_generation_ids(), ElementsAre(4, 5));
  EXPECT_EQ(tokenizer->vocabulary().chat_template, "{{ messages }}");
  EXPECT_EQ(tokenizer->vocabulary().rerank_template, "{query}");
  EXPECT_EQ(tokenizer->vocabulary().pre, "gpt-2");
}

TEST(LoadTokenizer, SentencePieceWithDefaultIds) {
  const auto tokenizer = spm().load();
  EXPECT_EQ(tokenizer->vocabulary().bos, 1);
  EXPECT_EQ(tokenizer->vocabulary().eos, 2);
  EXPECT_EQ(tokenizer->vocabulary().unknown, 0);
  EXPECT_THAT(tokenizer->encode("a", {}), ElementsAre(1, 3, 4));
  EXPECT_THAT(spm().flag(prefix + "add_space_prefix", false).flag(prefix + "add_bos_token", false).load()->encode("a", {}),
              ElementsAre(4));
}

TEST(LoadTokenizer, BpeOfCharactersIsKnownByItsPreTokenizer) {
  for (const char* pre : {"sarvam-moe", "gemma4", "granite-embed-multi-311m"}) {
    Metadata metadata;
    metadata.text(prefix + "model", "gpt2")
        .text(prefix + "pre", pre)
        .texts(prefix + "tokens", {"▁", "é", "▁é", "<0xC3>", "<0xA8>"})
        .numbers<std::int32_t>(prefix + "token_type", 5, {1, 1, 1, 6, 6})
        .texts(prefix + "merges", {"▁ é"});
    EXPECT_THAT(metadata.load()->encode(" éè", {}), ElementsAre(2, 3, 4)) << pre;
  }
}

TEST(LoadTokenizer, ByteLevelBpeWithoutIdsHasNone) {
  const auto tokenizer = bpe().load();
  EXPECT_EQ(tokenizer->vocabulary().bos, -1);
  EXPECT_EQ(tokenizer->vocabulary().eos, -1);
  EXPECT_FALSE(tokenizer->adds_bos());
}

TEST(LoadTokenizer, BothSpellingsOfTheSeparator) {
  EXPECT_EQ(bpe().number(prefix + "seperator_token_id", 3).load()->vocabulary().separator, 3);
  EXPECT_EQ(bpe().number(prefix + "separator_token_id", 4).load()->vocabulary().separator, 4);
}

TEST(LoadTokenizer, NewAndOldNamesOfFillInTheMiddle) {
  const auto now = bpe()
                       .number(prefix + "fim_pre_token_id", 0)
                       .number(prefix + "fim_suf_token_id", 1)
                       .number(prefix + "fim_mid_token_id", 2)
                       .number(prefix + "fim_pad_token_id", 3)
                       .number(prefix + "fim_rep_token_id", 4)
                       .number(prefix + "fim_sep_token_id", 5)
                       .load();
  EXPECT_EQ(now->vocabulary().fim_pre, 0);
  EXPECT_EQ(now->vocabulary().fim_suf, 1);
  EXPECT_EQ(now->vocabulary().fim_mid, 2);
  EXPECT_THAT(now->end_of_generation_ids(), ElementsAre(3, 4, 5));
  const auto before = bpe()
                          .number(prefix + "prefix_token_id", 0)
                          .number(prefix + "suffix_token_id", 1)
                          .number(prefix + "middle_token_id", 2)
                          .load();
  EXPECT_EQ(before->vocabulary().fim_pre, 0);
  EXPECT_EQ(before->vocabulary().fim_suf, 1);
  EXPECT_EQ(before->vocabulary().fim_mid, 2);
}

TEST(LoadTokenizer, IdsOutsideTheVocabularyAreIgnored) {
  const auto bad = bpe().number(prefix + "bos_token_id", 6).number(prefix + "eos_token_id", 0xFFFFFFFFu).load();
  EXPECT_EQ(bad->vocabulary().bos, -1);
  EXPECT_EQ(bad->vocabulary().eos, -1);
  EXPECT_EQ(spm().number(prefix + "bos_token_id", 99).load()->vocabulary().bos, 1);
}

TEST(LoadTokenizer, FileThatSaysItHasNone) {
  EXPECT_EQ(Metadata().text(prefix + "model", "no_vocab").load(), nullptr);
  EXPECT_EQ(Metadata().text(prefix + "model", "none").load(), nullptr);
}

TEST(LoadTokenizer, MissingOrUnsupportedIsAnErrorNeverASubstitute) {
  EXPECT_THAT(Metadata().text("general.architecture", "llama").error(), HasSubstr("tokenizer.ggml.model"));
  for (const char* model : {"rwkv", "plamo2", "sentencepiece"}) {
    EXPECT_THAT(Metadata().text(prefix + "model", model).error(), HasSubstr("tokenizer '" + std::string(model) + "'"));
  }
  EXPECT_THAT(Metadata().text(prefix + "model", "gpt2").error(), HasSubstr("tokenizer.ggml.tokens"));
  EXPECT_THAT(Metadata().text(prefix + "model", "gpt2").texts(prefix + "tokens", {"a"}).error(),
              HasSubstr("tokenizer.ggml.merges"));
  EXPECT_THAT(Metadata().text(prefix + "model", "gemma4").texts(prefix + "tokens", {"a"}).error(),
              HasSubstr("tokenizer.ggml.merges"));
  EXPECT_THAT(Metadata().number(prefix + "model", 1).error(), HasSubstr("tokenizer.ggml.model"));
}

TEST(LoadTokenizer, UnknownPreTokenizerIsNamed) {
  const std::string error = Metadata()
                                .text(prefix + "model", "gpt2")
                                .text(prefix + "pre", "brand-new")
                                .texts(prefix + "tokens", {"a", "b", "ab"})
                                .texts(prefix + "merges", {"a b"})
                                .error();
  EXPECT_THAT(error, HasSubstr("brand-new"));
  EXPECT_THAT(error, HasSubstr("llama-bpe"));
}

/// Pairs of one score are merged from the left.
TEST(LoadTokenizer, ASentencePieceVocabularyMayHaveNoScores) {
  const auto tokenizer = Metadata()
                             .text(prefix + "model", "llama")
                             .texts(prefix + "tokens", {"a", "b", "ab", "ba", "aba"})
                             .flag(prefix + "add_space_prefix", false)
                             .flag(prefix + "add_bos_token", false)
                             .load();
  EXPECT_THAT(tokenizer->encode("abab", {}), ElementsAre(4, 1));
  EXPECT_THAT(tokenizer->encode("bab", {}), ElementsAre(3, 1));
}

TEST(LoadTokenizer, ListsOfDifferentLengthsAreAnError) {
  const std::string error = Metadata()
                                .text(prefix + "model", "llama")
                                .texts(prefix + "tokens", {"a", "b"})
                                .numbers<float>(prefix + "scores", 6, {0})
                                .error();
  EXPECT_THAT(error, HasSubstr("2 tokens but 1 scores"));
}

}  // namespace
}  // namespace rocmforge::test
