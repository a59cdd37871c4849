#pragma once

#include <cstddef>
#include <memory>
#include <new>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <type_traits>

namespace rocmforge {

/// Memory for lists of JSON values. When the system has none, it comes from a reserve of this program. To free a value, the
/// library moves its elements into such a list in a destructor, where an exception would end the program. Throws
/// std::bad_alloc when the reserve is also used up. Threads may call these at the same time.
void* take_list_memory(std::size_t bytes);
void give_back_list_memory(void* memory) noexcept;

/// The size of the reserve. It suffices to free a value that holds a quarter of a million others. Until it is used, it takes
/// only address space. Whole documents, which may be larger, are freed by clear().
constexpr std::size_t list_reserve_bytes = std::size_t{8} << 20;

}  // namespace rocmforge

/// The allocator of std::vector<ordered_json>. Every file that uses the library must include this header instead of the
/// library's, so that all files use the same allocator.
template <>
class std::allocator<nlohmann::ordered_json> {
 public:
  using value_type = nlohmann::ordered_json;
  using size_type = std::size_t;
  using difference_type = std::ptrdiff_t;
  using propagate_on_container_move_assignment = std::true_type;
  using is_always_equal = std::true_type;

  allocator() = default;
  template <class Other>
  allocator(const allocator<Other>& /*other*/) noexcept {}

  value_type* allocate(std::size_t count);
  void deallocate(value_type* memory, std::size_t /*count*/) noexcept { rocmforge::give_back_list_memory(memory); }

  friend bool operator==(const allocator&, const allocator&) noexcept { return true; }
};

#include <nlohmann/json.hpp>

inline nlohmann::ordered_json* std::allocator<nlohmann::ordered_json>::allocate(std::size_t count) {
  static_assert(alignof(value_type) <= alignof(std::max_align_t));
  if (count > std::size_t(-1) / sizeof(value_type)) {
    throw std::bad_array_new_length();
  }
  return static_cast<value_type*>(rocmforge::take_list_memory(count * sizeof(value_type)));
}

// The library's largest templates are compiled only in json_instances.cpp. Without these lines each file would contain a
// copy.
namespace rocmforge {
using JsonFromString = nlohmann::detail::iterator_input_adapter<std::string::const_iterator>;
using JsonFromView = nlohmann::detail::iterator_input_adapter<const char*>;
}  // namespace rocmforge
extern template class nlohmann::basic_json<nlohmann::ordered_map>;
extern template class nlohmann::detail::serializer<nlohmann::ordered_json>;
extern template class nlohmann::detail::lexer<nlohmann::ordered_json, rocmforge::JsonFromString>;
extern template class nlohmann::detail::lexer<nlohmann::ordered_json, rocmforge::JsonFromView>;
extern template class nlohmann::detail::parser<nlohmann::ordered_json, rocmforge::JsonFromString>;
extern template class nlohmann::detail::parser<nlohmann::ordered_json, rocmforge::JsonFromView>;
