#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <ostream>
#include <regex>
#include <sstream>
#include <string>
#include <vector>

#include "apps/program.h"
#include "paths.h"

namespace rocmforge {
namespace {

using nlohmann::json;

/// The names in the list of commands that --help prints, in its order.
std::vector<std::string> listed_commands() {
  std::istringstream help(run_program({"--help"}).out);
  std::vector<std::string> commands;
  bool in_list = false;
  for (std::string line; std::getline(help, line);) {
    if (line == "Commands:") {
      in_list = true;
    } else if (line.empty()) {
      in_list = false;
    } else if (std::smatch match; in_list && std::regex_search(line, match, std::regex("^  ([a-z]+) +[A-Z]"))) {
      commands.push_back(match[1]);
    }
  }
  return commands;
}

/// The commands, separated by commas, as messages list them.
std::string joined(const std::vector<std::string>& commands) {
  std::string text;
  for (const std::string& command : commands) {
    text += (text.empty() ? "" : ", ") + command;
  }
  return text;
}

TEST(CommandLine, HelpOfEveryCommandHasExamples) {
  const std::vector<std::string> commands = listed_commands();
  ASSERT_GE(commands.size(), 9U);
  for (const std::string& command : commands) {
    const ProgramResult result = run_program({command, "--help"});
    EXPECT_EQ(result.exit_code, 0) << command;
    EXPECT_EQ(result.err, "") << command;
    EXPECT_NE(result.out.find("Examples:\n  rocmforge " + command), std::string::npos) << result.out;
  }
}

// A command that is declared but never added would be missing.
TEST(CommandLine, HelpListsEveryCommandThatIsDeclared) {
  std::ifstream header(test::source_path("apps/rocmforge/commands.h"));
  const std::string text(std::istreambuf_iterator<char>(header), {});
  const std::regex declaration("Command ([a-z]+)_command\\(");
  std::vector<std::string> declared;
  for (std::sregex_iterator next(text.begin(), text.end(), declaration), end; next != end; ++next) {
    declared.push_back((*next)[1]);
  }
  EXPECT_FALSE(declared.empty());
  EXPECT_EQ(listed_commands(), declared);
}

TEST(CommandLine, AMissingOrUnknownCommandGetsTheListOfCommands) {
  const std::string commands = joined(listed_commands());
  const ProgramResult missing = run_program({});
  EXPECT_EQ(missing.exit_code, 2);
  EXPECT_EQ(missing.out, "");
  EXPECT_EQ(missing.err, "rocmforge: a command is missing: " + commands + " (rocmforge --help says more)\n");
  const ProgramResult unknown = run_program({"frobnicate"});
  EXPECT_EQ(unknown.exit_code, 2);
  EXPECT_EQ(unknown.out, "");
  EXPECT_EQ(unknown.err, "rocmforge: there is no command 'frobnicate'; the commands are " + commands + "\n");
}

TEST(CommandLine, Version) {
  const ProgramResult result = run_program({"--version"});
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_TRUE(result.out.starts_with("rocmforge 0.")) << result.out;
  EXPECT_EQ(run_program({"version"}).out, result.out);
  EXPECT_EQ("rocmforge " + json::parse(run_program({"version", "--json"}).out).at("version").get<std::string>() + "\n",
            result.out);
}

struct WrongLine {
  std::vector<std::string> arguments;
  std::string message;  ///< the whole of standard error without "rocmforge: " and the newline
};

std::ostream& operator<<(std::ostream& stream, const WrongLine& line) { return stream << line.message; }

class WrongCommandLine : public testing::TestWithParam<WrongLine> {};

TEST_P(WrongCommandLine, IsOneLineAndExitCodeTwo) {
  const ProgramResult result = run_program(GetParam().arguments);
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_EQ(result.out, "");
  EXPECT_EQ(result.err, "rocmforge: " + GetParam().message + "\n");
}

// None of these needs a model: the error is found before a model is looked for or prepared.
INSTANTIATE_TEST_SUITE_P(
    Lines, WrongCommandLine,
    testing::Values(
        WrongLine{{"--loud"}, "there is no option --loud before the command (see rocmforge --help)"},
        WrongLine{{"-m", "a.gguf", "-p", "hi"}, "there is no option -m before the command (see rocmforge --help)"},
        WrongLine{{"rnu"}, "there is no command 'rnu'; did you mean run? (see rocmforge --help)"},
        WrongLine{{"bnech", "--json"}, "there is no command 'bnech'; did you mean bench? (see rocmforge --help)"},
        WrongLine{{"help", "rnu"}, "rocmforge has no command 'rnu'; did you mean run?"},
        WrongLine{{"run", "-p", "hi", "--loud"}, "there is no option --loud (see rocmforge run --help)"},
        WrongLine{{"run", "-p", "hi", "--sead", "1"},
                  "there is no option --sead; did you mean --seed? (see rocmforge run --help)"},
        WrongLine{{"run", "-p", "hi", "--temprature=1"},
                  "there is no option --temprature=1; did you mean --temp? (see rocmforge run --help)"},
        WrongLine{{"perplexity", "--flie", "x"},
                  "there is no option --flie; did you mean --file? (see rocmforge perplexity --help)"},
        WrongLine{{"bench", "step", "--sequence", "x"},
                  "there is no option --sequence; did you mean --sequences? (see rocmforge bench step --help)"},
        WrongLine{{"run", "-hx"}, "there is no option -hx (see rocmforge run --help)"},
        WrongLine{{"run", "-p", "hi", "-ngl", "some"}, "--gpu-layers is some, must be auto, all or 0 to 100000"},
        WrongLine{{"run", "-p", "hi", "--lora-scaled", "a.gguf"},
                  "--lora-scaled is 'a.gguf', must be FILE:SCALE with a number as the scale"},
        WrongLine{{"run", "-p", "hi", "--lora-scaled", "a.gguf:1x"},
                  "--lora-scaled is 'a.gguf:1x', must be FILE:SCALE with a number as the scale"},
        WrongLine{{"run", "--cpu-moe", "--n-cpu-moe", "3"}, "--cpu-moe excludes --n-cpu-moe (see rocmforge run --help)"},
        WrongLine{{"run", "a.gguf", "hi", "b.gguf"}, "one argument too many: b.gguf (see rocmforge run --help)"},
        WrongLine{{"run", "-m", "a.gguf", "hi", "b"}, "one argument too many: b (the model is named by -m)"},
        WrongLine{{"run", "a.gguf", "hi", "-p", "hi"}, "the prompt was given twice: as an argument and by -p"},
        WrongLine{{"chat", "a.gguf", "-m", "b.gguf"}, "MODEL excludes --model (see rocmforge chat --help)"},
        WrongLine{{"run"},
                  "a prompt is missing: MODEL PROMPT, -p TEXT, -f FILE, or text on standard input (rocmforge chat is for "
                  "talking)"},
        WrongLine{{"run", "-p"}, "--prompt: 1 required TEXT missing (see rocmforge run --help)"},
        WrongLine{{"run", "-p", "hi", "-f", "x"}, "--prompt excludes --file (see rocmforge run --help)"},
        WrongLine{{"run", "-f", "/nowhere.txt"}, "/nowhere.txt: No such file or directory"},
        WrongLine{{"run", "-p", "hi", "-n", "many"},
                  "--max-tokens is many, must be a whole number, at least 1, or -1 for no limit"},
        WrongLine{{"run", "-p", "hi", "-n", ""},
                  "--max-tokens is empty, must be a whole number, at least 1, or -1 for no limit"},
        WrongLine{{"run", "-p", "hi", "-n", "0"}, "--max-tokens is 0, must be at least 1, or -1 for no limit"},
        WrongLine{{"run", "-p", "hi", "-n", "99999999999"}, "--max-tokens is 99999999999, must be at most 2147483647"},
        WrongLine{{"run", "-p", "hi", "--temp", "nan"}, "--temp is nan, must be 0 to 2"},
        WrongLine{{"run", "-p", "hi", "--temp", "1e999"}, "--temp is 1e999, must be 0 to 2"},
        WrongLine{{"run", "-p", "hi", "--top-p", "1.5"}, "--top-p is 1.5, must be 0 to 1"},
        WrongLine{{"chat", "--top-k", "1.5"}, "--top-k is 1.5, must be a whole number, at least -1"},
        WrongLine{{"serve", "--min-p", "-1"}, "--min-p is -1, must be 0 to 1"},
        WrongLine{{"run", "-p", "hi", "--seed", "-2"}, "--seed is -2, must be at least 0, or -1 for a random one"},
        WrongLine{{"run", "-p", "hi", "--greedy", "--temp", "1"}, "--temp excludes --greedy (see rocmforge run --help)"},
        WrongLine{{"run", "-p", "hi", "--logit-bias", "x"}, "--logit-bias: 'x' is not ID=VALUE, as in 42=-inf"},
        WrongLine{{"run", "-p", "hi", "--logit-bias", "5=nan"}, "--logit-bias: '5=nan' is not ID=VALUE, as in 42=-inf"},
        WrongLine{{"run", "-p", "hi", "--logit-bias", "5=inf"}, "--logit-bias: '5=inf' is not ID=VALUE, as in 42=-inf"},
        WrongLine{{"run", "-p", "hi", "--stop", ""}, "--stop: the text is empty"},
        WrongLine{{"run", "-p", "hi", "--raw", "--system", "x"}, "--system has no meaning with --raw"},
        WrongLine{{"run", "-p", "hi", "--grammar", "root"},
                  "--grammar: grammar: line 1, column 5: expected '::=' after 'root'"},
        WrongLine{{"chat", "--json-schema", "[1]"}, "--json-schema: the schema is not a JSON object"},
        WrongLine{{"chat", "--json-schema", std::string(100'000, '[')},
                  "--json-schema: the schema is not valid JSON: it is nested deeper than 96 levels"},
        WrongLine{{"run", "-p", "hi", "--grammar-file", "/nowhere.gbnf"}, "/nowhere.gbnf: No such file or directory"},
        WrongLine{{"run", "-p", "hi", "--json-schema", "{}", "--grammar", "x"},
                  "--grammar excludes --json-schema (see rocmforge run --help)"},
        WrongLine{{"serve", "--chat-template-kwargs", "[1]"},
                  "--chat-template-kwargs is not a JSON object, as in '{\"enable_thinking\": false}'"},
        WrongLine{{"chat", "--think", "maybe"}, "--think is maybe, must be on or off"},
        WrongLine{{"run", "nowhere/model.gguf", "-p", "hi"}, "there is no file 'nowhere/model.gguf'"},
        WrongLine{{"run", "/", "-p", "hi"}, "'/' is a folder; rocmforge models '/' lists its models"},
        WrongLine{{"perplexity"}, "--file is required, a text to predict"},
        WrongLine{{"perplexity", "--kl-divergence", "-f", "x"},
                  "--kl-divergence takes the text of the file that --kl-divergence-base names, and no --file"},
        WrongLine{{"run", "-p", "hi", "--control-vector-scaled", "a.gguf"},
                  "--control-vector-scaled is 'a.gguf', must be FILE:SCALE with a number as the scale"},
        WrongLine{{"run", "-p", "hi", "--control-vector", "a.gguf", "--control-vector-layer-range", "3"},
                  "--control-vector-layer-range is '3', must be FIRST:LAST with numbers of layers from 1 on"},
        WrongLine{{"run", "-p", "hi", "--control-vector", "a.gguf", "--control-vector-layer-range", "5:3"},
                  "--control-vector-layer-range is '5:3', must be FIRST:LAST with numbers of layers from 1 on"},
        WrongLine{{"run", "-p", "hi", "--control-vector-layer-range", "3:5"},
                  "--control-vector-layer-range has no control vector: --control-vector FILE names one"},
        WrongLine{{"serve", "--slot-save-path", "x", "--cache-ram", "0"},
                  "--slot-save-path can't be used with --cache-ram 0: prompts come back through host memory"},
        WrongLine{{"perplexity", "-f", "x", "-c", "2"}, "--context is 2, must be at least 4"},
        WrongLine{{"perplexity", "-f", "x", "-t", "5000"}, "--threads is 5000, must be 0 to 1024 (0: all processors)"},
        WrongLine{{"bench", "matmul", "-t", "5000"}, "--threads is 5000, must be 0 to 1024 (0: all processors)"},
        WrongLine{{"bench", "-p", "x"}, "--prompt: \"x\" is not an integer"},
        WrongLine{{"bench", "-p", "0", "-n", "0"}, "there is nothing to measure: -p, -n and --pg are all 0"},
        WrongLine{{"bench", "-pg", "5"}, "--pg: '5' is not PP,TG, as in 512,128"},
        WrongLine{{"bench", "-o", "xml"}, "--output is xml, must be md, json or csv"},
        WrongLine{{"bench", "-t", "5000"}, "--threads: 5000 is outside 0 to 1024"},
        WrongLine{{"serve", "--port", "70000"}, "--port is 70000, must be 0 to 65535 (0: a free one, which is printed)"},
        WrongLine{{"load", "127.0.0.1:8080"}, "'127.0.0.1:8080' is not a URL like http://127.0.0.1:8080"},
        WrongLine{{"load", "--rate", "2", "--concurrency", "3"},
                  "--concurrency excludes --rate (see rocmforge load --help)"},
        WrongLine{{"load", "--rate", "nan"}, "--rate is nan, must be 0 to 100000"},
        WrongLine{{"load", "--concurrency", "0"}, "--concurrency is 0, must be 1 to 16384"},
        WrongLine{{"load", "--drop", "1.5"}, "--drop is 1.5, must be 0 to 1"},
        WrongLine{{"load", "--prompt-tokens", "9-3"}, "--prompt-tokens: '9-3' runs backwards"},
        WrongLine{{"load", "--output-tokens", "5~x"},
                  "--output-tokens: '5~x' is not a length like 512, 100-900 or 512~64 (1 to 16777216 tokens)"},
        WrongLine{{"load", "--forbid", "1,a"}, "--forbid: \"a\" is not an integer"},
        WrongLine{{"tokenize", "m", "text", "--decode", "1"},
                  "--decode takes ids and there is a text as well: one of the two"},
        WrongLine{{"models", "/nowhere"}, "/nowhere: No such file or directory"},
        WrongLine{{"chat", "--system"}, "--system: 1 required TEXT missing (see rocmforge chat --help)"},
        WrongLine{{"devices", "x"}, "one argument too many: x (see rocmforge devices --help)"}));

class WrongEngineFlag : public testing::TestWithParam<WrongLine> {};

// The flags of every command that loads a model, tested with a command that has no other required arguments.
TEST_P(WrongEngineFlag, IsOneLineAndExitCodeTwo) {
  std::vector<std::string> arguments = GetParam().arguments;
  arguments.insert(arguments.begin(), "inspect");
  const ProgramResult result = run_program(arguments);
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_EQ(result.out, "");
  EXPECT_TRUE(result.err.starts_with("rocmforge: " + GetParam().message)) << result.err;
  EXPECT_EQ(result.err.find('\n'), result.err.size() - 1);
}

INSTANTIATE_TEST_SUITE_P(
    Flags, WrongEngineFlag,
    testing::Values(WrongLine{{"-c", "-5"}, "--context is -5, must be at least 0 (0: the default)"},
                    WrongLine{{"-b", "0"}, "--batch is 0, must be 1 to 65536"},
                    WrongLine{{"-t", "99999"}, "--threads is 99999, must be 0 to 1024"},
                    WrongLine{{"--kv-type", "q3_k"},
                              "--kv-type is q3_k, must be f32, f16, bf16, q8_0, q5_1, q5_0, q4_1, "
                              "q4_0 or iq4_nl, or two of them for K and V: q8_0,q4_0"},
                    WrongLine{{"--kv-type", "q8_0,f16,f16"}, "--kv-type is q8_0,f16,f16, must be f32,"},
                    WrongLine{{"--kv-type", "q8_0,"}, "--kv-type is q8_0,, must be f32,"},
                    WrongLine{{"-ctv", "q4"},
                              "--cache-type-v is q4, must be f32, f16, bf16, q8_0, q5_1, q5_0, q4_1, q4_0 "
                              "or iq4_nl"},
                    WrongLine{{"--isa", "sse"}, "--isa is sse, must be generic, neon, avx2, avxvnni or avx512"},
                    WrongLine{{"--attention", "none"},
                              "--attention: there is no attention kernel 'none'; there are reference"},
                    WrongLine{{"--matmul", "none"}, "--matmul: there is no matmul kernel 'none'; there are reference"}));

// "-hf" begins as "-h" does.
TEST(CommandLine, ARepositoryOfTheHubIsNoCallForHelp) {
  for (const char* flag : {"-hf", "--hf-repo"}) {
    const ProgramResult result = run_program({"run", flag, "someone/a-model-GGUF", "a prompt"}, "", {"HF_HUB_OFFLINE=1"});
    EXPECT_EQ(result.exit_code, 1) << flag;
    EXPECT_EQ(result.out, "") << flag;
    EXPECT_TRUE(result.err.starts_with("rocmforge: HF_HUB_OFFLINE is set: someone/a-model-GGUF is not in the cache "))
        << result.err;
  }
  EXPECT_TRUE(run_program({"run", "-mu", "https://x/y.gguf"}).err.starts_with("rocmforge: there is no option -mu here: "));
}

TEST(CommandLine, TheLastOfARepeatedFlagCounts) {
  EXPECT_EQ(run_program({"inspect", "-b", "0", "-b", "1", "-b", "70000"}).err,
            "rocmforge: --batch is 70000, must be 1 to 65536\n");
  EXPECT_EQ(run_program({"run", "-f", "/nowhere.1", "-f", "/nowhere.2", "--raw", "--raw"}).err,
            "rocmforge: /nowhere.2: No such file or directory\n");
}

TEST(CommandLine, HelpSaysTheSameInThreeWays) {
  const std::string run = run_program({"run", "--help"}).out;
  EXPECT_EQ(run_program({"help", "run"}).out, run);
  EXPECT_EQ(run_program({"run", "-h"}).out, run);
  EXPECT_EQ(run_program({"help"}).out, run_program({"--help"}).out);
  EXPECT_EQ(run_program({"help", "bench", "step"}).out, run_program({"bench", "step", "--help"}).out);
}

TEST(CommandLine, HelpForProgramsNamesWhatHelpNames) {
  const json program = json::parse(run_program({"help", "--json"}).out);
  std::vector<std::string> names;
  for (const json& command : program.at("commands")) {
    names.push_back(command.at("name"));
    const std::string text = run_program({"help", names.back()}).out;
    for (const json& option : command.at("options")) {
      for (const std::string name : option.at("names")) {
        EXPECT_TRUE(text.find(name) != std::string::npos || !name.starts_with("--")) << name << " in " << text;
      }
      EXPECT_FALSE(option.at("meaning").get<std::string>().empty());
    }
    EXPECT_FALSE(command.at("examples").empty()) << names.back();
  }
  EXPECT_EQ(names, listed_commands());
  const json bench = json::parse(run_program({"help", "bench", "--json"}).out);
  EXPECT_EQ(bench.at("commands").size(), 3);
}

// A flag has the same meaning in every command, with a few exceptions.
TEST(CommandLine, AFlagHasTheSameLimitsInEveryCommand) {
  const json program = json::parse(run_program({"help", "--json"}).out);
  std::map<std::string, json> known;
  for (const json& command : program.at("commands")) {
    for (const json& option : command.at("options")) {
      const std::string name = option.at("names").back();
      const bool generates = command.at("name") == "run" || command.at("name") == "chat" || command.at("name") == "serve";
      const bool loads = option.value("group", "") == "Model" || option.value("group", "") == "Sampling";
      const bool differs = command.at("name") == "bench" && name == "--threads";
      if ((generates || loads) && !differs && command.at("name") != "perplexity") {
        json limits = option;
        limits.erase("meaning");
        const auto [found, is_new] = known.emplace(name, limits);
        EXPECT_EQ(found->second, limits) << command.at("name");
      }
    }
  }
  EXPECT_GT(known.size(), 40U);
}

TEST(CommandLine, AMissingModelSaysWhereItWasLookedFor) {
  const TemporaryFolder folder;
  const ProgramResult result =
      run_program({"inspect", "no-such-model"}, "", {"ROCMFORGE_MODELS_DIR=" + folder.path().string()});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_TRUE(
      result.err.starts_with("rocmforge: there is no model file 'no-such-model' here or in " + folder.path().string()))
      << result.err;
}

TEST(CommandLine, ABrokenFileIsOneLineAndExitCodeOne) {
  const TemporaryFolder folder;
  const std::string path = folder.write("broken.gguf", "GGUG and nothing more");
  for (const std::vector<std::string>& arguments :
       {std::vector<std::string>{"run", path, "-p", "hi"}, {"inspect", path}, {"tokenize", path, "x"}, {"bench", path}}) {
    const ProgramResult result = run_program(arguments);
    EXPECT_EQ(result.exit_code, 1) << arguments[0];
    EXPECT_EQ(result.out, "") << arguments[0];
    EXPECT_TRUE(result.err.starts_with("rocmforge: " + path + ": ")) << result.err;
    EXPECT_EQ(result.err.find('\n'), result.err.size() - 1) << result.err;
  }
}

}  // namespace
}  // namespace rocmforge
