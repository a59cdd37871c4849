#pragma once

#include <string>
#include <string_view>

namespace rocmforge::hub {

/// A model's name, in one of these forms:
///   OWNER/REPO[:QUANT], OWNER/REPO/FILE.gguf, hf.co/OWNER/REPO[:QUANT], an address of a file at huggingface.co;
///   NAME[:TAG], ollama.com/library/NAME[:TAG], ollama.com/OWNER/NAME[:TAG].
struct ModelName {
  enum class Source { hugging_face, ollama };
  Source source = Source::hugging_face;
  std::string repository;         ///< "OWNER/REPO"; for Ollama "library/NAME" or "OWNER/NAME"
  std::string choice;             ///< the quant or Ollama's tag; "" for none
  std::string file;               ///< a path inside the repository; "" for none
  std::string revision = "main";  ///< branch, tag or commit

  /// "OWNER/REPO", "ollama.com/library/NAME": what messages call the repository.
  [[nodiscard]] std::string title() const;
};

/// Throws Error that lists the forms of names.
ModelName parse_model_name(std::string_view text);

/// Whether `text` has the form of OWNER/REPO[:QUANT] or OWNER/REPO/FILE.gguf, which a path can have too.
bool looks_like_hub_name(std::string_view text);

/// Whether a path from outside stays inside its folder, on any system: relative, without "..",
/// empty parts, backslashes and control characters, in UTF-8.
bool is_safe_path(std::string_view path);

}  // namespace rocmforge::hub
