#include "bench/bench_report.h"

#include <fmt/format.h>

#include <cmath>
#include <cstdio>
#include <numeric>

#include "base/json.h"
#include "terminal/text.h"

namespace rocmforge::app {
namespace {

double mean(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

/// The sample's standard deviation; 0 for a single value.
double standard_deviation(const std::vector<double>& values) {
  if (values.size() < 2) {
    return 0.0;
  }
  const double middle = mean(values);
  double sum = 0.0;
  for (const double value : values) {
    sum += (value - middle) * (value - middle);
  }
  return std::sqrt(sum / static_cast<double>(values.size() - 1));
}

double share_of_memory(const BenchResult& result) { return result.weight_gb_per_second / result.memory_gb_per_second; }

void print_markdown(const std::vector<BenchResult>& results) {
  Table table({"model", ">size", ">params", "backend", ">threads", ">test", ">t/s", ">GB/s", ">of memory", ">GMAC/s"});
  for (const BenchResult& result : results) {
    const auto speeds = result.tokens_per_second();
    const bool reads = result.weight_gb_per_second > 0.0;
    table.add({result.model, human_bytes(result.model_bytes), human_count(result.parameters), result.backend,
               fmt::format("{}", result.threads), result.test,
               fmt::format("{:.2f} ± {:.2f}", mean(speeds), standard_deviation(speeds)),
               reads ? fmt::format("{:.2f}", result.weight_gb_per_second) : "",
               reads ? fmt::format("{:.0f} %", 100.0 * share_of_memory(result)) : "",
               result.gmac_per_second > 0.0 ? fmt::format("{:.1f}", result.gmac_per_second) : ""});
  }
  table.print(stdout, true);
  for (std::size_t i = 0; i < results.size(); ++i) {
    if (i == 0 || results[i].threads != results[i - 1].threads) {
      fmt::print("\n{}, attention {}: memory is read at {:.2f} GB/s; weights that fit the caches can pass 100 %.\n",
                 results[i].device, results[i].attention, results[i].memory_gb_per_second);
    }
  }
}

nlohmann::ordered_json to_json(const BenchResult& result) {
  const auto speeds = result.tokens_per_second();
  return {{"model", result.model},
          {"path", result.path},
          {"model_bytes", result.model_bytes},
          {"parameters", result.parameters},
          {"backend", result.backend},
          {"device", result.device},
          {"attention", result.attention},
          {"threads", result.threads},
          {"test", result.test},
          {"prompt_tokens", result.prompt_tokens},
          {"generated_tokens", result.generated_tokens},
          {"depth", result.depth},
          {"sequences", result.sequences},
          {"tokens_per_second", mean(speeds)},
          {"tokens_per_second_deviation", standard_deviation(speeds)},
          {"weight_gb_per_second", result.weight_gb_per_second},
          {"memory_gb_per_second", result.memory_gb_per_second},
          {"share_of_memory", share_of_memory(result)},
          {"gmac_per_second", result.gmac_per_second},
          {"seconds", result.seconds}};
}

std::string csv_cell(const nlohmann::ordered_json& value) {
  if (!value.is_string()) {
    return value.dump();
  }
  std::string text = value;
  for (std::size_t at = 0; (at = text.find('"', at)) != std::string::npos; at += 2) {
    text.insert(at, 1, '"');
  }
  return fmt::format("\"{}\"", text);
}

void print_csv(const std::vector<BenchResult>& results) {
  for (std::size_t i = 0; i < results.size(); ++i) {
    auto row = to_json(results[i]);
    row.erase("seconds");
    std::vector<std::string> names;
    std::vector<std::string> cells;
    for (const auto& [name, value] : row.items()) {
      names.push_back(name);
      cells.push_back(csv_cell(value));
    }
    if (i == 0) {
      fmt::print("{}\n", fmt::join(names, ","));
    }
    fmt::print("{}\n", fmt::join(cells, ","));
  }
}

}  // namespace

std::vector<double> BenchResult::tokens_per_second() const {
  std::vector<double> speeds;
  for (const double time : seconds) {
    speeds.push_back((prompt_tokens + generated_tokens) * sequences / time);
  }
  return speeds;
}

void print_report(const std::vector<BenchResult>& results, const std::string& format) {
  if (format == "csv") {
    print_csv(results);
  } else if (format == "json") {
    auto out = nlohmann::ordered_json::array();
    for (const BenchResult& result : results) {
      out.push_back(to_json(result));
    }
    print_json(out);
  } else {
    print_markdown(results);
  }
}

}  // namespace rocmforge::app
