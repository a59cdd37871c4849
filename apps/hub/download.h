#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

#include "hub/cache.h"
#include "hub/http_client.h"
#include "hub/listing.h"

namespace rocmforge::hub {

/// What a download tells while it runs, on its own thread.
struct DownloadWatch {
  std::function<void(std::uint64_t bytes)> bytes;        ///< of this file, that are there
  std::function<void(const std::string& reason)> waits;  ///< a pause: another program's download, a server that failed
};

/// Bytes of the file that a new download has not to fetch: all of a blob, what there is of an unfinished one.
std::uint64_t bytes_there(const RepositoryCache& cache, const RemoteFile& file);

/// Makes the file's blob, unless it is there: goes on where an earlier download ended, waits for one that another program
/// runs, tries again after failures that may pass, compares the checksum. Throws Error. What has arrived by then stays for
/// the next time, but nothing of a content whose checksum is wrong.
void download(HttpClient& client, const RemoteFile& file, const std::string& token, const RepositoryCache& cache,
              const DownloadWatch& watch);

/// The file's first `count` bytes, or all when it is shorter. Throws Error.
std::string first_bytes(HttpClient& client, const RemoteFile& file, const std::string& token, std::size_t count);

}  // namespace rocmforge::hub
