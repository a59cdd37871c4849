#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

#include "hub/cache.h"
#include "hub/http_client.h"
#include "hub/listing.h"

namespace rocmforge::hub {

/// Progress of a download, called on its own thread.
struct DownloadWatch {
  std::function<void(std::uint64_t bytes)> bytes;        ///< bytes of this file so far
  std::function<void(const std::string& reason)> waits;  ///< why it pauses: another program's download, a server that failed
};

/// The bytes of the file that the cache already has, in a complete or incomplete blob.
std::uint64_t bytes_there(const RepositoryCache& cache, const RemoteFile& file);

/// Downloads the file's blob, unless it exists: resumes an earlier download, waits for one of another program,
/// retries after temporary failures, verifies the checksum. Throws Error. Bytes that have arrived are kept for
/// the next time, unless the checksum is wrong.
void download(HttpClient& client, const RemoteFile& file, const std::string& token, const RepositoryCache& cache,
              const DownloadWatch& watch);

/// The file's first `count` bytes, or all when it is shorter. Throws Error.
std::string first_bytes(HttpClient& client, const RemoteFile& file, const std::string& token, std::size_t count);

}  // namespace rocmforge::hub
