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
  std::string sum;  ///< 64 hexadecimal digits: SHA-256; 40: git's blob id, SHA-1 of "blob SIZE\0" and the content
};

struct RemoteRepository {
  std::string commit;  ///< is_commit()
  std::vector<RemoteFile> files;
};

/// The files at the revision on huggingface.co, or the model in a manifest of Ollama's registry. Throws Error
/// in one line: the server, the request and the reason. The memory for an answer is bounded.
RemoteRepository list_repository(HttpClient& client, const Settings& settings, const ModelName& name);

/// The error for an answer whose status is not 2xx.
Error refusal(const HttpAnswer& answer, const std::string& what, bool had_token);

}  // namespace rocmforge::hub
