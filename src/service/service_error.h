#pragma once

#include <cstdint>
#include <exception>
#include <string>
#include <utility>

namespace rocmforge {

/// Why a request is not served. What an API makes of it (a status, the form of an error) is the API's matter. It is no
/// Error: code that replaces what it could not read must not catch it.
class ServiceError : public std::exception {
 public:
  enum class Kind : std::uint8_t {
    invalid,      ///< the request is wrong
    unsupported,  ///< the model can't do it
    busy,         ///< there is no place for it now
    no_memory,    ///< there is no memory for it now
  };

  /// `field`: the one that is wrong, by the name that the request's reader gave; "" for none.
  ServiceError(Kind why, std::string text, std::string name = {})
      : kind(why), message(std::move(text)), field(std::move(name)) {}
  [[nodiscard]] const char* what() const noexcept override { return message.c_str(); }

  Kind kind;
  std::string message;
  std::string field;
};

}  // namespace rocmforge
