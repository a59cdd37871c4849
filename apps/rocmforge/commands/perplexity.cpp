#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/json.h"
#include "bench/step_runner.h"
#include "command.h"
#include "commands/kl_divergence.h"
#include "commands/local_model.h"
#include "commands/pull_model.h"
#include "engine/load_tokenizer.h"
#include "flags.h"
#include "terminal/progress.h"
#include "terminal/text.h"
#include "usage_error.h"

namespace rocmforge::app {
namespace {

struct PerplexityFlags {
  ModelArgument model;
  std::string file;
  std::int32_t context = 512;
  std::int32_t chunks = -1;
  bool json = false;
  std::string base;  ///< file of log probabilities: written, or with `compares` read; "": none
  bool compares = false;
  EngineFlags engine;
};

/// What is done with the logits of each row, beside its likelihood.
struct LogitsUse {
  std::optional<LogitsWriter> writer{};
  std::optional<LogitsReader> reader{};
  Divergence divergence{};

  void take(std::span<const float> logits) {
    if (writer) {
      writer->add(logits);
    }
    if (reader) {
      divergence.add(reader->next(), logits);
    }
  }
};

/// Negative log likelihood of tokens, summed in double.
struct Likelihood {
  double sum = 0.0;
  double sum_of_squares = 0.0;
  std::int64_t count = 0;

  void add(double value) {
    sum += value;
    sum_of_squares += value * value;
    ++count;
  }
  [[nodiscard]] double perplexity() const { return std::exp(sum / static_cast<double>(count)); }
  /// The standard error of perplexity(): that of the mean, propagated through the exponential.
  [[nodiscard]] double error() const {
    if (count < 2) {
      return 0.0;
    }
    const double mean = sum / static_cast<double>(count);
    const double variance = std::max(0.0, sum_of_squares / static_cast<double>(count) - mean * mean);
    return perplexity() * std::sqrt(variance / static_cast<double>(count - 1));
  }
};

/// -log softmax(logits)[token]. The maximum is subtracted first, against overflow.
double surprise(std::span<const float> logits, std::int32_t token) {
  const float largest = *std::max_element(logits.begin(), logits.end());
  double sum = 0.0;
  for (const float logit : logits) {
    sum += std::exp(logit - largest);
  }
  return std::log(sum) - static_cast<double>(logits[static_cast<std::size_t>(token)] - largest);
}

/// Scores the second half of a chunk: the logits at positions context/2 to context - 2 predict the token after them.
void score_chunk(StepRunner& runner, std::span<const std::int32_t> chunk, std::int32_t batch, std::size_t vocab,
                 Likelihood& likelihood, LogitsUse& use) {
  const auto context = static_cast<std::int32_t>(chunk.size());
  const std::int32_t first = context / 2;
  runner.prefill(0, chunk.first(static_cast<std::size_t>(first)), 0);
  for (std::int32_t begin = first; begin < context - 1; begin += batch) {
    const auto tokens =
        chunk.subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(std::min(batch, context - 1 - begin)));
    const std::span<const float> logits = runner.all_logits(0, tokens, begin);
    for (std::size_t row = 0; row < tokens.size(); ++row) {
      const std::span<const float> own = logits.subspan(row * vocab, vocab);
      likelihood.add(surprise(own, chunk[static_cast<std::size_t>(begin) + row + 1]));
      use.take(own);
    }
  }
}

/// The text in consecutive chunks of `context` tokens, each of which begins with BOS if the model adds one.
std::vector<std::int32_t> read_chunks(const PerplexityFlags& flags, const std::string& model) {
  const std::string text = read_text(flags.file);
  const auto tokenizer = load_tokenizer(GgufFile(model));
  if (tokenizer == nullptr) {
    throw Error(model + ": the file has no tokenizer");
  }
  std::vector<std::int32_t> tokens = tokenizer->encode(text, {});
  const auto context = static_cast<std::size_t>(flags.context);
  const std::size_t whole = tokens.size() / context;
  if (whole == 0) {
    throw UsageError(fmt::format("{}: the text has {} tokens, one chunk takes {}; -c sets the size of a chunk", flags.file,
                                 tokens.size(), flags.context));
  }
  tokens.resize(context * (flags.chunks > 0 ? std::min(whole, static_cast<std::size_t>(flags.chunks)) : whole));
  for (std::size_t first = 0; tokenizer->adds_bos() && first < tokens.size(); first += context) {
    tokens[first] = tokenizer->vocabulary().bos;
  }
  return tokens;
}

/// Scores all chunks, and shows the perplexity so far after each: as text unless the output is JSON, and as progress unless
/// that text goes to a terminal.
Likelihood score(Engine& engine, std::span<const std::int32_t> tokens, const PerplexityFlags& flags, std::int32_t batch,
                 std::vector<double>& running, LogitsUse& use) {
  const auto context = static_cast<std::size_t>(flags.context);
  const std::size_t chunks = tokens.size() / context;
  StepRunner runner(engine, 1, flags.context, batch);
  Likelihood likelihood;
  std::optional<Progress> progress;
  if (flags.json || isatty(STDOUT_FILENO) == 0) {
    progress.emplace(fmt::format("perplexity of {} chunks", chunks));
  }
  for (std::size_t chunk = 0; chunk < chunks; ++chunk) {
    score_chunk(runner, tokens.subspan(chunk * context, context), batch,
                static_cast<std::size_t>(engine.model().config().vocab), likelihood, use);
    running.push_back(likelihood.perplexity());
    if (progress.has_value()) {
      progress->update(static_cast<double>(chunk + 1) / static_cast<double>(chunks),
                       fmt::format("PPL {:.4f}", running.back()));
    }
    if (!flags.json) {
      fmt::print("[{}]{:.4f},", chunk + 1, running.back());
      std::fflush(stdout);
    }
  }
  return likelihood;
}

/// The chunks that the base's file has, as many as are wanted.
std::vector<std::int32_t> chunks_of_base(const LogitsHead& head, const PerplexityFlags& flags) {
  const std::int32_t chunks = flags.chunks > 0 ? std::min(flags.chunks, head.chunks) : head.chunks;
  return {head.tokens.begin(), head.tokens.begin() + std::int64_t{chunks} * head.context};
}

/// Throws UsageError where the flags do not say which text.
void check_text(const PerplexityFlags& flags) {
  if (!flags.compares && flags.file.empty()) {
    throw UsageError("--file is required, a text to predict");
  }
  if (flags.compares && (flags.base.empty() || !flags.file.empty())) {
    throw UsageError("--kl-divergence takes the text of the file that --kl-divergence-base names, and no --file");
  }
}

int perplexity(PerplexityFlags flags) {
  check_text(flags);
  EngineOptions options = flags.engine.options();
  const std::string path = find_model(flags.model, options);
  LogitsUse use;
  std::vector<std::int32_t> tokens;
  if (flags.compares) {
    use.reader.emplace(flags.base);
    flags.context = use.reader->head().context;
    flags.file = flags.base;
    tokens = chunks_of_base(use.reader->head(), flags);
  } else {
    tokens = read_chunks(flags, path);
  }
  options.context_length = flags.context;
  options.kv_tokens = StepRunner::cache_tokens(1, flags.context);
  options.max_sequences = 1;
  options.model.max_logit_rows = std::min(options.max_batch_tokens, flags.context - flags.context / 2);
  const auto engine = load_engine(path, options);
  const std::int32_t vocab = engine->model().config().vocab;
  if (use.reader && (use.reader->head().vocab != vocab ||
                     std::ranges::any_of(tokens, [vocab](std::int32_t token) { return token < 0 || token >= vocab; }))) {
    throw Error(
        fmt::format("{}: is of a model with {} tokens, {} has {}", flags.base, use.reader->head().vocab, path, vocab));
  }
  if (!flags.base.empty() && !flags.compares) {
    const auto chunks = static_cast<std::int32_t>(tokens.size() / static_cast<std::size_t>(flags.context));
    use.writer.emplace(flags.base, LogitsHead{flags.context, vocab, chunks, tokens});
  }
  std::vector<double> running;
  const Likelihood likelihood = score(*engine, tokens, flags, options.max_batch_tokens, running, use);
  if (use.writer) {
    use.writer->finish();
  }
  if (flags.json) {
    nlohmann::ordered_json result = {{"model", path},
                                     {"file", flags.file},
                                     {"context", flags.context},
                                     {"chunks", running.size()},
                                     {"scored_tokens", likelihood.count},
                                     {"perplexity", likelihood.perplexity()},
                                     {"error", likelihood.error()},
                                     {"running", running}};
    if (flags.compares) {
      result["kl_divergence"] = use.divergence.json();
    }
    print_json(result);
  } else {
    fmt::print("\nFinal estimate: PPL = {:.4f} +/- {:.4f}\n{}", likelihood.perplexity(), likelihood.error(),
               flags.compares ? use.divergence.text() : "");
  }
  return 0;
}

}  // namespace

Command perplexity_command() {
  auto flags = std::make_shared<PerplexityFlags>();
  Command command = {
      .name = "perplexity",
      .summary = "How well a model predicts a text",
      .notes =
          "The text is cut into chunks; each begins with BOS where the model adds one, and its second half is scored: "
          "the protocol of llama.cpp, so that its numbers compare. With --kl-divergence-base the probabilities of all "
          "tokens "
          "are kept in a file, and with --kl-divergence compared with those in it, in llama.cpp's form.",
      .examples = {"rocmforge perplexity model.gguf -f held-out.txt",
                   "rocmforge perplexity model.gguf -f held-out.txt -c 1024 --chunks 20 --json",
                   "rocmforge perplexity model.gguf -f held-out.txt --kl-divergence-base f16.kld",
                   "rocmforge perplexity model.gguf --kv-type q4_0 --kl-divergence --kl-divergence-base f16.kld"},
      .action = [flags] { return perplexity(*flags); }};
  add_model(command, flags->model);
  command.options.push_back(
      {.names = "-f,--file", .target = &flags->file, .meaning = "Text to predict; -: standard input", .value = "FILE"});
  command.options.push_back({.names = "--chunks",
                             .target = &flags->chunks,
                             .meaning = "Score only the first chunks",
                             .range = {.least = 1, .special = -1, .special_note = "all"}});
  command.options.push_back({.names = "--kl-divergence-base,--save-all-logits",
                             .target = &flags->base,
                             .meaning = "Keep the log probabilities of all tokens in this file",
                             .value = "FILE"});
  command.options.push_back({.names = "--kl-divergence",
                             .target = &flags->compares,
                             .meaning = "Compare with the log probabilities in that file, for its text"});
  command.options.push_back(json_option(flags->json));
  flags->engine.add_to(command);
  Option& context = command.option("--context");  // the size of a chunk
  context.target = &flags->context;
  context.meaning = "Tokens of a chunk";
  context.range = {.least = 4};
  return command;
}

}  // namespace rocmforge::app
