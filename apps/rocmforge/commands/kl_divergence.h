#pragma once

#include <cstdint>
#include <fstream>
#include <span>
#include <string>
#include <vector>

#include "base/json.h"

namespace rocmforge::app {

/// What a file of log probabilities begins with.
struct LogitsHead {
  std::int32_t context = 0;  ///< tokens of a chunk
  std::int32_t vocab = 0;
  std::int32_t chunks = 0;
  std::vector<std::int32_t> tokens;  ///< [chunks, context]

  /// Rows of a chunk: its second half without the last token, which nothing follows.
  [[nodiscard]] std::int32_t rows() const { return context - 1 - context / 2; }
};

/// Writes the log probabilities of a model in the form of llama.cpp's perplexity (--kl-divergence-base): of each row the
/// step and the smallest value as floats, then 16-bit numbers of steps; what is 16 below the largest logit is cut off.
class LogitsWriter {
 public:
  /// Throws Error naming the file, as the other functions.
  LogitsWriter(const std::string& path, const LogitsHead& head);
  /// The next row, logits [vocab].
  void add(std::span<const float> logits);
  void finish();

 private:
  void write(const void* data, std::size_t bytes);

  std::string path_;
  std::ofstream file_;
  std::vector<std::uint16_t> row_;
};

class LogitsReader {
 public:
  /// Throws Error naming the file where it is none, or cut off.
  explicit LogitsReader(const std::string& path);
  [[nodiscard]] const LogitsHead& head() const { return head_; }
  /// The log probabilities [vocab] of the next row, until the next call.
  std::span<const float> next();

 private:
  void read(void* to, std::size_t bytes);

  std::string path_;
  std::ifstream file_;
  LogitsHead head_;
  std::vector<std::uint16_t> row_;
  std::vector<float> log_probabilities_;
};

/// How far distributions are from those of a base: sum of p_base (log p_base - log p) of each row, over tokens whose p_base
/// is above e^-16 (as llama.cpp sums it): what is smaller may be cut off in the base's file.
class Divergence {
 public:
  void add(std::span<const float> base_log_probabilities, std::span<const float> logits);
  /// Mean, standard error, percentiles, and the share of rows with the same most likely token.
  [[nodiscard]] nlohmann::ordered_json json() const;
  [[nodiscard]] std::string text() const;

 private:
  struct Summary {
    double mean = 0.0, error = 0.0, median = 0.0, p90 = 0.0, p99 = 0.0, largest = 0.0, same_top = 0.0;
  };
  [[nodiscard]] Summary summary() const;

  std::vector<double> rows_;
  std::int64_t same_top_ = 0;
};

}  // namespace rocmforge::app
