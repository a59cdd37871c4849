#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "models/model.h"

namespace rocmforge::app {

/// Which kernel serves each operation, why not the others, and the bytes it moves in a step that decodes one token. Layers
/// that are served alike share a line. With the speed at which the device reads its memory, also the time that takes at
/// least.
void print_plan(const Model& model, const DeviceInfo& device, std::optional<double> bytes_per_second);
nlohmann::ordered_json plan_json(const Model& model, std::optional<double> bytes_per_second);

/// The names of the attention kernels: "flash + paged".
std::string attention_kernels(const Model& model);

/// Bytes a second that the device was measured to read: a processor with that many threads now, which takes a second; a GPU
/// by an earlier `bench matmul`, empty when it never was.
std::optional<double> read_ceiling(const DeviceInfo& device, int threads);

}  // namespace rocmforge::app
