#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string>

#include "apps/program.h"

namespace rocmforge {
namespace {

const std::string control_c = "\x03";
const std::string control_d = "\x04";

/// The chat in a terminal of its own, with a history file of its own.
class TerminalChat : public testing::Test {
 protected:
  void SetUp() override {
    if (!has_demo_model()) {
      GTEST_SKIP() << demo_model() << " is absent";
    }
    const int terminal = posix_openpt(O_RDWR | O_NOCTTY);
    if (terminal < 0) {
      GTEST_SKIP() << "this machine gives no pseudo-terminals: " << std::strerror(errno);
    }
    close(terminal);
  }
  [[nodiscard]] std::vector<std::string> environment() const {
    return {"XDG_STATE_HOME=" + folder_.path().string(), "NO_COLOR=1"};
  }

  TemporaryFolder folder_;
};

TEST_F(TerminalChat, ControlCStopsTheAnswerAndNotTheProgram) {
  TerminalProgram chat({"chat", "--greedy", "--ignore-eos"}, environment());
  ASSERT_TRUE(chat.wait_for("> ")) << chat.screen();
  chat.type("Tell me a short story about a fox.\r");
  ASSERT_TRUE(chat.wait_for("fox")) << chat.screen();  // the echo of the question
  ASSERT_TRUE(chat.wait_for("fox")) << chat.screen();  // the answer has begun
  chat.type(control_c);
  ASSERT_TRUE(chat.wait_for("(stopped)")) << chat.screen();
  ASSERT_TRUE(chat.wait_for("> ")) << chat.screen();
  chat.type("/stats\r");
  ASSERT_TRUE(chat.wait_for("; cancelled; peak memory")) << chat.screen();
  ASSERT_TRUE(chat.wait_for("> ")) << chat.screen();
  chat.type("/exit\r");
  EXPECT_EQ(chat.wait_for_end(), 0) << chat.screen();
}

TEST_F(TerminalChat, ControlCTwiceAtTheEmptyPromptLeaves) {
  TerminalProgram chat({"chat", "--greedy"}, environment());
  ASSERT_TRUE(chat.wait_for("> ")) << chat.screen();
  chat.type("half a questi");
  ASSERT_TRUE(chat.wait_for("questi")) << chat.screen();
  chat.type(control_c);
  ASSERT_TRUE(chat.wait_for("> ")) << chat.screen();
  chat.type(control_c);
  ASSERT_TRUE(chat.wait_for("(Ctrl-C once more, Ctrl-D or /exit leaves)")) << chat.screen();
  ASSERT_TRUE(chat.wait_for("> ")) << chat.screen();
  chat.type("What is 2 + 3?\r");
  ASSERT_TRUE(chat.wait_for_answer("5")) << "the typed text was dropped and the program goes on: " << chat.screen();
  ASSERT_TRUE(chat.wait_for("> ")) << chat.screen();
  chat.type(control_c);
  ASSERT_TRUE(chat.wait_for("leaves)")) << chat.screen();
  ASSERT_TRUE(chat.wait_for("> ")) << chat.screen();
  chat.type(control_c);
  EXPECT_EQ(chat.wait_for_end(), 0) << chat.screen();
}

TEST_F(TerminalChat, LettersOfAnyLanguageCanBeTypedAndEdited) {
  TerminalProgram chat({"chat", "--greedy"}, {"LC_ALL=C", environment()[0], environment()[1]});
  ASSERT_TRUE(chat.wait_for("> ")) << chat.screen();
  chat.type("W\xc3\xb6rt\xe2\x82\xac\x7f");  // the last character is taken back
  EXPECT_TRUE(chat.wait_for("W\xc3\xb6rt\xe2\x82\xac")) << chat.screen();
  chat.type("\x15What is 2 + 3?\r");  // and then the whole line
  EXPECT_TRUE(chat.wait_for_answer("5")) << chat.screen();
}

TEST_F(TerminalChat, WhatIsPastedIsOneMessage) {
  TerminalProgram chat({"chat", "--greedy"}, environment());
  ASSERT_TRUE(chat.wait_for("\033[?2004h")) << "the terminal is asked to bracket what is pasted: " << chat.screen();
  chat.type("\033[200~What is \r2 + 3?\r\033[201~");
  ASSERT_TRUE(chat.wait_for("2 + 3?")) << chat.screen();
  chat.type("\r");
  ASSERT_TRUE(chat.wait_for_answer("5")) << chat.screen();
  ASSERT_TRUE(chat.wait_for("> ")) << chat.screen();
  chat.type("/stats\r");
  EXPECT_TRUE(chat.wait_for(" prompt tokens")) << "no half of it was a message: " << chat.screen();
  EXPECT_EQ(chat.screen().find("from the cache"), std::string::npos) << chat.screen();
}

TEST_F(TerminalChat, ALongPasteArrivesWhole) {
  TerminalProgram chat({"chat", "--greedy", "-n", "1"}, environment());
  ASSERT_TRUE(chat.wait_for("> ")) << chat.screen();
  std::string lines;
  for (int i = 0; i < 100; ++i) {
    lines += "line\n";
  }
  chat.type("\033[200~" + lines + "the end\033[201~\r");
  ASSERT_TRUE(chat.wait_for("the end")) << chat.screen();
  ASSERT_TRUE(chat.wait_for("\033[?2004l")) << chat.screen();
  ASSERT_TRUE(chat.wait_for("> ")) << chat.screen();
  chat.type("/exit\r");
  EXPECT_EQ(chat.wait_for_end(), 0) << chat.screen();
}

TEST_F(TerminalChat, TabCompletesCommands) {
  TerminalProgram chat({"chat", "--greedy"}, environment());
  ASSERT_TRUE(chat.wait_for("> ")) << chat.screen();
  chat.type("/s\t");
  ASSERT_TRUE(chat.wait_for("/system   /stats")) << "both are possible: " << chat.screen();
  chat.type("t\t\r");
  ASSERT_TRUE(chat.wait_for("no answer yet")) << chat.screen();
  ASSERT_TRUE(chat.wait_for("> ")) << chat.screen();
  chat.type("/e\t\r");
  EXPECT_EQ(chat.wait_for_end(), 0) << chat.screen();
}

TEST_F(TerminalChat, ColoursAreForTerminalsThatTakeThem) {
  const std::string green = "\033[1;32m";
  TerminalProgram coloured({"chat", "--greedy"}, {environment()[0]});
  EXPECT_TRUE(coloured.wait_for(green)) << coloured.screen();
  TerminalProgram plain({"chat", "--greedy"}, environment());
  ASSERT_TRUE(plain.wait_for("> ")) << plain.screen();
  EXPECT_EQ(plain.screen().find(green), std::string::npos);
  TerminalProgram dumb({"chat", "--greedy"}, {environment()[0], "TERM=dumb"});
  ASSERT_TRUE(dumb.wait_for("> ")) << dumb.screen();
  EXPECT_EQ(dumb.screen().find(green), std::string::npos);
}

TEST_F(TerminalChat, ControlDLeavesAndTheHistoryStays) {
  {
    TerminalProgram chat({"chat", "--greedy"}, environment());
    ASSERT_TRUE(chat.wait_for("> ")) << chat.screen();
    chat.type("What is 40 + 2?\r");
    ASSERT_TRUE(chat.wait_for_answer("42")) << chat.screen();
    ASSERT_TRUE(chat.wait_for("> ")) << chat.screen();
    chat.type(control_d);
    EXPECT_EQ(chat.wait_for_end(), 0) << chat.screen();
  }
  std::ifstream history(folder_.path() / "rocmforge" / "history");
  const std::string kept((std::istreambuf_iterator<char>(history)), {});
  EXPECT_NE(kept.find("What"), std::string::npos) << kept;
  TerminalProgram chat({"chat", "--greedy"}, environment());
  ASSERT_TRUE(chat.wait_for("> ")) << chat.screen();
  chat.type("\x10\r");  // the line before, once more
  EXPECT_TRUE(chat.wait_for_answer("42")) << chat.screen();
}

}  // namespace
}  // namespace rocmforge
