#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace rocmforge::app {

/// An option or an environment variable of llama.cpp's programs or of Ollama.
struct ForeignOption {
  enum class Kind {
    same,     ///< is the option that `text` names
    always,   ///< its effect is always there: taken with a note, `text`
    on,       ///< its effect is always there; a value on, off or auto may follow, and off is refused with `text`
    instead,  ///< refused: `text` says what there is in its place
  };
  std::string_view names;  ///< "-fa,--flash-attn"
  Kind kind = Kind::instead;
  std::string_view text;
  std::string_view variables{};  ///< environment variables that set it: "LLAMA_ARG_FLASH_ATTN"

  [[nodiscard]] std::vector<std::string> all_names() const;
};

/// The option of that name, with its dashes and without a value ("-fa"); null for any other word.
const ForeignOption* find_foreign_option(std::string_view name);
/// The option that an environment variable sets.
const ForeignOption* find_foreign_variable(std::string_view name);

/// A variable of the environment that is set and is not empty.
struct ForeignVariable {
  std::string name, value;
  const ForeignOption* option = nullptr;
};
/// Those that set a foreign option, llama.cpp's first.
std::vector<ForeignVariable> foreign_variables();

}  // namespace rocmforge::app
