#include "engine/prompt_pieces.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <string>

#include "base/sha256.h"
#include "weights/fingerprint.h"

namespace rocmforge {

PieceKey identity_of(std::span<const GgufFile* const> files, std::string_view options, const SequenceMemory& memory) {
  std::string text(options);
  for (const GgufFile* file : files) {
    text += "\n" + fingerprint(*file);
  }
  for (std::size_t kind = 0; kind < memory.num_kinds(); ++kind) {
    text += fmt::format("\n{} bytes", memory.copy_bytes(kind));
  }
  for (const KvGroup& group : memory.groups()) {
    text += fmt::format("\nwindow {}", group.window);
    for (std::size_t plane = 0; plane < group.planes.size(); ++plane) {
      const KvLayout& layout = group.planes[plane];
      text += fmt::format("\n{} {} {} {} {} {} {} {}", name(layout.dtype), layout.block_tokens, layout.kv_heads,
                          layout.head_dim, static_cast<int>(layout.k_order), static_cast<int>(layout.v_order),
                          layout.value_dim, name(group.side_of(plane)));
    }
  }
  return sha256({reinterpret_cast<const std::uint8_t*>(text.data()), text.size()});
}

void append_contents(std::vector<std::int32_t>& contents, const KnownPrompt& prompt, std::int32_t block_tokens,
                     std::size_t first, std::size_t end) {
  std::vector<std::int32_t> memory;
  for (std::size_t block = first; block < end; ++block) {
    const auto position = static_cast<std::int32_t>(block) * block_tokens;
    const auto content = content_of(prompt.tokens, prompt.spans, position, position + block_tokens, memory);
    contents.push_back(static_cast<std::int32_t>(content.size()));
    contents.insert(contents.end(), content.begin(), content.end());
  }
}

std::size_t PromptPieces::blocks_of_least(std::size_t bytes) const {
  const std::size_t block_bytes = std::max<std::size_t>(memory_->copy_bytes(0), 1);
  return std::max<std::size_t>((bytes + block_bytes - 1) / block_bytes, 1);
}

std::size_t PromptPieces::blocks_of_most(std::size_t bytes) const {
  return std::max<std::size_t>(bytes / std::max<std::size_t>(memory_->copy_bytes(0), 1), 1);
}

std::size_t PromptPieces::usable(const KnownPrompt& prompt) const {
  return cache_->prefixes()->hold(prompt.tokens, prompt.salt, prompt.spans).num_blocks();
}

std::vector<PromptPieces::Part> PromptPieces::parts_of(std::size_t first, std::size_t end, bool checkpoint) const {
  std::vector<Part> parts{{.kind = 0, .first = first, .start = 0}};
  std::size_t bytes = (end - first) * memory_->copy_bytes(0);
  for (std::size_t kind = 1; checkpoint && kind < memory_->num_kinds(); ++kind) {
    parts.push_back({.kind = kind, .first = cache_->prefixes()->first_needed(kind, end), .start = bytes});
    bytes += (end - parts.back().first) * memory_->copy_bytes(kind);
  }
  parts.push_back({.kind = 0, .first = end, .start = bytes});
  return parts;
}

std::vector<std::byte> PromptPieces::save(const PrefixCache::Held& run, std::size_t first, std::size_t end,
                                          bool checkpoint) const {
  const std::vector<Part> parts = parts_of(first, end, checkpoint);
  std::vector<std::byte> bytes(parts.back().start);
  memory_->wait();  // copies to host memory may be under way
  for (const Part& part : parts) {
    const std::size_t size = memory_->copy_bytes(part.kind);
    std::byte* to = bytes.data() + part.start;
    for (std::size_t i = part.first; i < end; ++i, to += size) {
      if (const PrefixCache::Held::Place place = run.place(part.kind, i); place.on_host) {
        std::memcpy(to, memory_->host_copies()[part.kind].block(place.id), size);
      } else {
        memory_->save(part.kind, place.id, to);
      }
    }
  }
  memory_->wait();
  return bytes;
}

bool PromptPieces::bring(const KnownPrompt& prompt, std::size_t first, std::size_t end, bool checkpoint,
                         std::span<const std::byte> bytes) {
  const std::vector<Part> parts = parts_of(first, end, checkpoint);
  PrefixCache& prefixes = *cache_->prefixes();
  if (bytes.size() != parts.back().start || prefixes.num_known(prompt.tokens, prompt.salt, prompt.spans) < first) {
    return false;
  }
  memory_->wait();  // earlier copies may still read or write host memory
  for (const PrefixCache::Added& copy : prefixes.add_on_host(prompt.tokens, prompt.salt, prompt.spans, end, checkpoint)) {
    const Part& part = parts[copy.kind];
    const std::size_t size = memory_->copy_bytes(copy.kind);
    std::memcpy(memory_->host_copies()[copy.kind].block(copy.id),
                bytes.data() + part.start + (copy.index - part.first) * size, size);
  }
  return true;
}

}  // namespace rocmforge
