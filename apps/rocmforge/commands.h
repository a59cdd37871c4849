#pragma once

#include "command.h"

namespace rocmforge::app {

// One per file. The action owns the variables of the options.
Command run_command();
Command chat_command();
Command inspect_command();
Command models_command();
Command pull_command();
Command tokenize_command();
Command perplexity_command();
Command bench_command();
Command devices_command();
Command check_command();
Command serve_command();
Command load_command();
// These two describe the whole program, which must outlive them.
Command help_command(const Command& program);
Command version_command();

// Commands below `rocmforge bench`.
Command bench_attention_command();
Command bench_matmul_command();
Command bench_step_command();

}  // namespace rocmforge::app
