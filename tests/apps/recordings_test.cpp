// Recordings in the program's commands.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "apps/program.h"
#include "paths.h"

namespace rocmforge {
namespace {

using testing::HasSubstr;

std::string sound_file(const std::string& name) { return test::test_data("golden/audio/" + name); }
std::string sound_model(const std::string& name) { return test::test_data("golden/models/audio/" + name); }

std::vector<std::string> sound_command(const std::string& verb, std::vector<std::string> more) {
  std::vector<std::string> arguments = {verb, sound_model("qwen2vl-chat.gguf"), "--device", "cpu", "--greedy", "-n", "8"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}
const std::vector<std::string> ears = {"--mmproj", sound_model("mmproj-qwen2a.gguf")};

std::string heard_by_run(std::vector<std::string> more) {
  more.insert(more.end(), ears.begin(), ears.end());
  const ProgramResult result = run_program(sound_command("run", std::move(more)));
  EXPECT_EQ(result.exit_code, 0) << result.err;
  return result.out;
}

TEST(Recordings, AreHeardByRunAndChat) {
  const std::string answer = heard_by_run({"--audio", sound_file("pcm16.wav"), "-p", "what"});
  EXPECT_NE(answer, "");
  EXPECT_NE(heard_by_run({"-p", "what"}), answer) << "without it";
  EXPECT_NE(heard_by_run({"--audio", sound_file("pcm16.wav"), "--audio", sound_file("opus.ogg"), "-p", "what"}), answer)
      << "with another";
  const ProgramResult chat = run_program(sound_command("chat", ears), "/audio " + sound_file("pcm16.wav") + "\nwhat\n");
  EXPECT_EQ(chat.out, answer) << chat.err;
}

TEST(Recordings, AreRefusedInOneLine) {
  const auto refusal = [](std::vector<std::string> more) {
    const ProgramResult result = run_program(sound_command("run", std::move(more)));
    EXPECT_NE(result.exit_code, 0);
    return result.err;
  };
  EXPECT_EQ(refusal({"--audio", "missing.wav", "-p", "q"}), "rocmforge: missing.wav: there is no such file\n");
  EXPECT_THAT(refusal({"--audio", test::test_data("golden/images/rgb.png"), "-p", "q"}),
              HasSubstr("rgb.png: the recording is of an unknown format; read are "));
  EXPECT_EQ(refusal({"--no-mmproj", "--audio", sound_file("pcm16.wav"), "-p", "q"}),
            "rocmforge: the model reads text alone and can't hear recordings\n");
  EXPECT_THAT(refusal({"--raw", "--audio", sound_file("pcm16.wav"), "-p", "q"}), HasSubstr("--audio"));
  const ProgramResult chat =
      run_program(sound_command("chat", {"--no-mmproj"}), "/audio " + sound_file("pcm16.wav") + "\n/audio missing.wav\n");
  EXPECT_THAT(chat.err, HasSubstr("(the model reads text alone and can't hear recordings)"));
}

}  // namespace
}  // namespace rocmforge
