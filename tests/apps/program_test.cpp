#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "apps/one_screen.h"
#include "apps/program.h"
#include "paths.h"

namespace rocmforge {
namespace {

using nlohmann::json;

/// Commands on the demo model; every run is greedy, so the answers are known.
class DemoProgram : public testing::Test {
 protected:
  void SetUp() override {
    if (!has_demo_model()) {
      GTEST_SKIP() << demo_model() << " is absent";
    }
  }

  /// Runs a command that must succeed.
  static ProgramResult run(const std::vector<std::string>& arguments, const std::string& input = "") {
    ProgramResult result = run_program(arguments, input);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return result;
  }
  static json run_json(const std::vector<std::string>& arguments, const std::string& input = "") {
    return json::parse(run(arguments, input).out);
  }
  static std::string model() { return demo_model().string(); }
};

TEST_F(DemoProgram, RunAnswersAndPrintsStatistics) {
  const ProgramResult result = run({"run", "-p", "What is 127 + 458?", "--greedy"});
  EXPECT_EQ(result.out, "585\n");
  for (const char* piece : {" prompt tokens, ", " generated, ", " tok/s", " GB/s of weights", "; stop; peak memory ",
                            "(file ", "KV cache ", "repacked ", "workspace "}) {
    EXPECT_NE(result.err.find(piece), std::string::npos) << piece << " is not in " << result.err;
  }
}

TEST(Program, AnEncoderWritesNoText) {
  const std::string file = test::test_data("golden/models/encoders/eurobert.gguf");
  const std::string line =
      "rocmforge: " + file +
      ": the model (eurobert) is an encoder and writes no text; 'rocmforge serve' gives its embeddings\n";
  for (const std::vector<std::string>& command :
       {std::vector<std::string>{"run", file, "-p", "hi"}, {"chat", file}, {"bench", file}, {"bench", "step", file}}) {
    const ProgramResult result = run_program(command, "hi\n");
    EXPECT_EQ(result.exit_code, 1);
    EXPECT_TRUE(result.err.ends_with(line)) << result.err;  // bench may warn of a long context before
  }
}

TEST_F(DemoProgram, RunTakesThePromptFromAFileOrAPipe) {
  const TemporaryFolder folder;
  const std::string file = folder.write("prompt.txt", "What is 20 + 30?");
  EXPECT_EQ(run({"run", "-f", file, "--greedy"}).out, "50\n");
  EXPECT_EQ(run({"run", "-f", "-", "--greedy"}, "What is 20 + 30?").out, "50\n");
  EXPECT_EQ(run({"run", "-p", "-", "--greedy"}, "What is 20 + 30?").out, "50\n");
}

TEST_F(DemoProgram, ImagesAreRefusedInOneLine) {
  const TemporaryFolder folder;
  const std::string text = folder.write("notes.png", "no image");
  const std::string image = test::test_data("golden/images/rgb.png");
  const auto refusal = [](const std::string& file, std::vector<std::string> more = {}) {
    std::vector<std::string> arguments = {"run", "--no-mmproj", "-i", file, "-p", "What is this?"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const ProgramResult result = run_program(arguments);
    EXPECT_NE(result.exit_code, 0);
    return result.err;
  };
  EXPECT_EQ(refusal("missing.png"), "rocmforge: missing.png: there is no such file\n");
  EXPECT_NE(refusal(text).find("notes.png: the image is of an unknown format; read are "), std::string::npos);
  EXPECT_EQ(refusal(image), "rocmforge: the model reads text alone and can't see images\n");
  EXPECT_NE(refusal(image, {"--raw"}).find("--image"), std::string::npos);
  const ProgramResult chat = run_program({"chat", "--greedy", "--no-mmproj"}, "/image " + image + "\nWhat is 20 + 30?\n");
  EXPECT_EQ(chat.out, "50\n");
  EXPECT_NE(chat.err.find("(the model reads text alone and can't see images)"), std::string::npos) << chat.err;
}

TEST_F(DemoProgram, SeesTheImagesOfTheExamples) {
  const auto example = [](const std::string& name) { return test::source_path("examples/" + name + ".png"); };
  EXPECT_EQ(run({"run", "-i", example("seven"), "-p", "Which digit is this?", "--greedy"}).out, "7\n");
  EXPECT_EQ(run({"run", "-i", example("star"), "-p", "Which shape is this?", "--greedy"}).out, "star\n");
  const std::string typed = "/image " + example("heart") + "\nWhich shape is this?\nWhat is 20 + 30?\n";
  EXPECT_EQ(run({"chat", "--greedy"}, typed).out, "heart\n50\n");
}

TEST_F(DemoProgram, RunTakesModelAndPromptByTheirPlaces) {
  const std::string question = "What is 20 + 30?";
  EXPECT_EQ(run({"run", model(), question, "--greedy"}).out, "50\n");
  EXPECT_EQ(run({"run", "-m", model(), question, "--greedy"}).out, "50\n");
  EXPECT_EQ(run({"run", question, "--greedy", "--model", model()}).out, "50\n");
  EXPECT_EQ(run({"run", "forge-demo", "--greedy"}, question).out, "50\n") << "a pipe needs no flag";
  EXPECT_EQ(run({"run", "-p", "What is 1 + 1?", "-p", question, "--temp", "1", "--temp", "0"}).out, "50\n")
      << "the last of a repeated flag counts";
  EXPECT_EQ(run({"tokenize", "-m", model(), "Hello"}).out, run({"tokenize", model(), "Hello"}).out);
  const ProgramResult no_model = run_program({"run", question});
  EXPECT_EQ(no_model.exit_code, 2);
  EXPECT_NE(no_model.err.find("there is no model file 'What is 20 + 30?' here"), std::string::npos) << no_model.err;
}

TEST_F(DemoProgram, AnswersAreHeldToGrammarsAndSchemas) {
  const TemporaryFolder folder;
  const std::string grammar = "root ::= \"yes\" | \"no\"";
  const auto is_yes_or_no = [](const std::string& text) { return text == "yes\n" || text == "no\n"; };
  EXPECT_TRUE(is_yes_or_no(run({"run", "-p", "Hi", "--greedy", "--grammar", grammar}).out));
  EXPECT_TRUE(is_yes_or_no(run({"run", "-p", "Hi", "--greedy", "--grammar-file", folder.write("g.gbnf", grammar)}).out));
  EXPECT_TRUE(is_yes_or_no(run({"chat", "--greedy", "--grammar", grammar}, "Hi\n").out));
  const std::string schema = R"({"enum": ["red", "green"]})";
  for (const std::vector<std::string>& flags :
       {std::vector<std::string>{"--json-schema", schema}, {"--json-schema-file", folder.write("s.json", schema)}}) {
    std::vector<std::string> arguments = {"run", "-p", "Hi", "--greedy"};
    arguments.insert(arguments.end(), flags.begin(), flags.end());
    const json answer = run_json(arguments);
    EXPECT_TRUE(answer == "red" || answer == "green") << answer;
  }
}

TEST_F(DemoProgram, ReasoningStandsApartFromTheAnswer) {
  const std::string grammar = R"(root ::= "<think>\nwhy\n</think>\n\nso")", text = "<think>\nwhy\n</think>\n\nso";
  const std::string shown = "Thinking...\nwhy\n...done thinking.\n\nso\n";
  EXPECT_EQ(run({"run", "-p", "Hi", "--grammar", grammar}).out, shown);
  EXPECT_EQ(run({"chat", "--grammar", grammar}, "Hi\n").out, shown);
  EXPECT_EQ(run({"run", "--raw", "-p", "Hi", "--grammar", grammar}).out, text + "\n");
  const json answer = json::parse(run({"run", "--json", "-p", "Hi", "--grammar", grammar}).out);
  EXPECT_EQ(answer.at("text"), text);
  EXPECT_EQ(answer.at("reasoning_content").get<std::string>() + answer.at("content").get<std::string>(), "whyso");
}

TEST_F(DemoProgram, TemplatesGetVariables) {
  const TemporaryFolder folder;
  const std::string file = folder.write("t.jinja",
                                        "{% for m in messages %}{{ m.content }}{% endfor %}"
                                        "{% if enable_thinking is defined and not enable_thinking %} no thoughts{% endif %}"
                                        "{{ extra|default('') }}");
  const auto prompt_tokens = [&](std::vector<std::string> more) {
    std::vector<std::string> arguments = {"run", "-p", "Hi", "--greedy", "-n", "1", "--json", "--chat-template-file", file};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return run_json(arguments).at("prompt_tokens").get<int>();
  };
  const int plain = prompt_tokens({});
  EXPECT_EQ(prompt_tokens({"--think", "on"}), plain);
  EXPECT_GT(prompt_tokens({"--think", "off"}), plain);
  EXPECT_GT(prompt_tokens({"--chat-template-kwargs", R"({"extra": " and more of it"})"}), plain);
  const ProgramResult no_choice = run_program({"run", "-p", "Hi", "--think", "off", "--chat-format", "llama2"});
  EXPECT_EQ(no_choice.exit_code, 2);
  EXPECT_NE(no_choice.err.find("--think: the chat template of "), std::string::npos) << no_choice.err;
  const ProgramResult no_server = run_program({"serve", "--port", "0", "--think", "off", "--chat-format", "llama2"});
  EXPECT_EQ(no_server.exit_code, 2);
  EXPECT_NE(no_server.err.find("--think: the chat template of llama2 has no such choice"), std::string::npos)
      << no_server.err;
}

TEST_F(DemoProgram, TheFileRecommendsHowTokensAreDrawn) {
  const TemporaryFolder folder;
  const std::string greedy = copy_of_demo_model(folder, {{"general.sampling.temp", 0.0f}});
  const std::vector<std::string> story = {"run", greedy, "Tell me a short story.", "-n", "24"};
  const auto with = [&](const std::vector<std::string>& more) {
    std::vector<std::string> arguments = story;
    arguments.insert(arguments.end(), more.begin(), more.end());
    return run(arguments).out;
  };
  EXPECT_EQ(with({}), with({"--greedy"}));
  EXPECT_NE(with({"--temp", "2", "--top-k", "0", "--min-p", "0", "--seed", "7"}), with({})) << "flags go over it";
  const TemporaryFolder other;
  const std::string wrong = copy_of_demo_model(other, {{"general.sampling.top_p", 1.5f}});
  const ProgramResult result = run_program({"run", wrong, "Hi"});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_EQ(result.err, "rocmforge: " + wrong + ": general.sampling.top_p is 1.5, must be 0 to 1\n");
}

TEST_F(DemoProgram, RunJsonTellsWhatHappened) {
  const json out = run_json({"run", "-p", "What is 127 + 458?", "--greedy", "--json", "-n", "2"});
  EXPECT_EQ(out.at("text"), "58");
  EXPECT_EQ(out.at("finish_reason"), "length");
  EXPECT_EQ(out.at("generated_tokens"), 2);
  EXPECT_GT(out.at("prompt_tokens"), 10);
  EXPECT_GT(out.at("memory").at("peak_bytes"), 0);
  EXPECT_EQ(out.at("memory").at("file_bytes"), std::filesystem::file_size(demo_model()));
  EXPECT_GT(out.at("memory").at("kv_cache_bytes"), 0);
}

TEST_F(DemoProgram, StopStringsEndTheAnswerWithoutThem) {
  const json out =
      run_json({"run", "-p", "How do you spell butterfly?", "--greedy", "--json", "--stop", "nothing", "--stop", "-t"});
  EXPECT_EQ(out.at("text"), "b-u");
  EXPECT_EQ(out.at("finish_reason"), "stop");
}

TEST_F(DemoProgram, TheSeedDecidesTheAnswer) {
  const auto story = [](const char* seed) {
    return run({"run", "-p", "Tell me a short story.", "--temp", "1.5", "-n", "24", "--seed", seed}).out;
  };
  const std::string first = story("7");
  EXPECT_EQ(first, story("7"));
  EXPECT_NE(first, story("8"));
}

TEST_F(DemoProgram, LogitBiasForbidsAToken) {
  const json ids = run_json({"tokenize", model(), "5", "--json", "--no-special"}).at("ids");
  ASSERT_EQ(ids.size(), 1);
  const std::string bias = ids[0].dump() + "=-inf";
  const std::string out = run({"run", "-p", "What is 127 + 458?", "--greedy", "--logit-bias", bias}).out;
  EXPECT_EQ(out.find('5'), std::string::npos) << out;
  const ProgramResult wrong = run_program({"run", "-p", "hi", "--logit-bias", "99999999=1"});
  EXPECT_EQ(wrong.exit_code, 2);
  EXPECT_EQ(wrong.err, "rocmforge: --logit-bias: 99999999 is no token, the vocabulary has 4096\n");
}

TEST_F(DemoProgram, RawContinuesTheText) {
  const json chat = run_json({"run", "-p", "Once upon a time", "--greedy", "--json", "-n", "4"});
  const json raw = run_json({"run", "-p", "Once upon a time", "--greedy", "--json", "-n", "4", "--raw"});
  EXPECT_GT(chat.at("prompt_tokens"), raw.at("prompt_tokens"));
  EXPECT_EQ(raw.at("prompt_tokens"), run_json({"tokenize", model(), "Once upon a time", "--json"}).at("ids").size());
  const std::string marked = "<|im_start|>user\nHello<|im_end|>";
  EXPECT_EQ(run_json({"run", "-p", marked, "--greedy", "--json", "-n", "4", "--raw"}).at("prompt_tokens"),
            run_json({"tokenize", model(), marked, "--parse-special", "--json"}).at("ids").size());
}

TEST_F(DemoProgram, IgnoreEosGoesOnToTheLimit) {
  const json out = run_json({"run", "-p", "What is 1 + 2?", "--greedy", "--json", "--ignore-eos", "-n", "12"});
  EXPECT_EQ(out.at("generated_tokens"), 12);
  EXPECT_EQ(out.at("finish_reason"), "length");
}

TEST_F(DemoProgram, AFullContextIsSaid) {
  const std::vector<std::string> base = {"run", "-p", "Tell me a short story.", "--greedy", "--ignore-eos", "-c", "48"};
  const ProgramResult full = run(base);
  EXPECT_NE(full.err.find("rocmforge: the context of 48 tokens is full"), std::string::npos) << full.err;
  std::vector<std::string> shifting = base;
  shifting.insert(shifting.end(), {"--context-shift", "-n", "60"});
  const ProgramResult shifted = run(shifting);
  EXPECT_NE(shifted.err.find("older tokens were dropped"), std::string::npos) << shifted.err;
  EXPECT_NE(shifted.err.find("60 generated"), std::string::npos) << shifted.err;
}

TEST_F(DemoProgram, APromptLongerThanTheContextIsOneLine) {
  const ProgramResult result = run_program({"run", "-p", "What is 127 + 458?", "-c", "8"});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_EQ(result.out, "");
  EXPECT_EQ(result.err, "rocmforge: the prompt has 23 tokens, the context holds 8\n");
}

TEST_F(DemoProgram, AnyBytesAreAPrompt) {
  for (const std::string& prompt : {std::string("\xff\xfe\xc3"), std::string("{}"), std::string("%%"), std::string("[1,2]"),
                                    std::string("<|im_end|>"), std::string("-5 + 3")}) {
    const json out = run_json({"run", "-p", prompt, "--greedy", "--json", "-n", "2"});
    EXPECT_GE(out.at("generated_tokens"), 1) << prompt;
  }
}

TEST_F(DemoProgram, EveryInstructionSetAndReferenceKernelAnswersAlike) {
  for (const std::vector<std::string>& flags : std::vector<std::vector<std::string>>{{"--isa", "generic"},
                                                                                     {"--isa", "avx2"},
                                                                                     {"--isa", "avxvnni"},
                                                                                     {"--kv-type", "f32"},
                                                                                     {"--kv-type", "bf16"},
                                                                                     {"--kv-type", "q8_0"},
                                                                                     {"--attention", "reference"},
                                                                                     {"-t", "1"},
                                                                                     {"-b", "4"}}) {
    std::vector<std::string> arguments = {"run", "-p", "What is 127 + 458?", "--greedy"};
    arguments.insert(arguments.end(), flags.begin(), flags.end());
    EXPECT_EQ(run(arguments).out, "585\n") << flags[0] << " " << flags[1];
  }
}

TEST_F(DemoProgram, ThePlanTellsTimesOnACpu) {
  const json plan = run_json({"inspect", "--json", "--plan", "-t", "1"}).at("plan");
  for (const json& operation : plan.at("operations")) {
    EXPECT_GE(operation.at("seconds_at_least"), 0.0) << operation;
  }
  const std::string text = run({"inspect", "--plan", "-t", "1"}).out;
  EXPECT_NE(text.find("us at least"), std::string::npos) << text;
}

TEST_F(DemoProgram, AClosedOutputEndsQuietly) {
  const std::string command =
      test::program_path() + " run -p 'Tell me a short story.' --ignore-eos --greedy -n 200 2>&1 >/dev/full";
  FILE* pipe = popen(command.c_str(), "r");
  ASSERT_NE(pipe, nullptr);
  std::string said(4096, '\0');
  said.resize(fread(said.data(), 1, said.size(), pipe));
  const int status = pclose(pipe);
  EXPECT_EQ(WEXITSTATUS(status), 1);
  EXPECT_TRUE(said.ends_with("rocmforge: standard output can't be written\n")) << said;
  const std::string piped = "bash -c '" + test::program_path() + " tokenize forge-demo --json -f " +
                            test::test_data("data/demo_heldout.txt") + " | head -c 5; exit ${PIPESTATUS[0]}' 2>&1";
  pipe = popen(piped.c_str(), "r");
  ASSERT_NE(pipe, nullptr);
  said.assign(4096, '\0');
  said.resize(fread(said.data(), 1, said.size(), pipe));
  EXPECT_EQ(WEXITSTATUS(pclose(pipe)), 128 + 13);
  EXPECT_EQ(said.size(), 5) << said;
}

TEST_F(DemoProgram, ChatRemembersAndObeys) {
  const ProgramResult result = run({"chat", "--greedy"},
                                   "Hi, my name is Sara.\nWhat is my name?\n/retry\n/nonsense\n/clear\n"
                                   "\"\"\"\nWhat is 7 - 4?\n\"\"\"\nWhat is \\\n2 + 3?\n/exit\nWhat is 1 + 1?\n");
  EXPECT_TRUE(result.out.ends_with("\nYour name is Sara.\nYour name is Sara.\n3\n5\n")) << result.out;
  EXPECT_EQ(result.err, "(there is no command /nonsense; /help lists them)\n");
}

TEST_F(DemoProgram, ChatWritesALineOfJsonForEachAnswer) {
  const ProgramResult result = run({"chat", "--greedy", "--json"}, "What is 2 + 3?\n/clear\nWhat is 7 - 4?\n");
  EXPECT_EQ(result.err, "");
  std::vector<json> answers;
  std::istringstream lines(result.out);
  for (std::string line; std::getline(lines, line);) {
    answers.push_back(json::parse(line));
  }
  ASSERT_EQ(answers.size(), 3U) << result.out;
  EXPECT_EQ(answers[0].at("content"), "5");
  EXPECT_EQ(answers[0].at("finish_reason"), "stop");
  EXPECT_FALSE(answers[0].contains("reasoning_content"));
  for (std::size_t i = 1; i < answers.size(); ++i) {
    EXPECT_GT(answers[i].at("prompt_tokens"), answers[i - 1].at("prompt_tokens")) << "a line that begins with / is a prompt";
    EXPECT_GT(answers[i].at("generated_tokens"), 0);
  }
  const json thought =
      json::parse(run({"chat", "--json", "--greedy", "--grammar", R"(root ::= "<think>so</think>yes")"}, "Hi\n").out);
  EXPECT_EQ(thought.at("reasoning_content"), "so");
  EXPECT_EQ(thought.at("content"), "yes");
}

TEST_F(DemoProgram, ChatComputesAnEarlierTurnOnce) {
  const std::string out =
      run({"chat", "--greedy"}, "Hi, my name is Sara.\nWhat is my name?\nAnd what is 2 + 3?\n/stats\n").out;
  EXPECT_NE(out.find(" from the cache)"), std::string::npos) << out;
}

TEST_F(DemoProgram, ChatForgetsAfterClear) {
  const std::string out = run({"chat", "--greedy"}, "Hi, my name is Wilma.\n/clear\nWhat is my name?\n").out;
  EXPECT_EQ(out.find("Wilma.", out.find('\n')), std::string::npos) << out;
}

TEST_F(DemoProgram, TokenizeAndBack) {
  const json out = run_json({"tokenize", model(), "Hello <|im_end|> w\xc3\xb6rld", "--parse-special", "--json"});
  ASSERT_EQ(out.at("ids").size(), out.at("pieces").size());
  std::string ids;
  bool control = false;
  for (std::size_t i = 0; i < out.at("ids").size(); ++i) {
    ids += i == 0 ? "" : ",";
    ids += out.at("ids")[i].dump();
    control = control || out.at("pieces")[i] == "<|im_end|>";
  }
  EXPECT_TRUE(control) << out;
  EXPECT_EQ(run({"tokenize", model(), "--decode", ids}).out, "Hello <|im_end|> w\xc3\xb6rld\n");
  const json plain = run_json({"tokenize", model(), "<|im_end|>", "--json"});
  EXPECT_GT(plain.at("ids").size(), 1) << "control tokens in a user's text stay text";
  EXPECT_EQ(run_json({"tokenize", model(), "--json"}, "Hello").at("ids"),
            run_json({"tokenize", model(), "Hello", "--json"}).at("ids"));
  EXPECT_EQ(run_program({"tokenize", model(), "--decode", "4096"}).err, "rocmforge: --decode: 4096 is outside 0 to 4095\n");
}

TEST_F(DemoProgram, InspectShowsMetadataTensorsMemoryAndPlan) {
  const json out = run_json({"inspect", "--json", "--tensors", "--plan", "-c", "1000"});
  EXPECT_EQ(out.at("metadata").at("general.architecture"), "llama");
  EXPECT_EQ(out.at("metadata").at("tokenizer.ggml.tokens").at("length"), 4096);
  EXPECT_EQ(out.at("metadata").at("tokenizer.ggml.tokens").at("first").size(), 6);
  const std::int64_t layers = out.at("metadata").at("llama.block_count");
  const std::int64_t kv_heads = out.at("metadata").at("llama.attention.head_count_kv");
  const json& memory = out.at("memory");
  EXPECT_EQ(memory.at("kv_bytes"), 1000 * layers * 2 * kv_heads * 64 * 2);
  EXPECT_EQ(memory.at("total_bytes"), memory.at("weights_bytes").get<std::int64_t>() +
                                          memory.at("kv_bytes").get<std::int64_t>() +
                                          out.at("image_encoder").at("workspace_bytes").get<std::int64_t>());
  std::int64_t bytes = 0;
  for (const json& tensor : out.at("tensors")) {
    bytes += tensor.at("bytes").get<std::int64_t>();
  }
  EXPECT_GT(bytes, 0);
  EXPECT_LE(bytes, memory.at("weights_bytes"));
  bool attention = false;
  for (const json& operation : out.at("plan").at("operations")) {
    if (operation.at("operation") == "attention") {
      attention = true;
      EXPECT_GE(operation.at("refusals").size(), 1);
      EXPECT_EQ(operation.at("times"), layers);
      EXPECT_EQ(operation.at("kv_bytes_per_position"), 2 * kv_heads * 64 * 2);
    }
  }
  EXPECT_TRUE(attention);
  const std::string text = run({"inspect", "--plan", "--tensors"}).out;
  for (const char* piece :
       {"general.architecture = \"llama\"", "token_embd.weight", "per 1000 tokens", "not chosen, and why"}) {
    EXPECT_NE(text.find(piece), std::string::npos) << piece;
  }
}

TEST_F(DemoProgram, InspectFitsOnOneScreen) {
  const std::string text = run({"inspect", "--device", "cpu", "--kv-type", "f16"}).out;
  expect_one_screen(text);
  const json out = run_json({"inspect", "--device", "cpu", "--json"});
  const json& described = out.at("model");
  const json& metadata = out.at("metadata");
  ASSERT_EQ(described.at("attention").size(), 1u) << "all layers are alike";
  const json& attention = described.at("attention")[0];
  EXPECT_EQ(attention.at("layers"), metadata.at("llama.block_count"));
  EXPECT_EQ(attention.at("kv_heads"), metadata.at("llama.attention.head_count_kv"));
  EXPECT_EQ(described.at("active_parameters"), out.at("parameters"));
  ASSERT_EQ(out.at("devices").size(), 1u);
  EXPECT_EQ(out.at("devices")[0].at("kv_bytes_per_token"), out.at("memory").at("kv_bytes_per_token"));
  for (const char* piece : {"\narchitecture   llama\n", "\nattention      ", "\nfeed-forward   ", "per 1000 tokens in F16",
                            "\ncpu            fits, needs "}) {
    EXPECT_NE(text.find(piece), std::string::npos) << piece << " in " << text;
  }
  EXPECT_EQ(text.find("tokenizer.ggml"), std::string::npos) << "metadata are for --plan";
}

TEST_F(DemoProgram, DevicesAndFamiliesOfKernelsAreChosenByName) {
  const json cpu = run_json({"inspect", "--json", "--plan", "--attention", "cpu"}).at("plan");
  EXPECT_TRUE(cpu.at("attention").get<std::string>().starts_with("cpu_")) << cpu.at("attention");
  const ProgramResult unknown = run_program({"run", "-p", "hi", "--device", "abacus"});
  EXPECT_NE(unknown.exit_code, 0);
  EXPECT_NE(unknown.err.find("abacus"), std::string::npos) << unknown.err;
  const ProgramResult no_folder = run_program({"run", "-p", "hi", "--kernel-dir", "/nowhere"});
  EXPECT_NE(no_folder.err.find("/nowhere"), std::string::npos) << no_folder.err;
  const ProgramResult variable = run_program({"run", "-p", "hi"}, "", {"ROCMFORGE_KERNEL_DIR=/nowhere"});
  EXPECT_EQ(variable.err, no_folder.err);
}

TEST_F(DemoProgram, ForcedKernelsServe) {
  const json out = run_json({"inspect", "--json", "--plan", "--attention", "reference", "--matmul", "reference"});
  for (const json& operation : out.at("plan").at("operations")) {
    if (operation.at("weight_bytes") > 0 || operation.at("operation") == "attention") {
      EXPECT_EQ(operation.at("kernel"), "reference") << operation;
    }
  }
}

TEST_F(DemoProgram, KernelsAreMeasuredForProgramsToo) {
  const json matmul = run_json({"bench", "matmul", "--formats", "f32", "--shapes", "64x64", "--tokens", "1", "--json"});
  EXPECT_EQ(matmul.at("right"), true);
  ASSERT_FALSE(matmul.at("rows").empty());
  EXPECT_EQ(matmul.at("rows")[0].at("format"), "F32");
  EXPECT_GT(matmul.at("rows")[0].at("us"), 0.0);
  const json step = run_json({"bench", "step", "--depth", "8", "--json"});
  EXPECT_GT(step.at("tokens_per_second"), 0.0);
  EXPECT_FALSE(step.at("rows").empty());
  EXPECT_EQ(step.at("right"), true);
  EXPECT_TRUE(step.at("wrong").empty());
  EXPECT_NE(step.at("check").get<std::string>().find(" elements: right"), std::string::npos) << step.at("check");
}

TEST_F(DemoProgram, PerplexityFollowsTheProtocol) {
  const std::string text = test::test_data("data/demo_heldout.txt");
  const json out = run_json({"perplexity", "-f", text, "--chunks", "2", "--json"});
  EXPECT_EQ(out.at("chunks"), 2);
  EXPECT_EQ(out.at("scored_tokens"), 2 * 255);
  EXPECT_EQ(out.at("running").back(), out.at("perplexity"));
  EXPECT_GT(out.at("perplexity"), 1.5);
  EXPECT_LT(out.at("perplexity"), 3.5);
  EXPECT_GT(out.at("error"), 0.0);
  const std::string printed = run({"perplexity", model(), "-f", text, "--chunks", "2"}).out;
  EXPECT_TRUE(printed.starts_with("[1]")) << printed;
  EXPECT_NE(printed.find("\nFinal estimate: PPL = "), std::string::npos) << printed;
  const json pieces = run_json({"perplexity", "-f", text, "--chunks", "2", "--json", "-b", "100"});
  EXPECT_NEAR(pieces.at("perplexity"), out.at("perplexity"), 1e-4) << "the batch size changes nothing";
  EXPECT_EQ(run_json({"perplexity", "-f", text, "--chunks", "1", "-c", "65", "--json"}).at("scored_tokens"), 65 - 32 - 1);
  const TemporaryFolder folder;
  const std::string small = folder.write("small.txt", "too short");
  const ProgramResult wrong = run_program({"perplexity", "-f", small});
  EXPECT_EQ(wrong.exit_code, 2);
  EXPECT_TRUE(wrong.err.starts_with("rocmforge: " + small + ": the text has ")) << wrong.err;
}

TEST_F(DemoProgram, BenchMeasuresEveryTest) {
  const std::vector<std::string> arguments = {"bench",         "-p",  "16,32", "-n", "4",  "-pg", "8,2", "-d", "0,8",
                                              "--batch-sizes", "1,2", "-r",    "2",  "-t", "1",   "-o"};
  auto with_format = [&](const char* format) {
    std::vector<std::string> all = arguments;
    all.emplace_back(format);
    return run(all).out;
  };
  const json out = json::parse(with_format("json"));
  std::vector<std::string> tests;
  for (const json& row : out) {
    tests.push_back(row.at("test"));
    EXPECT_EQ(row.at("seconds").size(), 2);
    EXPECT_GT(row.at("tokens_per_second"), 0.0);
    EXPECT_GT(row.at("memory_gb_per_second"), 0.0);
    EXPECT_EQ(row.at("threads"), 1);
    EXPECT_EQ(row.at("prompt_tokens") == 0, row.at("weight_gb_per_second") > 0.0) << row;
  }
  EXPECT_EQ(tests, (std::vector<std::string>{"pp16", "pp32", "tg4", "tg4 x2", "pp8+tg2", "pp16 @ d8", "pp32 @ d8",
                                             "tg4 @ d8", "tg4 x2 @ d8", "pp8+tg2 @ d8"}));
  EXPECT_TRUE(with_format("csv").starts_with("model,path,"));
  EXPECT_EQ(run_json({"bench", "-p", "8", "-n", "0", "-r", "1", "--json"}).at(0).at("test"), "pp8");
  const std::string table = with_format("md");
  EXPECT_NE(table.find("| pp16 + "), 0);
  EXPECT_NE(table.find(" ± "), std::string::npos) << table;
  EXPECT_NE(table.find("memory is read at "), std::string::npos) << table;
}

TEST(Program, ModelsListsGoodAndBrokenFiles) {
  const TemporaryFolder folder;
  std::filesystem::copy_file(test::test_data("golden/models/qwen2.gguf"), folder.path() / "good.gguf");
  const std::string broken = folder.write("broken.gguf", "GGUF");
  ASSERT_FALSE(folder.write("other.txt", "no model").empty());
  const ProgramResult result = run_program({"models", folder.path().string(), "--json"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  const json rows = json::parse(result.out);
  ASSERT_EQ(rows.size(), 2);
  EXPECT_EQ(rows[0].at("path"), broken);
  EXPECT_TRUE(rows[0].contains("error"));
  EXPECT_EQ(rows[1].at("architecture"), "qwen2");
  EXPECT_EQ(rows[1].at("formats"), "F32 100 %");
  const ProgramResult table = run_program({"models", folder.path().string()});
  EXPECT_NE(table.out.find("broken: "), std::string::npos) << table.out;
  EXPECT_NE(table.out.find("qwen2"), std::string::npos) << table.out;
}

TEST(Program, ModelsLooksWhereOthersKeepThem) {
  const TemporaryFolder home;
  const std::string tiny = test::test_data("golden/models/qwen2.gguf");
  const std::filesystem::path snapshot = home.path() / ".cache/huggingface/hub/models--a--b/snapshots/1";
  const std::filesystem::path blobs = home.path() / ".cache/huggingface/hub/models--a--b/blobs";
  const std::filesystem::path studio = home.path() / ".lmstudio/models/a/b";
  std::filesystem::create_directories(snapshot);
  std::filesystem::create_directories(blobs);
  std::filesystem::create_directories(studio);
  std::filesystem::copy_file(tiny, blobs / "5eed");
  std::filesystem::create_symlink("../../blobs/5eed", snapshot / "from-the-hub.gguf");
  std::filesystem::copy_file(tiny, studio / "from-the-studio.gguf");
  const std::vector<std::string> environment = {"HOME=" + home.path().string(),
                                                "HF_HOME=", "HF_HUB_CACHE=", "HUGGINGFACE_HUB_CACHE=", "XDG_CACHE_HOME="};
  const json rows = json::parse(run_program({"models", "--json"}, "", environment).out);
  int seen = 0;
  for (const json& row : rows) {
    const std::string path = row.at("path");
    if (path.starts_with(home.path().string())) {
      ++seen;
      EXPECT_TRUE(row.contains("refused") || row.at("fits").is_boolean()) << row;
    }
  }
  EXPECT_EQ(seen, 2) << rows;
  const ProgramResult by_name = run_program({"inspect", "from-the-hub", "--json"}, "", environment);
  EXPECT_EQ(by_name.exit_code, 0) << by_name.err;
  EXPECT_EQ(json::parse(by_name.out).at("path"), (snapshot / "from-the-hub.gguf").string());
  EXPECT_NE(run_program({"models"}, "", environment).out.find("~/.lmstudio/models/a/b/from-the-studio.gguf"),
            std::string::npos);
}

TEST(Program, DevicesNamesProcessorMemoryAndKernels) {
  const ProgramResult result = run_program({"devices", "--json"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  const json out = json::parse(result.out);
  EXPECT_EQ(out.at("devices").at(0).at("kind"), "cpu");
  EXPECT_GT(out.at("devices").at(0).at("read_bytes_per_second"), 1e8);
  EXPECT_EQ(out.at("gpu_kernels"), !out.at("code_objects").empty());
  ASSERT_EQ(out.at("runtimes").size(), 2);
  for (const json& runtime : out.at("runtimes")) {
    EXPECT_NE(runtime.at("problem") == "", runtime.at("devices") == 0) << runtime;
  }
  for (const char* operation : {"embedding", "rms_norm", "matmul", "rope_append", "attention", "gated_activation"}) {
    EXPECT_GE(out.at("kernels").at(operation).size(), 2) << operation;
    EXPECT_EQ(out.at("kernels").at(operation).back().at("name"), "reference") << operation;
  }
  const std::string text = run_program({"devices"}).out;
  for (const char* line : {"\nhip     ", "\ncuda    ", "\ncode    "}) {
    EXPECT_NE(text.find(line), std::string::npos) << line << " in " << text;
  }
  const ProgramResult missing = run_program({"devices", "--kernel-dir", "/nowhere"});
  EXPECT_NE(missing.exit_code, 0);
  EXPECT_NE(missing.err.find("cannot read the kernel folder /nowhere: No such file"), std::string::npos) << missing.err;
}

}  // namespace
}  // namespace rocmforge
