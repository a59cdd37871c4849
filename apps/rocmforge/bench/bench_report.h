#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace rocmforge::app {

/// One line of the table.
struct BenchResult {
  std::string model;
  std::string path;
  std::uint64_t model_bytes = 0;
  std::uint64_t parameters = 0;
  std::string backend;    ///< "CPU", "HIP", "CUDA"
  std::string device;     ///< its description
  std::string attention;  ///< names of the attention kernels
  int threads = 0;
  std::string test;  ///< "pp512", "tg128", "pp512+tg128", "tg128 x8", with " @ d1024" for a depth
  std::int32_t prompt_tokens = 0;
  std::int32_t generated_tokens = 0;
  std::int32_t depth = 0;
  std::int32_t sequences = 1;
  std::vector<double> seconds;        ///< of each repetition
  double weight_gb_per_second = 0.0;  ///< weights read; 0 when the test is not bound by them
  double memory_gb_per_second = 0.0;  ///< the read bandwidth measured in this run
  double gmac_per_second = 0.0;       ///< multiply-adds with weights; 0 for pure generation

  [[nodiscard]] std::vector<double> tokens_per_second() const;
};

/// `format` is md, json or csv.
void print_report(const std::vector<BenchResult>& results, const std::string& format);

}  // namespace rocmforge::app
