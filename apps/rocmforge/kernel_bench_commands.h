#pragma once

#include "command.h"

namespace rocmforge::app {

// Commands below `rocmforge bench`.
void add_bench_attention(CLI::App& bench, Action& action);
void add_bench_matmul(CLI::App& bench, Action& action);
void add_bench_step(CLI::App& bench, Action& action);

}  // namespace rocmforge::app
