#pragma once

#include <boost/asio/buffer.hpp>
#include <boost/beast/core/buffers_range.hpp>
#include <boost/beast/http/message.hpp>
#include <boost/optional/optional.hpp>
#include <boost/system/error_code.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "service/request_memory.h"

namespace rocmforge {

/// A request's body, for Beast's parser. Its memory is allocated and counted as it arrives, not as Content-Length promises.
struct CountedBody {
  struct value_type {
    std::string text{};
    std::shared_ptr<MemoryClaim> memory{};  ///< grows with the text; null: nothing is counted
  };

  static std::uint64_t size(const value_type& body) { return body.text.size(); }

  class reader {
   public:
    template <bool is_request, class Fields>
    reader(boost::beast::http::header<is_request, Fields>&, value_type& body) : body_(body) {}

    void init(const boost::optional<std::uint64_t>& length, boost::system::error_code& error) {
      length_ = length ? static_cast<std::size_t>(*length) : 0;
      error = {};
    }

    template <class Buffers>
    std::size_t put(const Buffers& buffers, boost::system::error_code& error) {
      const std::size_t size = boost::asio::buffer_size(buffers);
      if (!make_room(body_.text.size() + size)) {
        error = boost::system::errc::make_error_code(boost::system::errc::not_enough_memory);
        return 0;
      }
      for (const auto buffer : boost::beast::buffers_range_ref(buffers)) {
        body_.text.append(static_cast<const char*>(buffer.data()), buffer.size());
      }
      error = {};
      return size;
    }

    void finish(boost::system::error_code& error) { error = {}; }

   private:
    bool make_room(std::size_t size) {
      const std::size_t before = body_.text.capacity();
      if (size <= before) {
        return true;
      }
      const std::size_t after = std::max(size, length_ > 0 ? std::min(2 * before, length_) : 2 * before);
      if (body_.memory != nullptr && !body_.memory->set(static_cast<std::int64_t>(after))) {
        return false;
      }
      body_.text.reserve(after);
      return true;
    }

    value_type& body_;
    std::size_t length_ = 0;
  };
};

}  // namespace rocmforge
