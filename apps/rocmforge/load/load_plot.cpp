#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "base/printable.h"
#include "load/load_report.h"
#include "terminal/text.h"

namespace rocmforge::app {
namespace {

constexpr double width = 900.0;
constexpr double panel_height = 160.0;
constexpr double margin = 70.0;
constexpr double gap = 50.0;
constexpr int bins = 120;

double top_of(int index) { return 60.0 + index * (panel_height + gap); }

std::string escaped(std::string_view text) {
  std::string result;
  for (const char letter : printable(text)) {
    switch (letter) {
      case '<':
        result += "&lt;";
        break;
      case '&':
        result += "&amp;";
        break;
      default:
        result += letter;
    }
  }
  return result;
}

/// A panel with its frame, its title and the largest value.
std::string panel(int index, std::string_view title, double most, double seconds) {
  const double top = top_of(index);
  return fmt::format(
      "<rect x=\"{0}\" y=\"{1}\" width=\"{2}\" height=\"{3}\" fill=\"none\" stroke=\"#999\"/>"
      "<text x=\"{0}\" y=\"{4}\">{5}</text>"
      "<text x=\"{6}\" y=\"{7}\" text-anchor=\"end\">{8:.4g}</text><text x=\"{6}\" y=\"{9}\" text-anchor=\"end\">0</text>"
      "<text x=\"{10}\" y=\"{11}\" text-anchor=\"end\">{12:.0f} s</text>\n",
      margin, top, width, panel_height, top - 8, title, margin - 6, top + 12, most, top + panel_height, margin + width,
      top + panel_height + 16, seconds);
}

double y_of(int index, double share) { return top_of(index) + panel_height * (1.0 - share); }

std::string line(int index, const std::vector<double>& values, double most, const char* colour) {
  std::string points;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double x = margin + width * (static_cast<double>(i) + 0.5) / static_cast<double>(values.size());
    points += fmt::format("{:.1f},{:.1f} ", x, y_of(index, values[i] / most));
  }
  return fmt::format("<polyline fill=\"none\" stroke=\"{}\" stroke-width=\"1.5\" points=\"{}\"/>\n", colour, points);
}

}  // namespace

std::string load_svg(const LoadRun& run) {
  const double bin_seconds = std::max(run.seconds, 1e-9) / bins;
  std::vector<double> tokens(bins);
  std::vector<double> active(bins);
  double slowest = 1e-9;
  const auto bin_of = [&](double time) { return std::clamp(static_cast<int>(time / bin_seconds), 0, bins - 1); };
  for (const LoadSample& sample : run.samples) {
    for (const double time : sample.pieces) {
      tokens[static_cast<std::size_t>(bin_of(time))] += 1.0 / bin_seconds;
    }
    for (int bin = bin_of(sample.start); bin <= bin_of(sample.end); ++bin) {
      active[static_cast<std::size_t>(bin)] += 1.0;
    }
    if (!sample.pieces.empty()) {
      slowest = std::max(slowest, sample.first_token_seconds());
    }
  }
  const double most_tokens = std::max(1.0, *std::ranges::max_element(tokens));
  const double most_active = std::max(1.0, *std::ranges::max_element(active));
  std::string svg = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {} {}\" font-family=\"sans-serif\" font-size=\"13\">\n"
      "<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n",
      width + 2 * margin, top_of(3));
  svg += fmt::format("<text x=\"{}\" y=\"24\" font-weight=\"bold\">{}</text>\n", margin,
                     escaped(fmt::format("{}: {}, prompts of {}, answers of {} tokens", run.target.model, run.arrivals,
                                         run.prompts, run.outputs)));
  svg += panel(0, "output tokens a second", most_tokens, run.seconds) + line(0, tokens, most_tokens, "#c2410c");
  svg += panel(1, "requests at work", most_active, run.seconds) + line(1, active, most_active, "#1d4ed8");
  svg +=
      panel(2, "seconds to the first token, by the time of the request (grey: the client has left)", slowest, run.seconds);
  for (const LoadSample& sample : run.samples) {
    if (!sample.pieces.empty()) {
      svg += fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"2\" fill=\"{}\"/>\n",
                         margin + width * std::min(1.0, sample.start / std::max(run.seconds, 1e-9)),
                         y_of(2, sample.first_token_seconds() / slowest), sample.dropped ? "#999" : "#15803d");
    }
  }
  return svg + "</svg>\n";
}

}  // namespace rocmforge::app
