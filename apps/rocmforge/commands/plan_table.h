#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "engine/plan_model.h"

namespace rocmforge::app {

/// Prints the kernel of each operation, the reasons against the others, and the bytes that it moves in a decode step of one
/// token. Equal layers share a line. With the device's memory bandwidth, also prints the least time of such a step.
void print_plan(const PlannedModel& planned, std::optional<double> bytes_per_second);
/// Where a model is split: the device, bytes and least time of each part. Else nothing.
void print_placement(const PlannedModel& planned);
/// The same of a model that is split.
nlohmann::ordered_json placement_json(const PlannedModel& planned);
/// Of each encoder that the model has, for images or recordings: its file, bytes (weights: of the file) and kernels.
void print_encoders(const PlannedModel& planned);
/// The same as members of `out`.
void add_encoders(const PlannedModel& planned, nlohmann::ordered_json& out);
/// The bytes of each rank, where several share the model.
/// How several devices share the model; where each has some of the layers, where each part lies, and the bytes of each
/// device.
void print_split(const PlannedModel& planned);
nlohmann::ordered_json split_json(const PlannedModel& planned);
void print_ranks(const PlannedModel& planned);
nlohmann::ordered_json ranks_json(const PlannedModel& planned);
nlohmann::ordered_json plan_json(const PlannedModel& planned, std::optional<double> bytes_per_second);

/// The names of the attention kernels: "flash + paged".
std::string attention_kernels(const Model& model);

/// The device's memory bandwidth in bytes per second. For a CPU it is measured now with `threads` threads, which takes a
/// second. For a GPU it is the result of an earlier `bench matmul`, or empty without one.
std::optional<double> read_ceiling(const DeviceInfo& device, int threads);

}  // namespace rocmforge::app
