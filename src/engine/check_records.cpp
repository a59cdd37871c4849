#include "engine/check_records.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <fstream>
#include <optional>
#include <system_error>
#include <utility>

#include "base/error.h"
#include "base/log.h"
#include "kernels/register_all.h"

namespace rocmforge {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr std::string_view extension = ".check.json";
constexpr std::uintmax_t largest_file = 1 << 20;
constexpr std::size_t most_files = 256;

/// FNV-1a, so that names of any length and content become file names.
std::uint64_t hash_of(const CheckedDevice& device) {
  std::uint64_t hash = 0xcbf29ce484222325u;
  for (const std::string* part :
       {&device.name, &device.architecture, &device.runtime, &device.driver, &device.kernels, &device.version}) {
    for (const char letter : *part + '\n') {
      hash = (hash ^ static_cast<unsigned char>(letter)) * 0x100000001b3u;
    }
  }
  return hash;
}

/// "gfx1100-0123456789abcdef.check.json"
std::string file_name_of(const CheckedDevice& device) {
  std::string architecture = device.architecture.substr(0, device.architecture.find(':'));
  std::erase_if(architecture, [](unsigned char letter) { return std::isalnum(letter) == 0; });
  return fmt::format("{}-{:016x}{}", architecture, hash_of(device), extension);
}

/// Throws a JSON exception where a member is missing or of another type.
CheckRecord record_of(const Json& json) {
  CheckRecord record{.device = {.name = json.at("device").get<std::string>(),
                                .architecture = json.at("architecture").get<std::string>(),
                                .runtime = json.at("runtime").get<std::string>(),
                                .driver = json.at("driver").get<std::string>(),
                                .kernels = json.at("kernels").get<std::string>(),
                                .version = json.at("version").get<std::string>()},
                     .date = json.at("date").get<std::string>(),
                     .summary = json.at("summary").get<std::string>(),
                     .avoided = {}};
  for (const Json& one : json.at("avoided")) {
    record.avoided.push_back(
        {one.at("operation").get<std::string>(), one.at("kernel").get<std::string>(), one.at("reason").get<std::string>()});
  }
  if (json.contains("merged_launches")) {
    const Json& merged = json.at("merged_launches");
    record.merged = {merged.at("pays").get<bool>(), merged.at("found").get<std::string>()};
  }
  if (json.contains("product_groups")) {
    record.product_groups = json.at("product_groups").get<double>();
    if (std::ranges::find(product_group_choices(), *record.product_groups) == product_group_choices().end()) {
      throw Error(fmt::format("there is no choice of {} work-groups a unit", *record.product_groups));
    }
  }
  return record;
}

std::optional<CheckRecord> read_record(const fs::path& path) {
  try {
    std::error_code failure;
    if (fs::file_size(path, failure) > largest_file || failure) {
      throw Error("it can't be read, or is too large");
    }
    std::ifstream file(path, std::ios::binary);
    return record_of(Json::parse(file));
  } catch (const std::exception& error) {
    log_warning("{} is not the result of a check and is not used: {}", path.string(), error.what());
    return std::nullopt;
  }
}

}  // namespace

nlohmann::ordered_json json_of(const CheckRecord& record, const char* summary) {
  Json avoided = Json::array();
  for (const AvoidedKernel& one : record.avoided) {
    avoided.push_back({{"operation", one.operation}, {"kernel", one.kernel}, {"reason", one.reason}});
  }
  Json json = {{"device", record.device.name},
               {"architecture", record.device.architecture},
               {"runtime", record.device.runtime},
               {"driver", record.device.driver},
               {"kernels", record.device.kernels},
               {"version", record.device.version},
               {"date", record.date},
               {summary, record.summary},
               {"avoided", avoided}};
  if (record.merged) {
    json["merged_launches"] = {{"pays", record.merged->pays}, {"found", record.merged->found}};
  }
  if (record.product_groups) {
    json["product_groups"] = *record.product_groups;
  }
  return json;
}

CheckedDevice checked_device(Device& device, std::string version) {
  return {.name = device.info().name,
          .architecture = device.info().architecture,
          .runtime = device.is_gpu() ? device.driver().runtime() : std::string(),
          .driver = device.info().kernel_driver,
          .kernels = device.kernels_hash(),
          .version = std::move(version)};
}

fs::path save_check_record(const fs::path& folder, const CheckRecord& record) {
  std::error_code failure;
  fs::create_directories(folder, failure);
  const fs::path path = folder / file_name_of(record.device);
  const fs::path unfinished = path.string() + ".part";
  {
    std::ofstream file(unfinished, std::ios::binary | std::ios::trunc);
    file << json_of(record).dump(2, ' ', false, Json::error_handler_t::replace) << '\n';
    file.close();
    if (!file) {
      throw Error(fmt::format("{}: can't be written", path.string()));
    }
  }
  fs::rename(unfinished, path, failure);
  if (failure) {
    throw Error(fmt::format("{}: can't be written: {}", path.string(), failure.message()));
  }
  return path;
}

std::vector<CheckRecord> read_check_records(const fs::path& folder) {
  std::vector<fs::path> paths;
  std::error_code failure;
  for (fs::directory_iterator entry(folder, failure), end; !failure && entry != end && paths.size() < most_files;
       entry.increment(failure)) {
    if (entry->path().filename().string().ends_with(extension)) {
      paths.push_back(entry->path());
    }
  }
  std::ranges::sort(paths);
  std::vector<CheckRecord> records;
  for (const fs::path& path : paths) {
    if (std::optional<CheckRecord> record = read_record(path)) {
      records.push_back(*std::move(record));
    }
  }
  return records;
}

std::optional<CheckRecord> find_check_record(const fs::path& folder, const CheckedDevice& device) {
  const fs::path path = folder / file_name_of(device);
  std::error_code ignored;
  if (folder.empty() || !fs::exists(path, ignored)) {
    return std::nullopt;
  }
  std::optional<CheckRecord> record = read_record(path);
  return record && record->device == device ? std::move(record) : std::nullopt;
}

void avoid_checked_kernels(const CheckRecord& record, KernelRegistry& registry) {
  if (record.avoided.empty()) {
    return;
  }
  std::vector<std::string> names;
  for (const AvoidedKernel& one : record.avoided) {
    names.push_back(fmt::format("{}:{} ({})", one.operation, one.kernel, one.reason));
    registry.avoid({one.operation, one.kernel, fmt::format("avoided since the check of {}: {}", record.date, one.reason)});
  }
  log_warning("kernels that the check of {} found wrong are not used: {}", record.date, fmt::join(names, ", "));
}

}  // namespace rocmforge
