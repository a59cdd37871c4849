#pragma once

#include <exception>
#include <string>

#include "engine/engine.h"

namespace rocmforge::app {

/// Thrown where this process has followed rank 0 until its end: the program ends with 0.
class FollowedToEnd : public std::exception {};

/// With EngineOptions::as_process joins the processes that mpirun or srun has started, once in a program. Rank 0 gets the
/// options to lead them. The others load the model and follow here, and never return. A rank that stops or can't go on ends
/// the job, with one line. Throws UsageError where no launcher has started the program.
void take_rank(const std::string& path, EngineOptions& options);

}  // namespace rocmforge::app
