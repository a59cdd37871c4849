#include "hub/listing.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "base/json_document.h"
#include "base/printable.h"
#include "hub/cache.h"
#include "hub/digest.h"
#include "hub/retry.h"

namespace rocmforge::hub {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t longest_answer = std::size_t{16} << 20;
constexpr int most_pages = 100;
constexpr std::size_t most_files = 100'000;
constexpr std::uint64_t largest_file = std::uint64_t{1} << 50;

/// A JSON document whose destruction allocates nothing.
class Document {
 public:
  explicit Document(Json value) : value_(std::move(value)) {}
  ~Document() { clear(value_); }
  Document(const Document&) = delete;
  Document& operator=(const Document&) = delete;
  [[nodiscard]] const Json& value() const { return value_; }

 private:
  Json value_;
};

struct TextAnswer {
  HttpAnswer head;
  std::string text;
};

/// The answer's whole text. Retries after temporary failures.
TextAnswer get_text(HttpClient& client, const HttpRequest& request, const std::string& what) {
  Retry retry(client);
  for (;;) {
    try {
      TextAnswer answer;
      answer.head = client.get(request, [&](const HttpAnswer& head, std::string_view bytes) {
        if (answer.text.size() + bytes.size() > longest_answer) {
          throw Error(fmt::format("{}: the answer about {} is longer than {} MiB", head.host, what, longest_answer >> 20));
        }
        answer.text += bytes;
        return true;
      });
      if (answer.head.is_good()) {
        return answer;
      }
      const Error problem = refusal(answer.head, what, !request.token.empty());
      if (!may_pass(answer.head.status) || !retry.pause(problem.what(), answer.head.retry_after_seconds)) {
        throw problem;
      }
    } catch (const TransferError& error) {
      if (!error.may_pass() || !retry.pause(error.what())) {
        throw;
      }
    }
  }
}

Json parsed(const TextAnswer& answer, const std::string& what) {
  JsonDocument document = read_json(answer.text);
  if (!document.problem.empty()) {
    throw Error(fmt::format("{}: the answer about {} is no JSON: {}", answer.head.host, what, document.problem));
  }
  return std::move(document.value);
}

/// The member's text; "" when there is none.
std::string text_of(const Json& object, const char* key) {
  const auto found = object.is_object() ? object.find(key) : object.end();
  return found != object.end() && found->is_string() ? found->get<std::string>() : "";
}

std::optional<std::uint64_t> size_of(const Json& object) {
  const auto found = object.is_object() ? object.find("size") : object.end();
  if (found == object.end() || !found->is_number_integer()) {
    return std::nullopt;
  }
  const auto size = found->get<std::int64_t>();
  return size >= 0 && static_cast<std::uint64_t>(size) <= largest_file ? std::optional<std::uint64_t>(size) : std::nullopt;
}

/// The address that "Link: <...>; rel="next"" names; "" for none.
std::string next_page(const std::string& link) {
  for (std::size_t begin = link.find('<'); begin != std::string::npos; begin = link.find('<', begin + 1)) {
    const std::size_t end = link.find('>', begin);
    if (end == std::string::npos) {
      return "";
    }
    const std::string_view parameters = std::string_view(link).substr(end, link.find('<', end) - end);
    if (parameters.find("rel=\"next\"") != std::string_view::npos) {
      return link.substr(begin + 1, end - begin - 1);
    }
  }
  return "";
}

/// Lists one repository of huggingface.co.
class HuggingFaceListing {
 public:
  HuggingFaceListing(HttpClient& client, const Settings& settings, const ModelName& name)
      : client_(client), settings_(settings), name_(name) {}

  RemoteRepository read() {
    RemoteRepository repository;
    const std::string model = fmt::format("{}/api/models/{}", settings_.endpoint, name_.repository);
    const TextAnswer about = get(fmt::format("{}/revision/{}", model, encoded_path(name_.revision)));
    const Document document(parsed(about, name_.title()));
    repository.commit = text_of(document.value(), "sha");
    if (!is_commit(repository.commit)) {
      throw Error(fmt::format("{}: the answer about {} names no commit", about.head.host, name_.title()));
    }
    std::string page = fmt::format("{}/tree/{}?recursive=true", model, repository.commit);
    std::set<std::string> paths;
    for (int count = 1; !page.empty(); ++count) {
      if (count > most_pages) {
        throw Error(fmt::format("{}: the list of {} has more than {} pages", about.head.host, name_.title(), most_pages));
      }
      page = read_page(page, repository, paths);
    }
    return repository;
  }

 private:
  TextAnswer get(const std::string& url) {
    return get_text(client_, {.url = url, .token = settings_.token, .whole_seconds = settings_.answer_seconds},
                    name_.title());
  }

  /// Adds the files of one page; returns the address of the next page.
  std::string read_page(const std::string& url, RemoteRepository& repository, std::set<std::string>& paths) {
    const TextAnswer answer = get(url);
    const Document document(parsed(answer, name_.title()));
    if (!document.value().is_array()) {
      throw Error(fmt::format("{}: the list of {} is no list", answer.head.host, name_.title()));
    }
    for (const Json& entry : document.value()) {
      if (text_of(entry, "type") != "file") {
        continue;
      }
      RemoteFile file = file_of(entry, answer.head.host, repository.commit);
      if (repository.files.size() >= most_files || !paths.insert(file.path).second) {
        throw Error(fmt::format("{}: the list of {} {}", answer.head.host, name_.title(),
                                repository.files.size() >= most_files ? fmt::format("has more than {} files", most_files)
                                                                      : "names a file twice: " + file.path));
      }
      repository.files.push_back(std::move(file));
    }
    const std::string next = next_page(answer.head.header("link"));
    if (next.empty()) {
      return "";
    }
    std::string next_url = resolved_url(url, next);
    if (origin_of(next_url) != origin_of(url)) {
      throw Error(
          fmt::format("{}: the list of {} goes on at another host, {}", answer.head.host, name_.title(), host_of(next_url)));
    }
    return next_url;
  }

  [[nodiscard]] RemoteFile file_of(const Json& entry, const std::string& host, const std::string& commit) const {
    RemoteFile file;
    file.path = text_of(entry, "path");
    if (!is_safe_path(file.path)) {
      throw Error(fmt::format("{}: the list of {} has '{}', which is no path inside a repository", host, name_.title(),
                              printable(file.path, 200)));
    }
    const auto lfs = entry.find("lfs");
    const bool is_lfs = lfs != entry.end() && lfs->is_object();
    file.sum = text_of(is_lfs ? *lfs : entry, is_lfs && lfs->contains("sha256") ? "sha256" : "oid");
    const auto size = size_of(is_lfs && lfs->contains("size") ? *lfs : entry);
    if (!size || !is_hex(file.sum, is_lfs ? 64 : 40)) {
      throw Error(fmt::format("{}: the list of {} gives no size and checksum of {}", host, name_.title(), file.path));
    }
    file.size = *size;
    file.url = fmt::format("{}/{}/resolve/{}/{}", settings_.endpoint, name_.repository, commit, encoded_path(file.path));
    return file;
  }

  HttpClient& client_;
  const Settings& settings_;
  const ModelName& name_;
};

RemoteRepository read_manifest(HttpClient& client, const Settings& settings, const ModelName& name) {
  const std::string tag = name.choice.empty() ? "latest" : name.choice;
  const std::string what = name.title() + ":" + tag;
  const std::string base = fmt::format("{}/v2/{}", settings.ollama_endpoint, name.repository);
  const HttpRequest request = {.url = fmt::format("{}/manifests/{}", base, encoded_path(tag)),
                               .headers = {"Accept: application/vnd.docker.distribution.manifest.v2+json"},
                               .whole_seconds = settings.answer_seconds};
  const TextAnswer answer = get_text(client, request, what);
  const Document document(parsed(answer, what));
  const auto layers = document.value().is_object() ? document.value().find("layers") : document.value().end();
  if (layers == document.value().end() || !layers->is_array()) {
    throw Error(fmt::format("{}: the manifest of {} has no layers", answer.head.host, what));
  }
  RemoteRepository repository;
  repository.commit = Digest::sha256(answer.text);
  for (const Json& layer : *layers) {
    if (text_of(layer, "mediaType") != "application/vnd.ollama.image.model") {
      continue;
    }
    const std::string digest = text_of(layer, "digest");
    const auto size = size_of(layer);
    if (!digest.starts_with("sha256:") || !is_hex(digest.substr(7), 64) || !size) {
      throw Error(fmt::format("{}: the manifest of {} gives no size and checksum of the model", answer.head.host, what));
    }
    repository.files.push_back(
        {.path = fmt::format("{}-{}.gguf", name.repository.substr(name.repository.find('/') + 1), tag),
         .url = fmt::format("{}/blobs/{}", base, digest),
         .size = *size,
         .sum = digest.substr(7)});
  }
  if (repository.files.size() != 1) {
    throw Error(fmt::format("{}: the manifest of {} names {} GGUF models, one was expected", answer.head.host, what,
                            repository.files.size()));
  }
  return repository;
}

}  // namespace

RemoteRepository list_repository(HttpClient& client, const Settings& settings, const ModelName& name) {
  return name.source == ModelName::Source::ollama ? read_manifest(client, settings, name)
                                                  : HuggingFaceListing(client, settings, name).read();
}

Error refusal(const HttpAnswer& answer, const std::string& what, bool had_token) {
  constexpr std::size_t longest_reason = 300;
  const std::string own = printable(answer.header("x-error-message"), longest_reason);
  const auto line = [&](std::string_view meaning) {
    return Error(
        fmt::format("{}: {}: {} (status {}{})", answer.host, what, meaning, answer.status, own.empty() ? "" : ": " + own));
  };
  switch (answer.status) {
    case 401:
      return line(had_token ? "the token is not accepted, or there is no such model"
                            : "there is no such model, or it is private or gated: set HF_TOKEN");
    case 403:
      return line(had_token ? "the token gives no access; the terms of a gated model are accepted on its page"
                            : "access is refused: set HF_TOKEN");
    case 404:
      return line("there is no such model or file");
    case 416:
      return line("it does not give the part that was asked for");
    case 429:
      return line(answer.retry_after_seconds > 0
                      ? fmt::format("too many requests: it asks to wait for {} s", answer.retry_after_seconds)
                      : "too many requests");
    default:
      return line(answer.status >= 500 ? "the server has failed" : "the answer is none that was expected");
  }
}

}  // namespace rocmforge::hub
