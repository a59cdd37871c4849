#include "check/check_report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "check/check_device.h"
#include "checks/merged_launches.h"
#include "checks/product_groups.h"
#include "kernels/register_all.h"
#include "terminal/text.h"

namespace rocmforge::app {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t longest_text = 60'000;
constexpr std::size_t longest_detail = 400;

double ceiling(const CheckRun& run, const char* name) {
  return run.ceilings.is_object() ? run.ceilings.value(name, 0.0) : 0.0;
}

/// "412 (51 %)": a speed in units of `unit`, and its share of a ceiling. More than the ceiling comes from the caches.
std::string speed_text(double speed, double unit, double most) {
  if (speed <= 0.0) {
    return "";
  }
  const std::string share = most <= 0.0 ? "" : speed > most ? " (cache)" : fmt::format(" ({:.0f} %)", 100.0 * speed / most);
  return fmt::format("{:.{}f}{}", speed / unit, speed / unit < 10.0 ? 2 : 0, share);
}

/// "device: AMD Radeon RX 7900 XTX (gfx1100)"
std::string machine_lines(const CheckRun& run) {
  std::string text;
  for (const auto& [key, value] : run.machine.items()) {
    const std::string shown = value.is_string() ? value.get<std::string>() : value.dump();
    text += shown.empty() ? "" : fmt::format("{}: {}\n", key, shown);
  }
  if (run.sensors.is_object()) {
    for (const auto& [key, value] : run.sensors.items()) {
      const auto shown = value.get<std::string>();
      text += shown.empty() ? "" : fmt::format("sensors {}: {}\n", key, shown);
    }
  }
  const double reads = ceiling(run, "read_bytes_per_second");
  const double copies = ceiling(run, "copy_bytes_per_second");
  const double products = ceiling(run, "matrix_flops_per_second");
  text += reads > 0.0 ? fmt::format("memory: reads {:.0f} GB/s", reads / 1e9) : "";
  text += copies > 0.0 ? fmt::format(", copies {:.0f} GB/s (read and written)", copies / 1e9) : "";
  text += products > 0.0 ? fmt::format("; F16 products {:.1f} TFLOP/s", products / 1e12) : "";
  return text + (reads > 0.0 ? "\n" : "");
}

std::string failure_line(const CaseReport& one) {
  std::string detail = one.detail.substr(0, longest_detail);
  std::ranges::replace(detail, '\n', ' ');
  std::string verdict(name(one.verdict));
  std::ranges::transform(verdict, verdict.begin(),
                         [](char letter) { return letter >= 'a' ? char(letter - 'a' + 'A') : letter; });
  const std::string spec = one.spec.empty() ? "" : fmt::format(" ({})", one.spec);
  return fmt::format("{}: {} {}{}, {}: {}\n", verdict, one.operation, one.kernel, spec, one.shape, detail);
}

/// "time: making inputs 12.0 s, computing what is expected 20.1 s, ..."
std::string phases_line(const CheckRun& run) {
  std::vector<std::string> parts;
  const PhaseSeconds phases = run.phases();
  for (std::size_t i = 0; i < phases.size(); ++i) {
    parts.push_back(fmt::format("{} {:.1f} s", name(static_cast<CheckPhase>(i)), phases[i]));
  }
  return fmt::format("time: {}\n", fmt::join(parts, ", "));
}

std::string header_of(const CheckRun& run) {
  std::string text = machine_lines(run);
  text += fmt::format("result: {} calls of {} kernels in {:.0f} s: {}\n", run.cases.size(), kernels_of(run).size(),
                      run.seconds, summary_of(run));
  text += phases_line(run);
  return text + (run.stopped.empty() ? "" : fmt::format("stopped: {}\n", run.stopped));
}

Table kernel_table(const CheckRun& run) {
  Table table({"operation", "kernel", ">right", ">elements", ">largest error", ">GB/s", ">TFLOP/s", "result"});
  for (const KernelSummary& one : kernels_of(run)) {
    const std::string result(one.failure != nullptr ? name(one.failure->verdict) : one.right > 0 ? "right" : "not checked");
    table.add({one.operation, one.kernel, fmt::format("{}/{}", one.right, one.cases), fmt::format("{}", one.elements),
               one.right > 0 ? fmt::format("{:.1e}", one.error) : "",
               speed_text(one.bytes_per_second, 1e9, ceiling(run, "read_bytes_per_second")),
               speed_text(one.flops_per_second, 1e12, ceiling(run, "matrix_flops_per_second")), result});
  }
  return table;
}

std::string printed(const Table& table) {
  std::string text;
  char* memory = nullptr;
  std::size_t size = 0;
  if (std::FILE* stream = open_memstream(&memory, &size)) {
    table.print(stream, true);
    std::fclose(stream);
    text.assign(memory, size);
    std::free(memory);
  }
  return text;
}

}  // namespace

std::vector<KernelSummary> kernels_of(const CheckRun& run) {
  std::vector<KernelSummary> kernels;
  for (const CaseReport& one : run.cases) {
    auto found = std::ranges::find_if(
        kernels, [&](const KernelSummary& known) { return known.operation == one.operation && known.kernel == one.kernel; });
    if (found == kernels.end()) {
      kernels.push_back({.operation = one.operation, .kernel = one.kernel});
      found = kernels.end() - 1;
    }
    ++found->cases;
    found->elements += one.elements;
    if (one.verdict == CaseVerdict::right) {
      ++found->right;
      found->error = std::max(found->error, one.error);
      if (one.seconds > 0.0) {
        found->bytes_per_second = std::max(found->bytes_per_second, one.bytes / one.seconds);
        found->flops_per_second = std::max(found->flops_per_second, one.flops / one.seconds);
      }
    } else if (one.failed() && found->failure == nullptr) {
      found->failure = &one;
    }
  }
  return kernels;
}

std::vector<AvoidedKernel> failed_kernels(const CheckRun& run) {
  std::vector<AvoidedKernel> failed;
  for (const KernelSummary& one : kernels_of(run)) {
    if (one.failure != nullptr && !is_device_check(one.operation)) {
      failed.push_back({one.operation, one.kernel,
                        fmt::format("{} with {}, {}", name(one.failure->verdict), one.failure->spec, one.failure->shape)});
    }
  }
  return failed;
}

std::optional<MergedLaunches> merged_launches_of(const CheckRun& run) {
  std::int64_t right = 0;
  double seconds = 0.0;
  double apart = 0.0;
  bool all_reached = true;
  for (const CaseReport& one : run.cases) {
    if (one.operation != merged_launches_operation) {
      continue;
    }
    if (one.failed()) {
      return MergedLaunches{false, fmt::format("{} with {}", name(one.verdict), one.shape)};
    }
    all_reached = all_reached && one.verdict != CaseVerdict::not_reached;
    right += one.verdict == CaseVerdict::right ? 1 : 0;
    seconds += one.seconds;
    apart += one.seconds_apart;
  }
  if (right == 0 || !all_reached) {
    return std::nullopt;
  }
  return MergedLaunches{seconds <= apart,
                        fmt::format("right, layers take {:.1f} us in place of {:.1f}", seconds * 1e6, apart * 1e6)};
}

std::optional<double> product_groups_of(const CheckRun& run) {
  constexpr double worth_a_change = 0.99;
  const std::span<const double> choices = product_group_choices();
  std::vector<double> seconds;  // by choice, as product_group_cases() has them
  for (const CaseReport& one : run.cases) {
    if (one.operation == product_groups_operation) {
      seconds.push_back(one.verdict == CaseVerdict::right ? one.seconds : 0.0);
    }
  }
  if (seconds.size() != choices.size() || std::ranges::find(seconds, 0.0) != seconds.end()) {
    return std::nullopt;
  }
  const auto best = std::ranges::min_element(seconds);
  return *best < worth_a_change * seconds[0] ? choices[static_cast<std::size_t>(best - seconds.begin())] : choices[0];
}

std::string summary_of(const CheckRun& run) {
  std::vector<std::string> parts = {fmt::format("{} right", run.count(CaseVerdict::right))};
  for (const CaseVerdict verdict :
       {CaseVerdict::wrong, CaseVerdict::hung, CaseVerdict::crashed, CaseVerdict::skipped, CaseVerdict::not_reached}) {
    const std::int64_t count = run.count(verdict);
    if (count > 0 || verdict == CaseVerdict::wrong || verdict == CaseVerdict::hung) {
      parts.push_back(fmt::format("{} {}", count, name(verdict)));
    }
  }
  return fmt::format("{}", fmt::join(parts, ", "));
}

std::string screen_report(const CheckRun& run) {
  std::string text = header_of(run);
  for (const KernelSummary& one : kernels_of(run)) {
    text += one.failure != nullptr ? failure_line(*one.failure) : "";
  }
  return text + "\n" + printed(kernel_table(run));
}

std::string text_report(const CheckRun& run) {
  std::string text = "Report of `rocmforge check`. Nothing was sent.\n\n";
  std::string header = header_of(run);
  text += "```\n" + header;
  std::size_t left_out = 0;
  for (const CaseReport& one : run.cases) {
    if (one.failed()) {
      const std::string line = failure_line(one);
      text.size() + line.size() < longest_text / 2 ? void(text += line) : void(++left_out);
    }
  }
  text += left_out > 0 ? fmt::format("and {} more\n", left_out) : "";
  text += "```\n\n" + printed(kernel_table(run)) + "\n";
  left_out = 0;
  text += "| call | us | GB/s | TFLOP/s | error |\n|---|---:|---:|---:|---:|\n";
  for (const CaseReport& one : run.cases) {
    if (one.verdict != CaseVerdict::right || one.seconds <= 0.0) {
      continue;
    }
    const std::string apart =
        one.seconds_apart > 0.0 ? fmt::format(" ({:.1f} with a launch each)", one.seconds_apart * 1e6) : "";
    const std::string line =
        fmt::format("| {} {} {}, {} | {:.1f}{} | {} | {} | {:.1e} |\n", one.operation, one.kernel, one.spec, one.shape,
                    one.seconds * 1e6, apart, speed_text(one.bytes / one.seconds, 1e9, 0.0),
                    speed_text(one.flops / one.seconds, 1e12, 0.0), one.error);
    text.size() + line.size() < longest_text ? void(text += line) : void(++left_out);
  }
  return text + (left_out > 0 ? fmt::format("\n{} more calls are in the JSON report.\n", left_out) : "");
}

Json json_report(const CheckRun& run) {
  Json cases = Json::array();
  for (const CaseReport& one : run.cases) {
    cases.push_back({{"operation", one.operation},
                     {"kernel", one.kernel},
                     {"spec", one.spec},
                     {"shape", one.shape},
                     {"verdict", name(one.verdict)},
                     {"detail", one.detail},
                     {"oracle", one.oracle},
                     {"elements", one.elements},
                     {"error", one.error},
                     {"seconds", one.seconds},
                     {"seconds_apart", one.seconds_apart},
                     {"bytes", one.bytes},
                     {"flops", one.flops},
                     {"phase_seconds", one.phases}});
  }
  Json failed = Json::array();
  for (const AvoidedKernel& one : failed_kernels(run)) {
    failed.push_back({{"operation", one.operation}, {"kernel", one.kernel}, {"reason", one.reason}});
  }
  return {{"machine", run.machine}, {"ceilings", run.ceilings},      {"sensors", run.sensors},
          {"seconds", run.seconds}, {"phase_seconds", run.phases()}, {"summary", summary_of(run)},
          {"stopped", run.stopped}, {"right", !run.failed()},        {"failed_kernels", failed},
          {"calls", cases}};
}

}  // namespace rocmforge::app
