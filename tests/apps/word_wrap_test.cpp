#include "terminal/word_wrap.h"

#include <gtest/gtest.h>

#include <clocale>

#include "terminal/terminal.h"

namespace rocmforge::app {
namespace {

class WordWrapTest : public testing::Test {
 protected:
  void SetUp() override {
    if (std::setlocale(LC_CTYPE, "C.UTF-8") == nullptr) {
      GTEST_SKIP() << "this system has no locale C.UTF-8";
    }
  }
  void TearDown() override { std::setlocale(LC_CTYPE, "C"); }

  /// The content of a terminal of `width` columns after `text` was written in pieces of `size` bytes.
  static std::string screen(const std::string& text, std::size_t width, std::size_t size = 1) {
    WordWrap wrap([width] { return width; });
    std::string shown;
    for (std::size_t i = 0; i < text.size();) {
      std::size_t end = std::min(i + size, text.size());
      while (end < text.size() && (static_cast<unsigned char>(text[end]) & 0xc0u) == 0x80u) {
        ++end;  // pieces hold whole characters
      }
      shown += wrap.add(text.substr(i, end - i));
      i = end;
    }
    return played(shown);
  }

  /// Carries out "back N columns" and "erase to the end of the line"; here every character is as wide as its bytes.
  static std::string played(const std::string& written) {
    std::string screen;
    for (std::size_t i = 0; i < written.size(); ++i) {
      if (written[i] != '\033') {
        screen += written[i];
        continue;
      }
      const std::size_t end = written.find('D', i);
      screen.resize(screen.size() - static_cast<std::size_t>(std::stoi(written.substr(i + 2, end - i - 2))));
      EXPECT_EQ(written.substr(end + 1, 3), "\033[K");
      i = end + 3;
    }
    return screen;
  }
};

TEST_F(WordWrapTest, BreaksBetweenWordsHoweverTheyCome) {
  const std::string text = "The quick brown fox jumps over the lazy dog.";
  for (const std::size_t size : {1U, 2U, 3U, 5U, 44U}) {
    EXPECT_EQ(screen(text, 16, size), "The quick brown\nfox jumps over \nthe lazy dog.") << size;
  }
  EXPECT_EQ(screen("short\n\nlines stay\n", 16), "short\n\nlines stay\n");
}

TEST_F(WordWrapTest, BreaksAWordThatNoLineHolds) {
  EXPECT_EQ(screen("abcdefghijklmnopqrstuvwxyz", 11), "abcdefghij\nklmnopqrst\nuvwxyz");
}

TEST_F(WordWrapTest, WideCharactersNeedNoBlanks) {
  // 9 columns are used: four characters of two.
  EXPECT_EQ(screen("\u6f22\u5b57\u4eee\u540d\u4ea4\u3058", 10), "\u6f22\u5b57\u4eee\u540d\n\u4ea4\u3058");
}

TEST_F(WordWrapTest, CodeStaysAsItIs) {
  const std::string code = "```\nx = a_long_line_of_code_that_goes_on and on and on\n```\n";
  EXPECT_EQ(screen(code, 16), code);
  EXPECT_EQ(screen(code + "one two three four", 16), code + "one two three \nfour");
}

TEST_F(WordWrapTest, NoAnswerMovesTheCursor) {
  EXPECT_EQ(screen("a\033[2Jb\rc", 40), "a\\x1b[2Jb\\x0dc");
  EXPECT_EQ(screen("a\u0085b\u202ec\td", 40), "a\\u0085b\\u202ec\td");
}

TEST_F(WordWrapTest, ColumnsOfText) {
  EXPECT_EQ(column_width("abc"), 3U);
  EXPECT_EQ(column_width("W\u00f6rt"), 4U);
  EXPECT_EQ(column_width("\u6f22\u5b57"), 4U);
  EXPECT_EQ(column_width("e\u0301"), 1U) << "the accent stands over the letter";
  EXPECT_EQ(column_width("\xff"), 1U);
}

TEST_F(WordWrapTest, WrapsHelp) {
  EXPECT_EQ(wrapped("one two three four", 9, 0), "one two\nthree\nfour");
  EXPECT_EQ(wrapped("one two three", 9, 4), "one\n    two\n    three");
  EXPECT_EQ(wrapped("a\nb", 20, 2), "a\n  b");
}

}  // namespace
}  // namespace rocmforge::app
