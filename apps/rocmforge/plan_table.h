#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "models/model.h"

namespace rocmforge::app {

/// The kernel of each operation, why not the others, and the bytes that it moves in a decode step of one token. Equal layers
/// share a line. With the device's memory bandwidth, also the least time that this
/// takes.
void print_plan(const Model& model, const DeviceInfo& device, std::optional<double> bytes_per_second);
nlohmann::ordered_json plan_json(const Model& model, std::optional<double> bytes_per_second);

/// The names of the attention kernels: "flash + paged".
std::string attention_kernels(const Model& model);

/// The device's memory bandwidth in bytes a second: of a processor measured now with that many threads, which takes a
/// second; of a GPU by an earlier `bench matmul`, empty if there was none.
std::optional<double> read_ceiling(const DeviceInfo& device, int threads);

}  // namespace rocmforge::app
