#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

namespace rocmforge::hub {

/// The hub's addresses and folders. read_settings() takes them from the variables of huggingface_hub.
struct Settings {
  std::string endpoint = "https://huggingface.co";             ///< HF_ENDPOINT
  std::string ollama_endpoint = "https://registry.ollama.ai";  ///< ROCMFORGE_OLLAMA_ENDPOINT
  std::filesystem::path cache;  ///< HF_HUB_CACHE, HUGGINGFACE_HUB_CACHE, HF_HOME/hub, else ~/.cache/huggingface/hub
  std::string
      token;  ///< HF_TOKEN, HUGGING_FACE_HUB_TOKEN, else the file HF_TOKEN_PATH or HF_HOME/token; for `endpoint` alone
  std::string certificates;  ///< CURL_CA_BUNDLE, SSL_CERT_FILE; "": the system's
  std::string user_agent = "rocmforge";
  bool offline = false;           ///< HF_HUB_OFFLINE
  int answer_seconds = 30;        ///< time limit of a list or a manifest: HF_HUB_ETAG_TIMEOUT
  int stall_seconds = 30;         ///< longest time without a byte of a file: HF_HUB_DOWNLOAD_TIMEOUT
  std::uint64_t least_speed = 0;  ///< bytes of a file a second, in every `stall_seconds`; 0: any
};

/// The hub's cache; "" if neither a variable nor HOME is set.
std::filesystem::path cache_folder();

/// Throws Error for an invalid endpoint or number.
Settings read_settings();

}  // namespace rocmforge::hub
