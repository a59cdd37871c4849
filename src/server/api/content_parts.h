#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "chat/conversation.h"
#include "server/api/fields.h"

namespace rocmforge {

// Parts of messages, in the forms of all APIs. The model reads text alone: what is text is shown as text, what can be read
// is shown as text too (a plain document, a search's results), and of the rest the model sees a placeholder that says what
// was there. A client sends its whole conversation each time, so that a part that is refused would end it for good.

/// The text that stands for a part. Whatever is not a plain text is named among the request's unknown fields:
/// "messages[0].content[1].image". Throws ApiError(400) for a part without a type, or a text without its text.
std::string shown_text(Fields& part);

/// The parts of a content, which is a text or an array of parts. Throws ApiError(400).
std::vector<Part> shown_parts(Fields& fields, std::string_view name);

/// The same as content: "" for no parts, the text itself for one.
Content shown_content(Fields& fields, std::string_view name);

/// The text of all parts, with `between` between two of them.
std::string joined(const std::vector<Part>& parts, std::string_view between);

/// "[web_search_call {...}]": what can be read of a call that a vendor's server made, or of its result. Encrypted members,
/// ids and bytes are left out.
std::string shown_record(std::string_view type, const Json& record);

/// What the model sees in place of something that it can't.
std::string placeholder(std::string_view kind, std::string_view name = {});

}  // namespace rocmforge
