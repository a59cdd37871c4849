#pragma once

#include <string>
#include <vector>

namespace CLI {
class App;
class ParseError;
}  // namespace CLI

namespace rocmforge::app {

/// What is wrong with the command line, and where to read on: one line.
std::string describe(const CLI::ParseError& error, const CLI::App& program, const std::vector<std::string>& arguments);

}  // namespace rocmforge::app
