// Options and environment variables of llama.cpp's programs and of Ollama.
#include "options/foreign_options.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "apps/program.h"
#include "paths.h"

namespace rocmforge::app {
namespace {

std::vector<std::string> lines_of(const std::string& name) {
  std::ifstream file(test::source_path("tests/apps/" + name));
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) {
    lines.push_back(line);
  }
  return lines;
}

/// The names of the options of the commands that people use in place of llama-cli and llama-server.
std::set<std::string> own_names() {
  const auto help = nlohmann::json::parse(run_program({"help", "--json"}).out);
  std::set<std::string> names = {"-h", "--help", "--version"};
  for (const auto& command : help.at("commands")) {
    const std::string name = command.at("name");
    for (const auto& option : command.at("options")) {
      if ((name == "run" || name == "chat" || name == "serve") && option.contains("names")) {
        names.insert(option.at("names").begin(), option.at("names").end());
      }
    }
  }
  return names;
}

TEST(ForeignOptions, EveryOptionThatPeopleTypeIsKnown) {
  const std::set<std::string> own = own_names();
  const std::vector<std::string> typed = lines_of("peer_options.txt");
  EXPECT_GT(typed.size(), 400U);
  for (const std::string& name : typed) {
    const ForeignOption* option = find_foreign_option(name);
    EXPECT_TRUE(own.contains(name) || option != nullptr) << name;
    EXPECT_FALSE(own.contains(name) && option != nullptr && option->kind != ForeignOption::Kind::same) << name;
    if (option != nullptr) {
      EXPECT_FALSE(option->text.empty()) << name;
      EXPECT_TRUE(option->kind != ForeignOption::Kind::same || own.contains(std::string(option->text))) << name;
    }
  }
  EXPECT_EQ(find_foreign_option("--no-such-option"), nullptr);
  EXPECT_EQ(find_foreign_option(""), nullptr);
}

TEST(ForeignOptions, EveryVariableThatPeopleSetIsKnown) {
  const std::set<std::string> own = own_names();
  const std::vector<std::string> set = lines_of("peer_variables.txt");
  EXPECT_GT(set.size(), 150U);
  for (const std::string& name : set) {
    const ForeignOption* option = find_foreign_variable(name);
    ASSERT_NE(option, nullptr) << name;
    EXPECT_FALSE(option->text.empty()) << name;
    EXPECT_TRUE(option->kind != ForeignOption::Kind::same || own.contains(std::string(option->text))) << name;
  }
  EXPECT_EQ(find_foreign_variable("LLAMA_ARG_NOTHING"), nullptr);
}

TEST(ForeignOptions, WhatDoesNotExistIsOneLineThatSaysWhatThereIs) {
  const std::map<std::vector<std::string>, std::string> lines = {
      {{"-ncmoe", "-10"}, "--n-cpu-moe is -10, must be -1 to 100000"},
      {{"-ncffn", "10"}, "there is no option -ncffn here: --gpu-layers and --cpu-moe say what the CPU computes"},
      {{"-mg", "1"}, "there is no option -mg here: a model runs on the GPUs of this host that --device names"},
      {{"--flash-attn=off"}, "there is no option --flash-attn here: attention is always fused"},
      {{"-fa", "off"}, "there is no option -fa here: attention is always fused"},
      {{"-ngl", "x"}, "--gpu-layers is x, must be auto, all or 0 to"},
      {{"--n-gpu-layers", "x"}, "--gpu-layers is x, must be auto, all or 0 to"},
      {{"-ctk", "q4_k"}, "--cache-type-k is q4_k, must be f32, f16, bf16, q8_0, q5_1, q5_0, q4_1, q4_0 or iq4_nl"},
      {{"--temperature", "3"}, "--temp is 3, must be 0 to 2"},
      {{"--temperature"}, "--temperature needs a value"},
      {{"-nkvo"}, "there is no option -nkvo here: the KV cache lies where the model runs"},
      {{"-tb", "4"}, "there is no option -tb here: --threads sets the threads of all work"},
      {{"-hfd", "x/y"}, "there is no option -hfd here: a draft model (--draft-model) runs with the options"},
      {{"--spec-type", "ngram-mod"}, "there is no option --spec-type here: --draft-ngram, --draft-model and --mtp say what"},
      {{"--timeout", "5"}, "there is no option --timeout here: it is --request-timeout, which run does not have"},
      {{"-nxyz"}, "there is no option -nxyz (see rocmforge run --help)"},
      {{"-temp", "1"}, "there is no option -temp; did you mean --temp? (see rocmforge run --help)"},
      {{"-pq"}, "there is no option -pq (see rocmforge run --help)"},
      {{"-n-5"}, "--max-tokens is -5, must be at least 1, or -1 for no limit"},
  };
  for (const auto& [words, message] : lines) {
    std::vector<std::string> arguments = {"run", "-p", "hi"};
    arguments.insert(arguments.end(), words.begin(), words.end());
    const ProgramResult result = run_program(arguments);
    EXPECT_EQ(result.exit_code, 2) << message;
    EXPECT_TRUE(result.err.starts_with("rocmforge: " + message)) << result.err;
    EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
  }
}

TEST(ForeignOptions, VariablesAreTakenBehindOptions) {
  const auto error = [](std::vector<std::string> arguments, const std::string& variable) {
    return run_program(arguments, "", {variable}).err;
  };
  EXPECT_EQ(error({"run", "-p", "hi"}, "LLAMA_ARG_TOP_P=7"), "rocmforge: LLAMA_ARG_TOP_P: --top-p is 7, must be 0 to 1\n");
  EXPECT_TRUE(error({"run", "-p", "hi", "--top-p", "8"}, "LLAMA_ARG_TOP_P=7").starts_with("rocmforge: --top-p is 8"));
  EXPECT_EQ(error({"run", "-p", "hi", "--greedy", "-m", "none"}, "LLAMA_ARG_TEMPERATURE=9").find("LLAMA_ARG"),
            std::string::npos)
      << "--greedy excludes --temp";
  EXPECT_TRUE(error({"serve"}, "OLLAMA_HOST=http://[::1]:99999/").starts_with("rocmforge: OLLAMA_HOST: --port is 99999"));
  EXPECT_TRUE(error({"serve"}, "LLAMA_ARG_PORT=x").starts_with("rocmforge: LLAMA_ARG_PORT: --port is x"));
  EXPECT_TRUE(error({"serve"}, "OLLAMA_NUM_PARALLEL=0").starts_with("rocmforge: OLLAMA_NUM_PARALLEL: --parallel is 0"));
  EXPECT_TRUE(error({"serve", "no-such-model"}, "OLLAMA_LOAD_TIMEOUT=5m")
                  .starts_with("rocmforge: OLLAMA_LOAD_TIMEOUT has no effect: a request waits for its model"));
  EXPECT_TRUE(error({"serve"}, "OLLAMA_KEEP_ALIVE=soon").starts_with("rocmforge: --keep-alive: 'soon' is no time"));
  EXPECT_TRUE(
      error({"serve"}, "OLLAMA_MAX_LOADED_MODELS=-1").starts_with("rocmforge: OLLAMA_MAX_LOADED_MODELS: --models-max is"));
  EXPECT_EQ(run_program({"run", "-p", "hi", "-m", "no-such-model"}, "", {"LLAMA_ARG_MODEL=other"}).err.find("other"),
            std::string::npos);
  EXPECT_NE(error({"run", "-p", "hi"}, "LLAMA_ARG_MODEL=no-such-model").find("no-such-model"), std::string::npos);
}

TEST(ForeignOptions, WhatIsAlwaysSoIsTakenWithANote) {
  if (!has_demo_model()) {
    GTEST_SKIP() << "models/forge-demo.gguf is missing";
  }
  const std::string model = demo_model().string();
  const std::vector<std::string> own = {"run", model, "What is 20 + 30?", "--greedy", "-n", "8", "--device", "cpu"};
  std::vector<std::string> peer = own;
  for (const char* word : {"-ngl", "99", "-fa", "on", "--jinja", "--no-warmup", "-ctk", "f16", "-ctv", "f16", "-s", "7"}) {
    peer.emplace_back(word);
  }
  const ProgramResult result = run_program(peer);
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(result.out, run_program(own).out);
  for (const char* note : {"rocmforge: -fa is not needed: ", "rocmforge: --jinja is not needed: "}) {
    EXPECT_NE(result.err.find(note), std::string::npos) << result.err;
  }
}

TEST(EmptyArguments, AreEmpty) {
  EXPECT_EQ(run_program({"inspect", ""}).err, "rocmforge: MODEL is empty (see rocmforge inspect --help)\n");
  EXPECT_EQ(run_program({"run", "-m", "", "hi"}).err, "rocmforge: --model is empty (see rocmforge run --help)\n");
  EXPECT_EQ(run_program({"run", "-p", "hi", "--stop", ""}).err, "rocmforge: --stop: the text is empty\n");
  if (!has_demo_model()) {
    GTEST_SKIP() << "models/forge-demo.gguf is missing";
  }
  const std::string model = demo_model().string();
  const auto ids = [&](const std::vector<std::string>& arguments) {
    const ProgramResult result = run_program(arguments);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return nlohmann::json::parse(result.out).at("ids");
  };
  EXPECT_EQ(ids({"tokenize", model, "", "--json", "--no-special"}).size(), 0U);
  EXPECT_EQ(ids({"tokenize", "-m", model, "", "--json", "--no-special"}).size(), 0U);
  const auto prompt_tokens = [&](const std::vector<std::string>& prompt) {
    std::vector<std::string> arguments = {"run", model, "--json", "--greedy", "-n", "4", "--device", "cpu"};
    arguments.insert(arguments.begin() + 2, prompt.begin(), prompt.end());
    const ProgramResult result = run_program(arguments);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return nlohmann::json::parse(result.out).at("prompt_tokens").get<int>();
  };
  EXPECT_EQ(prompt_tokens({""}), prompt_tokens({"-p", ""}));
  EXPECT_LT(prompt_tokens({""}), prompt_tokens({"PROMPT"}));
}

}  // namespace
}  // namespace rocmforge::app
