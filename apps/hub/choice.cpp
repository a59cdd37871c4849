#include "hub/choice.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <limits>
#include <map>
#include <string_view>
#include <utility>

#include "base/ascii.h"
#include "base/error.h"
#include "base/printable.h"

namespace rocmforge::hub {
namespace {

/// The approximate number of bits per weight in files of this quant.
struct QuantBits {
  std::string_view quant;
  double bits;
};
constexpr auto quant_bits = std::to_array<QuantBits>({
    {"F32", 32.0},   {"F16", 16.0},    {"BF16", 16.0},     {"Q8_0", 8.5},    {"Q8_K_XL", 9.3}, {"Q6_K", 6.6},
    {"Q6_K_L", 6.7}, {"Q6_K_XL", 6.9}, {"Q5_0", 5.5},      {"Q5_1", 6.0},    {"Q5_K", 5.7},    {"Q5_K_S", 5.5},
    {"Q5_K_M", 5.7}, {"Q5_K_L", 5.8},  {"Q5_K_XL", 5.8},   {"Q4_0", 4.6},    {"Q4_1", 5.1},    {"Q4_K", 4.9},
    {"Q4_K_S", 4.6}, {"Q4_K_M", 4.9},  {"Q4_K_L", 5.0},    {"Q4_K_XL", 5.0}, {"IQ4_XS", 4.4},  {"IQ4_NL", 4.6},
    {"MXFP4", 4.3},  {"NVFP4", 4.5},   {"MXFP4_MOE", 4.4}, {"Q3_K", 3.9},    {"Q3_K_S", 3.5},  {"Q3_K_M", 3.9},
    {"Q3_K_L", 4.2}, {"Q3_K_XL", 4.0}, {"IQ3_M", 3.7},     {"IQ3_S", 3.5},   {"IQ3_XS", 3.3},  {"IQ3_XXS", 3.1},
    {"Q2_K", 3.2},   {"Q2_K_L", 3.3},  {"Q2_K_XL", 3.3},   {"IQ2_M", 2.7},   {"IQ2_XXS", 2.1}, {"IQ1_M", 1.8},
});

/// Also accepts quants that the table lacks: Q, IQ or TQ, a digit, and '_'.
bool is_quant(std::string_view text) {
  if (std::ranges::find(quant_bits, text, &QuantBits::quant) != quant_bits.end()) {
    return true;
  }
  text.remove_prefix(text.starts_with("IQ") || text.starts_with("TQ") ? 1 : 0);
  return text.size() >= 3 && text[0] == 'Q' && text[1] >= '1' && text[1] <= '8' && text[2] == '_';
}

/// The difference between a quant and the default in bits per weight; -1 for the default itself.
double distance(std::string_view quant) {
  quant.remove_prefix(quant.starts_with("UD-") ? 3 : 0);
  const auto bits = [](std::string_view wanted) {
    const auto* found = std::ranges::find(quant_bits, wanted, &QuantBits::quant);
    return found == quant_bits.end() ? 0.0 : found->bits;
  };
  return quant == default_quant ? -1.0 : std::abs(bits(quant) - bits(default_quant));
}

bool is_part_number(std::string_view text) {
  return text.size() == 5 && std::ranges::all_of(text, [](char c) { return c >= '0' && c <= '9'; });
}

/// A model of the repository, in one file or several.
struct Candidate {
  std::string quant;
  int count = 1;
  std::map<int, std::string> parts;
};

/// By the name without part and ending, and the number of parts.
using Candidates = std::map<std::pair<std::string, int>, Candidate>;

Candidates candidates_of(const std::vector<std::string>& paths) {
  Candidates found;
  for (const std::string& path : paths) {
    const std::string name = path.substr(path.rfind('/') + 1);
    if (!path.ends_with(".gguf") || is_image_encoder(name) || name.starts_with("imatrix")) {
      continue;
    }
    const SplitName split = split_name(path);
    Candidate& candidate = found[{split.base, split.count}];
    candidate.quant = quant_of(split.base);
    candidate.count = split.count;
    candidate.parts[split.part] = path;
  }
  return found;
}

/// A few of them, for a message.
std::string list_of(const Candidates& candidates) {
  constexpr std::size_t most = 24;
  std::string list;
  std::size_t count = 0;
  for (const auto& [key, candidate] : candidates) {
    if (++count > most) {
      return list + fmt::format(" and {} more", candidates.size() - most);
    }
    list += (list.empty() ? "" : ", ") + printable(candidate.parts.begin()->second, 200);
  }
  return list;
}

std::vector<std::string> whole(const Candidate& candidate, const ModelName& name) {
  std::vector<std::string> files;
  for (const auto& [part, path] : candidate.parts) {
    if (part != static_cast<int>(files.size()) + 1) {
      break;
    }
    files.push_back(path);
  }
  if (static_cast<int>(files.size()) != candidate.count || files.size() != candidate.parts.size()) {
    throw Error(fmt::format("{}: of {}, part {} of {} is missing", name.title(),
                            printable(candidate.parts.begin()->second, 200), files.size() + 1, candidate.count));
  }
  return files;
}

std::vector<std::string> named_file(const Candidates& candidates, const ModelName& name) {
  for (const auto& [key, candidate] : candidates) {
    for (const auto& [part, path] : candidate.parts) {
      if (path == name.file) {
        return whole(candidate, name);
      }
    }
  }
  throw Error(fmt::format("{} has no file {}; there are {}", name.title(), name.file, list_of(candidates)));
}

/// The candidates of the quant `choice`; if that is empty, those nearest to the default.
Candidates best_of(const Candidates& candidates, const std::string& choice) {
  const std::string wanted = ascii_upper(choice);
  Candidates best;
  double least = std::numeric_limits<double>::infinity();
  for (const auto& entry : candidates) {
    const std::string& quant = entry.second.quant;
    if (!wanted.empty()) {
      if (quant == wanted) {
        best.insert(entry);
      }
      continue;
    }
    const double far = distance(quant);
    if (far < least) {
      best.clear();
      least = far;
    }
    if (far <= least) {
      best.insert(entry);
    }
  }
  return best;
}

}  // namespace

SplitName split_name(const std::string& file_name) {
  constexpr std::string_view ending = ".gguf";
  const std::string_view name =
      file_name.ends_with(ending) ? std::string_view(file_name).substr(0, file_name.size() - ending.size()) : file_name;
  constexpr std::string_view shape = "-00000-of-00000";
  if (name.size() > shape.size()) {
    const std::string_view tail = name.substr(name.size() - shape.size());
    if (tail[0] == '-' && is_part_number(tail.substr(1, 5)) && tail.substr(6, 4) == "-of-" &&
        is_part_number(tail.substr(10))) {
      return {std::string(name.substr(0, name.size() - shape.size())), std::stoi(std::string(tail.substr(1, 5))),
              std::stoi(std::string(tail.substr(10)))};
    }
  }
  return {std::string(name), 1, 1};
}

std::string quant_of(const std::string& base) {
  const std::string name = ascii_upper(base.substr(base.rfind('/') + 1));
  // The longest end of the name that is a quant and follows a separator: "Q4_K_M" and not the "K_M" in it.
  for (std::size_t begin = 0; begin < name.size(); ++begin) {
    const bool starts_word = begin == 0 || name[begin - 1] == '-' || name[begin - 1] == '.' || name[begin - 1] == '_';
    const std::string_view end = std::string_view(name).substr(begin);
    if (starts_word && end.find_first_of("-.") == std::string_view::npos && is_quant(end)) {
      const bool is_dynamic = std::string_view(name).substr(0, begin).ends_with("UD-");
      return (is_dynamic ? "UD-" : "") + std::string(end);
    }
  }
  return "";
}

std::vector<std::string> choose_files(const std::vector<std::string>& paths, const ModelName& name) {
  const Candidates candidates = candidates_of(paths);
  if (candidates.empty()) {
    throw Error(fmt::format("{} has no GGUF model among its {} files", name.title(), paths.size()));
  }
  if (!name.file.empty()) {
    return named_file(candidates, name);
  }
  const Candidates best = best_of(candidates, name.choice);
  if (best.empty()) {
    throw Error(fmt::format("{} has no {}; there are {}", name.title(), name.choice, list_of(candidates)));
  }
  if (best.size() > 1) {
    throw Error(fmt::format("{} has several files{}: name one as {}/FILE.gguf, of {}", name.title(),
                            name.choice.empty() ? "" : " of " + name.choice, name.repository, list_of(best)));
  }
  return whole(best.begin()->second, name);
}

bool is_image_encoder(const std::string& file_name) {
  return file_name.ends_with(".gguf") && ascii_upper(file_name).find("MMPROJ") != std::string::npos;
}

std::size_t encoder_rank(const std::string& path) {
  constexpr std::array<std::string_view, 3> best = {"F16", "BF16", "Q8_0"};
  const std::string quant = quant_of(split_name(path).base);
  const auto found = std::ranges::find(best, quant);
  return quant == "F32" ? best.size() + 1 : static_cast<std::size_t>(found - best.begin());
}

std::string choose_image_encoder(const std::vector<std::string>& paths) {
  std::string best;
  for (const std::string& path : paths) {
    if (is_image_encoder(path.substr(path.rfind('/') + 1)) &&
        (best.empty() || std::pair(encoder_rank(path), path) < std::pair(encoder_rank(best), best))) {
      best = path;
    }
  }
  return best;
}

}  // namespace rocmforge::hub
