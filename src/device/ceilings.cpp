#include "device/ceilings.h"

#include <fmt/format.h>

#include <fstream>
#include <locale>
#include <sstream>
#include <system_error>
#include <utility>
#include <vector>

#include "base/error.h"

namespace rocmforge {
namespace {

std::string key_of(const DeviceInfo& device) {
  return fmt::format("{} ({}, {} units{}{})", device.name, device.architecture_name(), device.compute_units,
                     device.pci_id.empty() ? "" : ", ", device.pci_id);
}

/// The device of a line, and its figures if all are positive.
std::pair<std::string, std::optional<Ceilings>> parse(const std::string& line) {
  const std::size_t tab = line.find('\t');
  std::pair<std::string, std::optional<Ceilings>> entry{line.substr(0, tab), std::nullopt};
  Ceilings ceilings;
  std::istringstream figures(tab == std::string::npos ? std::string() : line.substr(tab));
  figures.imbue(std::locale::classic());
  if (figures >> ceilings.read_bytes_per_second >> ceilings.copy_bytes_per_second >> ceilings.matrix_flops_per_second &&
      ceilings.read_bytes_per_second > 0.0 && ceilings.copy_bytes_per_second > 0.0 &&
      ceilings.matrix_flops_per_second > 0.0) {
    entry.second = ceilings;
  }
  return entry;
}

std::vector<std::string> lines_of(const std::filesystem::path& file) {
  std::vector<std::string> lines;
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);) {
    lines.push_back(line);
  }
  return lines;
}

}  // namespace

std::optional<Ceilings> CeilingCache::find(const DeviceInfo& device) const {
  const std::string key = key_of(device);
  for (const std::string& line : lines_of(file_)) {
    if (auto [name, ceilings] = parse(line); name == key) {
      return ceilings;
    }
  }
  return std::nullopt;
}

void CeilingCache::store(const DeviceInfo& device, const Ceilings& ceilings) const {
  const std::string key = key_of(device);
  std::string text;
  for (const std::string& line : lines_of(file_)) {
    if (const auto [name, known] = parse(line); known && name != key) {
      text += line + '\n';
    }
  }
  text += fmt::format("{}\t{:.6g}\t{:.6g}\t{:.6g}\n", key, ceilings.read_bytes_per_second, ceilings.copy_bytes_per_second,
                      ceilings.matrix_flops_per_second);
  std::error_code ignored;  // an error shows when the file is written
  std::filesystem::create_directories(file_.parent_path(), ignored);
  std::ofstream out(file_, std::ios::trunc);
  if (!(out << text) || !out.flush()) {
    throw Error(fmt::format("{}: can't be written", file_.string()));
  }
}

}  // namespace rocmforge
