#include "commands/kl_divergence.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <numeric>
#include <string_view>

#include "base/error.h"

namespace rocmforge::app {
namespace {

constexpr std::string_view magic = "_logits_";
constexpr std::size_t head_words = 4;  ///< of a row, which are two floats
constexpr float most_below = 16.0f;    ///< the largest logit: what is smaller is cut off in a file

/// Words of a row: an even number of values behind the two floats.
std::size_t row_words(std::int32_t vocab) { return head_words + 2 * ((static_cast<std::size_t>(vocab) + 1) / 2); }

double log_sum(std::span<const float> logits, float largest) {
  return std::log(std::accumulate(logits.begin(), logits.end(), 0.0,
                                  [largest](double sum, float logit) { return sum + std::exp(logit - largest); }));
}

}  // namespace

LogitsWriter::LogitsWriter(const std::string& path, const LogitsHead& head)
    : path_(path), file_(path, std::ios::binary), row_(row_words(head.vocab), 0) {
  write(magic.data(), magic.size());
  for (const std::int32_t number : {head.context, head.vocab, head.chunks}) {
    write(&number, sizeof number);
  }
  write(head.tokens.data(), head.tokens.size() * sizeof(std::int32_t));
}

void LogitsWriter::write(const void* data, std::size_t bytes) {
  file_.write(static_cast<const char*>(data), static_cast<std::streamsize>(bytes));
  if (!file_) {
    throw Error(path_ + ": can't be written");
  }
}

void LogitsWriter::add(std::span<const float> logits) {
  const auto [least, most] = std::ranges::minmax(logits);
  const float lowest = std::max(least, most - most_below);
  const float numbers[] = {(most - lowest) / 65535.0f, static_cast<float>(lowest - most - log_sum(logits, most))};
  std::memcpy(row_.data(), numbers, sizeof numbers);
  const float steps = numbers[0] > 0.0f ? 1.0f / numbers[0] : 0.0f;
  std::ranges::transform(logits, row_.begin() + head_words, [&](float logit) {
    return static_cast<std::uint16_t>(std::lrint(std::clamp((logit - lowest) * steps, 0.0f, 65535.0f)));
  });
  write(row_.data(), row_.size() * sizeof(std::uint16_t));
}

void LogitsWriter::finish() {
  file_.close();
  if (!file_) {
    throw Error(path_ + ": can't be written");
  }
}

LogitsReader::LogitsReader(const std::string& path) : path_(path), file_(path, std::ios::binary) {
  char start[magic.size()] = {};
  read(start, sizeof start);
  if (std::string_view(start, sizeof start) != magic) {
    throw Error(path + ": no file of log probabilities, which --kl-divergence-base writes");
  }
  for (std::int32_t* number : {&head_.context, &head_.vocab, &head_.chunks}) {
    read(number, sizeof *number);
  }
  std::error_code problem;
  const std::uintmax_t size = std::filesystem::file_size(path, problem);
  if (problem || head_.context < 4 || head_.vocab < 1 || head_.chunks < 1 ||
      static_cast<std::uintmax_t>(head_.context) * static_cast<std::uintmax_t>(head_.chunks) > size / sizeof(std::int32_t)) {
    throw Error(path + ": its sizes of chunks and of the vocabulary are impossible");
  }
  head_.tokens.resize(static_cast<std::size_t>(head_.context) * static_cast<std::size_t>(head_.chunks));
  read(head_.tokens.data(), head_.tokens.size() * sizeof(std::int32_t));
  if (row_words(head_.vocab) > size / sizeof(std::uint16_t)) {
    throw Error(path + ": is cut off");
  }
  row_.resize(row_words(head_.vocab));
  log_probabilities_.resize(static_cast<std::size_t>(head_.vocab));
}

void LogitsReader::read(void* to, std::size_t bytes) {
  if (!file_.read(static_cast<char*>(to), static_cast<std::streamsize>(bytes))) {
    throw Error(path_ + (file_.is_open() ? ": is cut off" : ": can't be read"));
  }
}

std::span<const float> LogitsReader::next() {
  read(row_.data(), row_.size() * sizeof(std::uint16_t));
  float numbers[2] = {};
  std::memcpy(numbers, row_.data(), sizeof numbers);
  std::ranges::transform(row_.begin() + head_words, row_.begin() + head_words + head_.vocab, log_probabilities_.begin(),
                         [&](std::uint16_t steps) { return numbers[1] + numbers[0] * static_cast<float>(steps); });
  return log_probabilities_;
}

void Divergence::add(std::span<const float> base_log_probabilities, std::span<const float> logits) {
  const float most = std::ranges::max(logits);
  const double sum = log_sum(logits, most);
  double divergence = 0.0;
  for (std::size_t i = 0; i < logits.size(); ++i) {
    const double base = base_log_probabilities[i];
    if (base > -most_below) {  // what is smaller may have been cut off: its true probability is unknown
      divergence += std::exp(base) * (base - (static_cast<double>(logits[i] - most) - sum));
    }
  }
  rows_.push_back(divergence);
  same_top_ += std::ranges::max_element(base_log_probabilities) - base_log_probabilities.begin() ==
                       std::ranges::max_element(logits) - logits.begin()
                   ? 1
                   : 0;
}

Divergence::Summary Divergence::summary() const {
  Summary summary;
  std::vector<double> sorted = rows_;
  std::ranges::sort(sorted);
  const auto count = static_cast<double>(sorted.size());
  const auto at = [&](double share) { return sorted[static_cast<std::size_t>(share * (count - 1.0))]; };
  summary.mean = std::accumulate(sorted.begin(), sorted.end(), 0.0) / count;
  const double squares = std::accumulate(sorted.begin(), sorted.end(), 0.0, [&](double total, double row) {
    return total + (row - summary.mean) * (row - summary.mean);
  });
  summary.error = sorted.size() > 1 ? std::sqrt(squares / (count - 1.0) / count) : 0.0;
  summary.median = at(0.5);
  summary.p90 = at(0.9);
  summary.p99 = at(0.99);
  summary.largest = sorted.back();
  summary.same_top = static_cast<double>(same_top_) / count;
  return summary;
}

nlohmann::ordered_json Divergence::json() const {
  const Summary found = summary();
  return {{"mean", found.mean}, {"error", found.error}, {"median", found.median},    {"p90", found.p90},
          {"p99", found.p99},   {"max", found.largest}, {"same_top", found.same_top}};
}

std::string Divergence::text() const {
  const Summary found = summary();
  return fmt::format(
      "KL divergence: mean {:.6f} +/- {:.6f}, median {:.6f}, 90 % {:.6f}, 99 % {:.6f}, largest {:.6f}\n"
      "Same most likely token: {:.3f} %\n",
      found.mean, found.error, found.median, found.p90, found.p99, found.largest, 100.0 * found.same_top);
}

}  // namespace rocmforge::app
