#pragma once

#include <functional>

namespace CLI {
class App;
}

namespace rocmforge::app {

/// What the command line asks for; runs after all of it has been read. Returns the exit code.
using Action = std::function<int()>;

// One per file. Each adds its command and, when that command was given, sets `action`.
void add_run(CLI::App& program, Action& action);
void add_chat(CLI::App& program, Action& action);
void add_inspect(CLI::App& program, Action& action);
void add_models(CLI::App& program, Action& action);
void add_tokenize(CLI::App& program, Action& action);
void add_perplexity(CLI::App& program, Action& action);
void add_bench(CLI::App& program, Action& action);
void add_devices(CLI::App& program, Action& action);
void add_serve(CLI::App& program, Action& action);
void add_load(CLI::App& program, Action& action);

}  // namespace rocmforge::app
