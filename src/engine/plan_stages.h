#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "engine/engine.h"
#include "models/plan/choose_stages.h"

namespace rocmforge {

struct PlannedModel;

/// The least time of a step of one token of a model that several devices share: by the bytes that a device reads while
/// others wait for it, and the times that they wait for each other.
double split_seconds(const PlannedModel& planned, const EngineOptions& options);

/// The needs of the layers of `planned`, a plan of all on one device, for each device beside which the host has the parts of
/// `placement`. On a device whose memory is not known the layers lie as on one that has plenty.
StageNeeds stage_needs(const PlannedModel& planned, const Placement& placement, const PlacementOptions& options);

/// Divides the layers of `planned`, a plan of all on one device, among its devices: sets model_options.stage_ends, and lets
/// `plan` plan it anew with these.
void divide_layers(const PlannedModel& planned, const EngineOptions& options, ModelOptions& model_options,
                   const std::function<void()>& plan);

/// Decides how the devices of `planned` share the model, where the options leave it open by what takes the least time, and
/// plans it so: by calls of `plan`, of which the last one stays. Returns why, "as asked for", or "" where each layer was to
/// be shared. Throws Error for what can't be.
std::string choose_split(const PlannedModel& planned, const EngineOptions& options, const ModelConfig& config,
                         const std::function<void(DeviceSplit)>& plan);

/// "layers 0 to 15 on cuda:0, 16 to 31 on cuda:1, as asked for: at least 1.46 ms a token"
std::string describe_split(const PlannedModel& planned, const EngineOptions& options, const std::string& why);

}  // namespace rocmforge
