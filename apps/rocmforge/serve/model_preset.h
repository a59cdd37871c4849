#pragma once

#include <string>
#include <vector>

namespace rocmforge::app {

/// A line "key = value" of a preset.
struct PresetValue {
  std::string key;  ///< without dashes
  std::string value;
  int line = 0;
};

struct PresetSection {
  std::string name;
  int line = 0;
  std::vector<PresetValue> values{};
};

/// The models of a preset, llama-server's file for several models: sections [NAME], whose keys are long options. A section
/// [*] has values for all others. Lines that begin with ; or # say nothing. Reads at most 1 MiB. Throws UsageError with
/// "FILE:LINE: " in front.
struct ModelPreset {
  std::string path;
  PresetSection common;
  std::vector<PresetSection> models{};

  static ModelPreset read(const std::string& path);
  /// The place of a mistake: "FILE:LINE".
  [[nodiscard]] std::string place(int line) const;
};

}  // namespace rocmforge::app
