#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "hub/http_client.h"
#include "hub/name.h"
#include "hub/settings.h"

namespace rocmforge::hub {

/// A file that a hub offers.
struct RemoteFile {
  std::string path;  ///< inside the repository; is_safe_path()
  std::string url;
  std::uint64_t size = 0;
  std::string
      sum;  ///< 64 hexadecimal digits: SHA-256; 40: what git calls the content, SHA-1 of "blob SIZE\0" and the content
};

struct RemoteRepository {
  std::string commit;  ///< is_commit()
  std::vector<RemoteFile> files;
};

/// What huggingface.co lists at the revision, or what a manifest of Ollama's registry names: the model alone. Throws Error
/// in one line: who answered, about what, and why not. What is read into memory is bounded.
RemoteRepository list_repository(HttpClient& client, const Settings& settings, const ModelName& name);

/// The error that an answer stands for which is none of 2xx.
Error refusal(const HttpAnswer& answer, const std::string& what, bool had_token);

}  // namespace rocmforge::hub
